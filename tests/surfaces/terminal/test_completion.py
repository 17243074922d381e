"""`duly completion`: the script works in a shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from duly.surfaces.cli.command_line import COMMANDS
from tests.surfaces.sides import command

pytestmark = pytest.mark.requirement("S6")

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_duly; printf "%s\\n" "${COMPREPLY[@]}"
"""


def test_bash_completes_every_command_and_its_flags(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash, "bash is needed"
    script = tmp_path / "duly.bash"
    script.write_text(command("completion", "bash", environ={}).out)

    def offered(*words: str) -> set[str]:
        command = [bash, "-c", ASK, "bash", str(script), "duly", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        assert not done.stderr
        return set(done.stdout.split())

    assert offered("") >= COMMANDS.keys()
    assert offered("wor") == {"work", "workers"}
    assert offered("workers", "") >= {"list", "drain", "resume"}
    assert offered("alerts", "li") == {"list"}
    assert offered("deliveries", "list", "--se") == {"--server"}
    assert offered("completion", "") >= {"bash", "zsh", "fish"}


@pytest.mark.parametrize(
    ("shell", "own"), [("zsh", "#compdef duly\n"), ("fish", "\ncomplete -c duly ")]
)
def test_other_shells_have_a_script_and_an_unknown_one_is_refused(shell: str, own: str) -> None:
    done = command("completion", shell, environ={})
    assert (done.code, "deliveries" in done.out, own in done.out) == (0, True, True)
    assert command("completion", "tcsh", environ={}).code == 2
