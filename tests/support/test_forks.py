"""A fork behaves like a new process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.forks import Start, start, start_anew

WAYS = pytest.mark.parametrize("begin", [start, start_anew])
ASKED = """
import atexit, os, sys, threading
atexit.register(print, "last")
threading.Thread(target=sys.stdout.write, args=("beside\\n",)).start()
seen = os.getcwd(), dict(os.environ), sys.argv[1:], sys.path[0], sys.stdin.read(), os.getppid()
sys.stdout.write(f"{seen}\\n")
print(__name__, os.isatty(0), file=sys.stderr)
"""


def process(begin: Start, folder: Path, program: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(program)
    return begin(
        "program",
        "--flag",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={"LC_ALL": "C.UTF-8", "ONE": "1"},
    )


def test_it_has_the_same_environment_and_output_as_a_new_process(tmp_path: Path) -> None:
    def output_of(begin: Start) -> list[str]:
        with process(begin, tmp_path, ASKED) as one:
            words = [line for text in one.communicate("said", 30) for line in text.splitlines()]
            assert one.returncode == 0
            return sorted(words)

    assert output_of(start) == output_of(start_anew)


@WAYS
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(7)", 7),
        ("sys.exit('no')", 1),
        ("os._exit(9)", 9),
        ("raise ValueError('no')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_it_ends_like_its_program(begin: Start, end: str, code: int, tmp_path: Path) -> None:
    with process(begin, tmp_path, f"import os, signal, sys\n{end}") as one:
        _, errors = one.communicate(timeout=30)
    assert one.returncode == code
    assert ("ValueError: no" in errors) == ("ValueError" in end)


@WAYS
def test_it_can_be_stopped_and_signalled(begin: Start, tmp_path: Path) -> None:
    waits = "import signal\nprint('here', flush=True)\nsignal.pause()"
    with process(begin, tmp_path, waits) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "here\n"
        one.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, one.pid, os.WSTOPPED | os.WNOWAIT)
        assert one.poll() is None
        one.send_signal(signal.SIGCONT)
        one.terminate()
        assert one.wait(30) == -signal.SIGTERM
