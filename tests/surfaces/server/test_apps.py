"""`module:app`: how the app is found, and the errors if it is not."""

import re
import sys
from pathlib import Path

import pytest

from duly.errors import InvalidInput
from duly.surfaces.cli.server.app_loading import imported_app
from tests.surfaces.processes import Home

FILES = {
    "shop.py": "import duly\napp = duly.App()\nother = 5\n",
    "fixed.py": "import duly\napp = duly.App(concurrency=7)\n",
    "broken.py": "import duly\n1 / 0\n",
    "needy.py": "import no_such_package\n",
    "wrong.py": "import duly\napp = duly.App(port='high')\n",
}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop.deeper:app", "'shop.deeper'"),
        ("shop:nothing", "'shop' has no 'nothing'"),
        ("shop:other", "is not a duly.App but a int"),
        ("shop", "write module:app"),
        ("broken:app", "ZeroDivisionError"),
        ("needy:app", "no_such_package"),
        ("wrong:app", "port: "),
    ],
)
def test_a_path_without_an_app_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with pytest.raises(InvalidInput, match=re.escape(message)):
        imported_app(path, {})


def test_a_path_without_an_app_is_code_2_without_a_traceback(sqlite_home: Home) -> None:
    done = sqlite_home.process("work", "nowhere:app")
    assert done.returncode == 2
    assert done.stderr.startswith("error: app: there is no module 'nowhere'")
    assert "Traceback" not in done.stderr


def test_flags_reach_an_app_that_is_created_on_import(sqlite_home: Home) -> None:
    sqlite_home.write("shop.py", FILES["shop.py"])
    flags = ("--concurrency", "3", "--database", f"sqlite:///{sqlite_home.folder}/other.db")
    with sqlite_home.running("work", "shop:app", *flags) as worker:
        assert worker.wait_for("WorkerStarted")["concurrency"] == 3
    assert (sqlite_home.folder / "other.db").exists()


def test_a_flag_that_the_app_overrides_is_refused(sqlite_home: Home) -> None:
    sqlite_home.write("fixed.py", FILES["fixed.py"])
    done = sqlite_home.process("work", "fixed:app", "--concurrency", "3")
    assert done.returncode == 2
    assert done.stderr.startswith("error: concurrency: fixed:app sets it itself")
