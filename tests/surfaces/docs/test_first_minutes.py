"""The first five minutes of README.md, as a transcript in a fresh copy of the working tree."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.postgres import free_port
from tests.surfaces.docs.terminal import Terminal
from tests.surfaces.processes import DEADLINE_SECONDS

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FIRST, LAST = "## Install", "## Speed"
"""The headings between which the reader types."""
MISSING = [each for each in ("bash", "curl", "git", "make") if shutil.which(each) is None]

pytestmark = [
    pytest.mark.long,
    pytest.mark.requirement("S1", "S6", "D4"),
    pytest.mark.timeout(5 * DEADLINE_SECONDS),
    pytest.mark.skipif(
        bool(MISSING) and "CI" not in os.environ, reason=f"not installed: {MISSING}"
    ),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A fresh copy of the working tree, in which everything is installed."""
    folder = tmp_path / "duly"
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    scripts = folder / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name, arguments in (("python", ""), ("duly", "-m duly")):
        (scripts / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (scripts / name).chmod(0o755)
    for name in ("served", "installed"):
        (folder / ".venv" / f".{name}-with-python3").touch()
    # Without a terminal curl prints its progress, and by default HTTP errors are no failure.
    (folder / ".curlrc").write_text("silent\nshow-error\nfail\n")
    return folder


def tracked() -> list[str]:
    """The files of a clone, as they are in the working tree."""
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


class Reader:
    """Somebody who types the blocks of the README into terminals, in their order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._settings = {
            "DULY_PORT": str(self._port),
            "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}/src:{folder}/birthday/src",
        }
        self._steps: dict[str, Callable[[str], None]] = {
            "pip install duly": self.install,
            "# hello.py": self.write_program,
            "$ python hello.py": self.run_program,
            "duly init": self.init,
            "duly demo": self.see_the_demo,
            "make serve": self.serve,
            "curl": self.register,
        }

    def read(self, text: str) -> list[str]:
        """Type every block; returns how each begins."""
        return [self._type(block) for block in FENCE.findall(text)]

    def _type(self, block: str) -> str:
        (known,) = (each for each in self._steps if block.startswith(each))
        self._steps[known](block)
        return known

    def install(self, _block: str) -> None:
        """It is done; only whether the copy is what runs is checked."""
        with self._terminal() as terminal:
            assert str(self._folder) in terminal.run("python -c 'print(__import__(\"duly\"))'")

    def write_program(self, block: str) -> None:
        (self._folder / "hello.py").write_text(block)
        assert sum(bool(line.strip()) for line in block.splitlines()) <= 15

    def run_program(self, block: str) -> None:
        command, _, output = block.partition("\n")
        with self._terminal() as terminal:
            assert terminal.run(command.removeprefix("$ ")).strip() == output.strip()

    def init(self, block: str) -> None:
        """Its own test types the commands that it prints."""
        with self._terminal() as terminal:
            assert "wrote app.py, test_app.py" in terminal.run(block.strip())
        assert (self._folder / "shop" / "app.py").exists()

    def see_the_demo(self, block: str) -> None:
        demo, samples = commands(block)
        with self._terminal() as terminal:
            printed = terminal.run(demo)
        assert " 0 lost, 0 doubled" in printed
        with self._serving(samples) as url:
            with urllib.request.urlopen(f"{url}/", timeout=DEADLINE_SECONDS) as answer:
                assert "text/html" in answer.headers["content-type"]
            while not listed(f"{url}/v1/deliveries?tag=demo"):
                pass

    def serve(self, block: str) -> None:
        serve, test = commands(block)
        with self._serving(serve) as url:
            for path in re.findall(r"(?<= )/\w*(?= )", block.splitlines()[0]):
                with urllib.request.urlopen(url + path, timeout=DEADLINE_SECONDS) as answer:
                    assert answer.status == 200, path
        # These tests are what it runs.
        with self._terminal() as terminal:
            assert ".venv/bin/pytest" in terminal.run(f"{test} --dry-run")

    def register(self, block: str) -> None:
        post, get = commands(block.replace(":8787", f":{self._port}"))
        with self._serving("make serve"), self._terminal() as terminal:
            id = json.loads(terminal.run(post))["user"]["id"]
            found = terminal.run(get)
            assert (id in found, '"Ann"' in found) == (True, True), found

    def _terminal(self) -> Terminal:
        return Terminal(self._folder, self._settings)

    @contextmanager
    def _serving(self, command: str) -> Iterator[str]:
        """Run a server in a terminal of its own; yields its URL."""
        with self._terminal() as terminal:
            terminal.type(command)
            url = f"http://127.0.0.1:{self._port}"
            assert url in terminal.line_with("listens on")
            yield url


def commands(block: str) -> list[str]:
    """The commands of a block, without comments."""
    lines = re.split(r"(?<!\\)\n", block.strip())
    return [re.sub(r"\s{2,}#.*", "", line) for line in lines]


def listed(url: str) -> list[object]:
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
        return list(json.load(answer)["items"])


def test_the_first_five_minutes_are_as_the_readme_says(copy: Path) -> None:
    text = (copy / "README.md").read_text()
    typed = Reader(copy).read(text[text.index(FIRST) : text.index(LAST)])
    assert typed == [
        "pip install duly",
        "# hello.py",
        "$ python hello.py",
        "duly init",
        "duly demo",
        "make serve",
        "curl",
    ]
