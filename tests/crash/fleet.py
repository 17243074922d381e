"""Worker processes under a test's control: started, watched by their output, killed, stopped."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import apsw
import asyncpg

from tests.crash.worker import build
from tests.support.forks import ROOT, start

QUICK = {"DULY_LEASE": "1", "DULY_RECOVERY_INTERVAL": "0.1", "DULY_POLL": "0.1"}


class Process:
    """One worker process."""

    def __init__(self, fleet: Fleet, environment: dict[str, str]) -> None:
        self.popen = start(
            "tests.crash.worker",
            fleet.database,
            cwd=ROOT,
            env=os.environ | QUICK | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._fleet = fleet
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as lines:
            for line in lines:
                self._fleet.output.put((self, line.decode().split()))
        self.popen.wait()
        self._fleet.output.put((self, ["exited"]))

    def kill(self) -> None:
        """SIGKILL: nothing runs after it."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal, if the process is alive."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.popen.poll() is None


class Fleet:
    """The processes of one test, and everything they print."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.output: queue.Queue[tuple[Process, list[str]]] = queue.Queue()
        self.processes: list[Process] = []

    def start(self, **environment: str) -> Process:
        """Start one more worker."""
        process = Process(self, environment)
        self.processes.append(process)
        return process

    def lines(self, within: float = 60.0) -> Iterator[tuple[Process, list[str]]]:
        """Lines as they are printed; `within` seconds without a line is a failure."""
        while True:
            try:
                yield self.output.get(timeout=within)
            except queue.Empty:
                raise AssertionError(f"no worker printed a line for {within} s") from None

    def wait_for(self, event: str, within: float = 30.0) -> tuple[Process, list[str]]:
        """Wait until a worker prints a line that begins with this event."""
        for process, words in self.lines(within):
            if words[0] == event:
                return process, words
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.popen.wait()
            process._reader.join(5)


class StoreUnderTest:
    """The database, read with plain SQL while the workers run."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.postgres = database.startswith("postgres")
        self._pause = threading.Event()

    async def prepare(self) -> None:
        """Create the schema and the table of effects."""
        app = build(self.database)
        async with app:
            await app.store.targets.numbers(app.handlers.serves(), create=True)
        await self.run("create table effects (delivery text, worker integer)")

    async def deliver(self, target: str, count: int) -> list[str]:
        """Accept this many deliveries for a target."""
        async with build(self.database) as app:
            accepted = await app.deliver_many((target, {"n": n}) for n in range(count))
        return [each.id for each in accepted]

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement; `duly.` is translated for the dialect."""
        if self.postgres:
            connection = await asyncpg.connect(self.database, timeout=10)
            try:
                return [tuple(row) for row in await connection.fetch(sql)]
            finally:
                await connection.close()
        connection = apsw.Connection(self.database.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            return connection.execute(sql.replace("duly.", "duly_")).fetchall()
        finally:
            connection.close()

    async def unfinished(self) -> int:
        """How many deliveries have not ended."""
        rows = await self.run("select count(*) from duly.deliveries where state = 'pending'")
        return int(rows[0][0])

    async def until(self, sql: str, wanted: object, within: float = 200.0) -> None:
        """Wait until the statement's single value is the wanted one."""
        deadline = time.monotonic() + within
        while (found := (await self.run(sql))[0][0]) != wanted:
            if time.monotonic() > deadline:
                left = "\n".join(map(str, await self._remaining()))
                raise AssertionError(
                    f"{sql} is {found!r} and not {wanted!r} after {within} s; remaining:\n{left}"
                )
            self._pause.wait(0.05)

    async def _remaining(self) -> list[tuple[Any, ...]]:
        """Rows that show why work did not end: of the agenda and the workers."""
        agenda = await self.run("select * from duly.agenda limit 20")
        return agenda + await self.run("select * from duly.workers limit 20")

    async def until_finished(self, within: float = 200.0) -> None:
        """Wait until every delivery has ended."""
        await self.until("select count(*) from duly.deliveries where state = 'pending'", 0, within)

    async def assert_all_once(self, ids: list[str]) -> None:
        """Everything is completed, each effect exists exactly once, and no lane is left."""
        states = dict(await self.run("select state, count(*) from duly.deliveries group by state"))
        assert states == {"completed": len(ids)}
        effects = [row[0] for row in await self.run("select delivery from effects")]
        assert sorted(effects) == sorted(ids)
        assert (await self.run("select count(*) from duly.agenda"))[0][0] == 0
