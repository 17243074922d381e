"""Run commands of duly in this process, or as real processes with a deadline."""

import asyncio
import http.client
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import urlsplit

import apsw
import asyncpg

from duly import App, DeliveryRecord
from tests.support.commands import DEADLINE_SECONDS, run_command
from tests.support.forks import Start, start

DULY = (sys.executable, "-m", "duly")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests without settings of duly, plus the given variables."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    given = dict(more or {})
    if (
        given.get("DULY_DATABASE", "").startswith("postgresql:")
        and "?" not in given["DULY_DATABASE"]
    ):
        # On a busy machine a new connection can take longer than the usual limit of five seconds.
        given["DULY_DATABASE"] += f"?connect_timeout={DEADLINE_SECONDS:g}"
    return {**ours, **given}


class Home:
    """A folder with a database, in which commands are run."""

    def __init__(self, folder: Path, database: str, start: Start = start) -> None:
        self.folder = folder
        self.database = database
        self.start = start

    def duly(
        self,
        *arguments: str,
        stdin: str = "",
        environ: Mapping[str, str] | None = None,
        database: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in this process."""
        env = environment({"DULY_DATABASE": database or self.database, **(environ or {})})
        return run_command(*arguments, stdin=stdin, environ=env, folder=self.folder)

    def process(
        self, *arguments: str, environ: Mapping[str, str] | None = None, database: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in its own process, for tests that need a real process."""
        with self.start(
            "duly",
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=environment({"DULY_DATABASE": database or self.database, **(environ or {})}),
        ) as process:
            return ended(process)

    def ok(self, *arguments: str, **options: Any) -> str:
        """Run a command that has to succeed; returns its output."""
        done = self.duly(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def json(self, *arguments: str, **options: Any) -> Any:
        """Run a command with --json; returns the document."""
        return json.loads(self.ok(*arguments, "--json", **options))

    @asynccontextmanager
    async def app(self, namespace: str = "default") -> AsyncIterator[App]:
        """An App on the store, to prepare data for a command and to check its effect."""
        app = App(self.database, namespace=namespace, environment={})
        app.expect("log")
        async with app:
            yield app

    async def deliver(self, target: str, payload: object = None, **options: Any) -> str:
        """Make a delivery; returns its id."""
        async with self.app() as app:
            app.expect(target)
            return (await app.deliver(target, payload, **options)).id

    async def know(self, *targets: str) -> None:
        """Register targets, as a worker does when it starts."""
        async with self.app() as app:
            await app.store.targets.numbers(targets, create=True)

    async def find(self, id: str) -> DeliveryRecord:
        """The delivery with its current state."""
        async with self.app() as app:
            return await app.get(id)

    async def lease_ran_out(self) -> None:
        """Wait until the leases of all workers have expired; they have to be short."""
        async with self.app() as app, asyncio.timeout(DEADLINE_SECONDS):
            while any(each.alive for each in await app.store.workers.all()):
                pass

    def write(self, name: str, text: str) -> None:
        """Put a file into the folder."""
        (self.folder / name).write_text(text)

    @contextmanager
    def running(
        self, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> Iterator["Running"]:
        """A command that runs until the test is over."""
        with Running(self, arguments, environ or {}) as process:
            yield process

    @contextmanager
    def serving(
        self, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> Iterator["Running"]:
        """`duly serve` on a free port; returns when it listens."""
        with self.running("serve", *arguments, "--port", "0", environ=environ) as process:
            process.url = process.wait_for("Serving")["url"]
            yield process

    @contextmanager
    def listening(
        self, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> Iterator["Running"]:
        """`duly listen` on a free port; returns when it listens."""
        with self.running("listen", *arguments, "--port", "0", environ=environ) as process:
            process.url = process.line_with("listens on").split()[3]
            yield process

    async def execute(self, statement: str) -> None:
        """Change the database directly, without duly; tables are written `duly.name`."""
        if self.database.startswith("sqlite"):
            with closing(apsw.Connection(self.database.removeprefix("sqlite:///"))) as connection:
                connection.set_busy_timeout(int(DEADLINE_SECONDS * 1000))
                connection.execute(statement.replace("duly.", "duly_"))
        else:
            server = await asyncpg.connect(self.database, timeout=DEADLINE_SECONDS)
            await server.execute(statement, timeout=DEADLINE_SECONDS)
            await server.close()


def children(parent: int) -> list[int]:
    """The ids of a process's children, including those that ended and are not reaped yet."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(each) for each in listed.split()]


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """The result of a process once it has ended; it is killed at the deadline."""
    try:
        output = process.communicate(timeout=DEADLINE_SECONDS)
    except BaseException:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, *output)


class Running:
    """A process whose log and output are read line by line."""

    def __init__(self, home: Home, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.url = ""
        self.log: list[str] = []
        self._records: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._printed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = home.start(
            "duly",
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home.folder,
            env=environment({"DULY_DATABASE": home.database, **environ}),
        )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stderr, self._lines)),
            threading.Thread(target=self._read, args=(self.process.stdout, self._printed)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait for a log line of the event; each line is returned once."""
        while True:
            for index, record in enumerate(self._records):
                if record.get("event") == event:
                    return self._records.pop(index)
            line = self._next_line(event)
            if line.startswith("{"):
                self._records.append(json.loads(line))

    def line_with(self, text: str) -> str:
        """Wait for the next log line that contains the text."""
        while text not in (line := self._next_line(text)):
            pass
        return line

    def _next_line(self, wanted: str) -> str:
        line = self._lines.get(timeout=DEADLINE_SECONDS)
        assert line is not None, f"the process ended without {wanted}:\n{''.join(self.log)}"
        self.log.append(line)
        return line

    def printed(self) -> str | None:
        """Wait for the next line on stdout; None at its end."""
        return self._printed.get(timeout=DEADLINE_SECONDS)

    def document(self) -> dict[str, Any]:
        """The next line on stdout, which has to be a JSON document."""
        return dict(json.loads(self.printed() or "null"))

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait_until_stopped(self) -> None:
        """Wait until a failpoint has stopped the process."""
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert self.process.poll() is None, "the process ended"

    def end(self) -> int:
        """Wait until the process ends and its log is complete; returns the exit code."""
        code = self.process.wait(DEADLINE_SECONDS)
        for reader in self._readers:
            reader.join(DEADLINE_SECONDS)
        while (line := self._lines.get(timeout=DEADLINE_SECONDS)) is not None:
            self.log.append(line)
        return code

    def get(
        self, path: str, method: str = "GET", key: str | None = None
    ) -> tuple[int, str, dict[str, Any]]:
        """Send a request to the server; returns status, content type and body."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            return answer.status, answer.headers["content-type"], body
        finally:
            connection.close()

    def health_when(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Poll the verbose health until the condition holds; returns it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition(found := self.get("/health?verbose=true")[2]):
            assert time.monotonic() < deadline, found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
