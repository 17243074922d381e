"""`duly init`: the project runs as it is printed, and nothing is overwritten."""

import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.support.postgres import free_port
from tests.surfaces.docs.terminal import Terminal
from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment

pytestmark = pytest.mark.requirement("U7")

ROOT = Path(__file__).parents[3]
FILES = {"app.py", "test_app.py", ".gitignore"}
COMMAND = re.compile(r"^  (.+?)(?:  +# .*)?$", re.MULTILINE)


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in the folder, as its user."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(more),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("command", ["duly init", "duly init 'my shop'"])
def test_the_printed_commands_work_in_their_order(tmp_path: Path, command: str) -> None:
    settings = {
        "DULY_PORT": str(free_port()),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with Terminal(tmp_path, settings) as first, Terminal(tmp_path, settings) as second:
        printed = first.run(command)
        here, _, elsewhere = printed.partition("In another terminal")
        *tests, serve = COMMAND.findall(here)
        for each in tests:
            output = first.run(each)
        assert " 1 passed " in output
        first.type(serve)
        (dashboard,) = re.findall(r"the dashboard is at (\S+)$", here, re.MULTILINE)
        assert dashboard in first.line_with("listens on")
        with urllib.request.urlopen(dashboard, timeout=DEADLINE_SECONDS) as answer:
            assert "text/html" in answer.headers["content-type"]
        for each in COMMAND.findall(elsewhere):
            shown = second.run(each)
        assert re.search(r"^state +completed$", shown, re.MULTILINE)
        assert re.search(r'^result +"Hello, Ada!"$', shown, re.MULTILINE)
        second.run("duly schedules trigger app.tick")
        first.line_with("tick, due at")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("", "", 0), ("Hello", "Bye", 1), ("return f", "raise ValueError  #", 1)],
    ids=["as it is", "another result", "an error"],
)
def test_its_test_needs_pytest_alone_and_checks_the_result(
    sqlite_home: Home, old: str, new: str, code: int
) -> None:
    sqlite_home.ok("init", "shop")
    app = sqlite_home.folder / "shop" / "app.py"
    app.write_text(app.read_text().replace(old, new))
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run(app.parent, "-m", "pytest", "-W", "error", **plain)
    assert done.returncode == code, done.stdout + done.stderr


def test_it_is_formatted_and_has_no_findings_of_ruff(sqlite_home: Home) -> None:
    sqlite_home.ok("init")
    ruff = ("-m", "ruff", "--isolated")
    for command in (("check", "--extend-select", "I,UP,B,W"), ("format", "--check")):
        done = run(sqlite_home.folder, *ruff, *command)
        assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_its_types_are_right(sqlite_home: Home) -> None:
    sqlite_home.ok("init")
    mypy = ("-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache")
    done = run(sqlite_home.folder, *mypy, "app.py", "test_app.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("there", ["app.py", "test_app.py", "app"])
def test_what_exists_is_refused_and_unchanged(sqlite_home: Home, there: str) -> None:
    folder = sqlite_home.folder / "shop"
    folder.mkdir()
    (folder / there).write_text("mine")
    done = sqlite_home.process("init", "shop")
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{folder} already has {there}, so nothing was written; rename" in done.stderr
    assert names(folder) == {there}
    assert (folder / there).read_text() == "mine"


def test_a_link_to_nowhere_exists_too(sqlite_home: Home) -> None:
    (sqlite_home.folder / "app.py").symlink_to("elsewhere.py")
    assert sqlite_home.duly("init").returncode == 5
    assert not (sqlite_home.folder / "elsewhere.py").exists()


def test_an_own_gitignore_stays(sqlite_home: Home) -> None:
    sqlite_home.write(".gitignore", "build/\n")
    done = sqlite_home.duly("init", "--json")
    assert done.returncode == 0, done.stderr
    assert ".gitignore exists and was not changed; add a line to it: duly.db*" in done.stderr
    assert '"files":["app.py","test_app.py"]' in done.stdout
    assert (sqlite_home.folder / ".gitignore").read_text() == "build/\n"


def test_git_ignores_the_database(sqlite_home: Home) -> None:
    sqlite_home.ok("init")
    for name in ("duly.db", "duly.db-wal", "duly.db-shm", "duly.db.lock"):
        sqlite_home.write(name, "")
    for command in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", *command], cwd=sqlite_home.folder, check=True)
    listed = subprocess.check_output(["git", "ls-files"], cwd=sqlite_home.folder, text=True)
    assert set(listed.split()) == FILES


def test_the_written_files_are_printed_as_a_document(sqlite_home: Home) -> None:
    folder = sqlite_home.folder / "deep" / "er"
    found = sqlite_home.json("init", "deep/er")
    assert found == {"folder": str(folder), "files": ["app.py", "test_app.py", ".gitignore"]}
    assert names(folder) == FILES


def test_a_folder_that_cannot_be_written_is_an_error(sqlite_home: Home) -> None:
    sqlite_home.write("file", "")
    done = sqlite_home.duly("init", "file/shop")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {sqlite_home.folder}/file/shop cannot be written: Not a directory; "
        "give another folder: duly init FOLDER\n"
    )


def test_a_kill_leaves_no_part_of_a_file(sqlite_home: Home) -> None:
    dies = "os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)"
    call = "from duly.surfaces.cli.main import run; run(['init'])"
    killed = run(sqlite_home.folder, "-c", f"import os, signal; {dies}; {call}")
    assert killed.returncode == -9, killed.stderr
    assert not names(sqlite_home.folder) & FILES
    sqlite_home.ok("init")
    assert names(sqlite_home.folder) >= FILES


def test_the_wheel_has_the_project(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    done = run(ROOT, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    template = "duly/surfaces/cli/starter/template/"
    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if name.startswith(template)}
    assert found == {f"{template}{name.lstrip('.')}.txt" for name in FILES}
