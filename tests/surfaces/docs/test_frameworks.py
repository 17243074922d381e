"""The examples of docs/frameworks.md, run unchanged: real frameworks, both stores."""

import json
import queue
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from duly import App
from tests.surfaces.processes import DEADLINE_SECONDS, environment

pytestmark = [pytest.mark.requirement("D13", "S1"), pytest.mark.long]
GUIDE = Path(__file__).parents[3] / "docs" / "frameworks.md"
PROJECT = """
from pathlib import Path
SECRET_KEY = "for a test"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "urls"
USE_TZ = True
DATABASES = {"default": DATABASE}
"""
URLS = """
from django.urls import path
from shop.views import register
urlpatterns = [path("users/<name>", register)]
"""


def write_files(chapter: str, folder: Path, *, store: str = "") -> None:
    """Write the files of a chapter of the guide under the paths in their first lines."""
    text = re.search(rf"^## {chapter}$(.*?)(?=^## |\Z)", GUIDE.read_text(), re.M | re.S)
    assert text is not None
    blocks = re.findall(r"```python\n# (\S+)(?: \((\w+)\))?\n(.*?)```", text[1], re.S)
    assert blocks
    for name, only, code in blocks:
        if not only or only == store:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)


class Program:
    """A process whose output is read line by line."""

    def __init__(self, *arguments: str, folder: Path, environ: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment({"PYTHONUNBUFFERED": "1", **environ}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def line_with(self, pattern: str) -> re.Match[str]:
        """Wait for the next line that matches the pattern; returns the match."""
        while True:
            line = self._lines.get(timeout=DEADLINE_SECONDS)
            assert line is not None, f"it ended without {pattern!r}: {self.lines}"
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def close(self) -> None:
        """Kill the process, if it still runs."""
        self.process.kill()
        self._reader.join()
        with self.process:
            pass

    def end(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS)


@contextmanager
def program(*arguments: str, folder: Path, **environ: str) -> Iterator[Program]:
    found = Program(*arguments, folder=folder, environ=environ)
    try:
        yield found
    finally:
        found.close()


def post(url: str) -> str:
    """Call a view that makes a delivery; returns its id."""
    request = urllib.request.Request(url, b"", method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
        assert answer.status == 202
        return str(json.load(answer)["id"])


async def assert_done(database: str, id: str, workers: int = 1) -> None:
    """The delivery is completed, and its workers have stopped gracefully."""
    async with App(database, environment={}) as app:
        assert (await app.get(id)).state == "completed"
        assert [each.ended_how for each in await app.workers.list()] == ["stopped"] * workers


async def test_fastapi(database_url: str, tmp_path: Path) -> None:
    write_files("FastAPI", tmp_path)
    command = ("-m", "uvicorn", "shop:app", "--port", "0")
    with program(*command, folder=tmp_path, DULY_DATABASE=database_url) as server:
        url = server.line_with(r"running on (http://\S+)")[1]
        id = post(f"{url}/users/Ada")
        server.line_with("welcome Ada")
        # uvicorn raises the signal again after it has stopped.
        assert server.end() in (0, -signal.SIGTERM)
    await assert_done(database_url, id)


async def test_fastapi_does_not_start_without_its_worker(tmp_path: Path) -> None:
    write_files("FastAPI", tmp_path)
    unreachable = "postgresql://127.0.0.1:9/none"
    command = ("-m", "uvicorn", "shop:app", "--port", "0")
    with program(*command, folder=tmp_path, DULY_DATABASE=unreachable) as server:
        server.line_with("StoreUnavailable")
        server.line_with("startup failed")
        assert server.process.wait(DEADLINE_SECONDS) == 3


def django_project(folder: Path, database: str) -> None:
    """The files of `django-admin startproject` and `startapp` that the test needs."""
    write_files("Django", folder, store="SQLite" if database.startswith("sqlite") else "PostgreSQL")
    for package in ("shop", "shop/management", "shop/management/commands"):
        (folder / package / "__init__.py").touch()
    own: dict[str, str | int | None]
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "django.db")}
    if not database.startswith("sqlite"):
        parts = urlsplit(database)
        own = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.removeprefix("/"),
            "USER": parts.username,
            "PASSWORD": parts.password,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    (folder / "settings.py").write_text(f"DATABASE = {own!r}\n{PROJECT}")
    (folder / "urls.py").write_text(URLS)


async def test_django(database_url: str, tmp_path: Path) -> None:
    django_project(tmp_path, database_url)
    settings = {"DULY_DATABASE": database_url, "DJANGO_SETTINGS_MODULE": "settings"}
    serve = ("-m", "django", "runserver", "--noreload", "--skip-checks", "127.0.0.1:0")
    with (
        program("-m", "django", "work", "--skip-checks", folder=tmp_path, **settings) as worker,
        program(*serve, folder=tmp_path, **settings) as server,
    ):
        url = server.line_with(r"server at (http://\S+)/")[1]
        id = post(f"{url}/users/Ada")
        worker.line_with("welcome Ada")
        assert worker.end() == 0
    await assert_done(database_url, id)


async def test_flask(database_url: str, tmp_path: Path) -> None:
    write_files("Flask", tmp_path)
    serve = ("-m", "duly", "serve", "tasks:app", "--port", "0")
    with program(*serve, folder=tmp_path, DULY_DATABASE=database_url) as worker:
        api = worker.line_with(r"listens on (http://[^\s\",]+)")[1]
        flask = ("-m", "flask", "--app", "shop", "run", "--port", "0")
        with program(*flask, folder=tmp_path, DULY_SERVER=api) as server:
            url = server.line_with(r"Running on (http://\S+)")[1]
            id = post(f"{url}/users/Ada")
            worker.line_with("welcome Ada")
        assert worker.end() == 0
    await assert_done(database_url, id)
