"""A caller that dies before its commit delivered nothing; one that dies after it, everything."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import duly
from duly.testing import run_until_idle
from tests.crash.fleet import Books
from tests.crash.worker import build
from tests.services.drivers import ASYNC, PLAIN
from tests.support.forks import ROOT, start

pytestmark = [pytest.mark.requirement("F10"), pytest.mark.long]
DRIVERS = sorted(ASYNC | PLAIN)


class Caller:
    """A process that speaks in lines and is spoken to in lines."""

    def __init__(self, mode: str, database: str, failpoints: str) -> None:
        self.popen = start(
            "tests.crash.caller",
            mode,
            database,
            cwd=ROOT,
            env=os.environ | {"DULY_FAILPOINTS": failpoints},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> list[str]:
        """Its next words; none at its end."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().split()

    def tell(self) -> None:
        """Let it go on."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def end(self, number: int = signal.SIGKILL) -> int:
        """End it, and its code."""
        self.popen.send_signal(number)
        self.popen.communicate()
        return self.popen.returncode


@contextmanager
def caller(mode: str, database: str, failpoints: str = "") -> Iterator[Caller]:
    started = Caller(mode, database, failpoints)
    try:
        yield started
    finally:
        started.end()


async def delivered(books: Books, database: str) -> list[str]:
    """What was on the books, all of it delivered by now."""
    async with build(database) as app:
        keys = sorted(str(each.key) for each in await app.list())
        assert await run_until_idle(app) == len(keys)
        assert len(await app.list(state=duly.State.COMPLETED)) == len(keys)
    effects = await books.run("select count(*) from effects")
    assert effects[0][0] == len(keys)
    return keys


@pytest.fixture
async def postgres_books(postgres_url: str) -> Books:
    books = Books(postgres_url)
    await books.prepare()
    return books


async def test_killed_before_its_commits_a_caller_delivered_nothing(
    postgres_books: Books, postgres_url: str
) -> None:
    with caller("drivers", postgres_url) as process:
        assert process.says() == ["delivered"]
        assert process.end() == -signal.SIGKILL
    assert await delivered(postgres_books, postgres_url) == []
    async with build(postgres_url) as app:  # nothing of it is in the way
        for name in DRIVERS:
            assert not (await app.deliver("touch", "again", key=name)).known


async def test_killed_after_its_commits_a_caller_delivered_everything(
    postgres_books: Books, postgres_url: str
) -> None:
    with caller("drivers", postgres_url) as process:
        assert process.says() == ["delivered"]
        process.tell()
        assert process.says() == ["committed"]
        assert process.end() == -signal.SIGKILL
    assert await delivered(postgres_books, postgres_url) == DRIVERS


@pytest.mark.parametrize(
    ("place", "expected"),
    [("complete.before", []), ("complete.middle", []), ("complete.after", ["own"])],
)
async def test_a_block_that_is_killed_is_whole_or_nothing(
    books: Books, database_url: str, place: str, expected: list[str]
) -> None:
    with caller("own", database_url, f"{place}=kill") as process:
        assert process.says() == []
        assert process.popen.wait(30) == -signal.SIGKILL
    assert await delivered(books, database_url) == expected


async def test_a_hundred_redeliveries_from_four_processes_have_one_effect(
    postgres_books: Books, postgres_url: str
) -> None:
    processes = [Caller("redelivered", postgres_url, "") for _ in range(4)]
    try:
        for each in processes:
            assert each.says() == ["ready"]
        for each in processes:
            each.tell()
        received = []
        for each in processes:
            while (words := each.says()) != ["done"]:
                assert words[0] == "received", words
                received.append(words[1:])
    finally:
        for each in processes:
            each.end()
    assert len(received) == 100
    assert [is_new for is_new, _, _ in received].count("True") == 1
    assert len({(process, number) for _, process, number in received}) == 1
    assert await postgres_books.run("select * from effects") == [("m", 1)]
