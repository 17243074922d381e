"""A caller killed before its commit delivered nothing; one killed after it, everything."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import duly
from duly.testing import run_until_idle
from tests.crash.fleet import StoreUnderTest
from tests.crash.worker import build
from tests.services.drivers import ASYNC, PLAIN
from tests.support.forks import ROOT, start

pytestmark = [pytest.mark.requirement("F10"), pytest.mark.long]
DRIVERS = sorted(ASYNC | PLAIN)


class Caller:
    """A process that reads and writes lines."""

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

    def next_line(self) -> list[str]:
        """The words of its next line; none at its end."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().split()

    def proceed(self) -> None:
        """Let it continue."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def end(self, number: int = signal.SIGKILL) -> int:
        """End it; returns its exit code."""
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


async def delivered(store: StoreUnderTest, database: str) -> list[str]:
    """The keys of the stored deliveries, all of them executed by now."""
    async with build(database) as app:
        keys = sorted(str(each.key) for each in await app.list())
        assert await run_until_idle(app) == len(keys)
        assert len(await app.list(state=duly.State.COMPLETED)) == len(keys)
    effects = await store.run("select count(*) from effects")
    assert effects[0][0] == len(keys)
    return keys


@pytest.fixture
async def postgres_store(postgres_url: str) -> StoreUnderTest:
    store = StoreUnderTest(postgres_url)
    await store.prepare()
    return store


async def test_a_caller_killed_before_its_commits_delivered_nothing(
    postgres_store: StoreUnderTest, postgres_url: str
) -> None:
    with caller("drivers", postgres_url) as process:
        assert process.next_line() == ["delivered"]
        assert process.end() == -signal.SIGKILL
    assert await delivered(postgres_store, postgres_url) == []
    async with build(postgres_url) as app:  # no key is in use
        for name in DRIVERS:
            assert not (await app.deliver("touch", "again", key=name)).known


async def test_a_caller_killed_after_its_commits_delivered_everything(
    postgres_store: StoreUnderTest, postgres_url: str
) -> None:
    with caller("drivers", postgres_url) as process:
        assert process.next_line() == ["delivered"]
        process.proceed()
        assert process.next_line() == ["committed"]
        assert process.end() == -signal.SIGKILL
    assert await delivered(postgres_store, postgres_url) == DRIVERS


@pytest.mark.parametrize(
    ("place", "expected"),
    [("complete.before", []), ("complete.middle", []), ("complete.after", ["own"])],
)
async def test_a_killed_block_is_committed_completely_or_not_at_all(
    store: StoreUnderTest, database_url: str, place: str, expected: list[str]
) -> None:
    with caller("own", database_url, f"{place}=kill") as process:
        assert process.next_line() == []
        assert process.popen.wait(30) == -signal.SIGKILL
    assert await delivered(store, database_url) == expected


async def test_a_hundred_redeliveries_from_four_processes_have_one_effect(
    postgres_store: StoreUnderTest, postgres_url: str
) -> None:
    processes = [Caller("redelivered", postgres_url, "") for _ in range(4)]
    try:
        for each in processes:
            assert each.next_line() == ["ready"]
        for each in processes:
            each.proceed()
        received = []
        for each in processes:
            while (words := each.next_line()) != ["done"]:
                assert words[0] == "received", words
                received.append(words[1:])
    finally:
        for each in processes:
            each.end()
    assert len(received) == 100
    assert [is_new for is_new, _, _ in received].count("True") == 1
    assert len({(process, number) for _, process, number in received}) == 1
    assert await postgres_store.run("select * from effects") == [("m", 1)]
