"""Many dead letters retried by a command that is killed and begun again: each once, in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from duly.domain.deliveries.fingerprints import fingerprint
from tests.crash.fleet import Books, Fleet
from tests.crash.worker import build
from tests.support.forks import ROOT, start

DEAD = int(os.environ.get("DULY_TEST_DEAD_LETTERS", "300"))
"""In every run; `DULY_TEST_DEAD_LETTERS=100000` for a long one."""
STREAMS = max(8, DEAD // 100)
RATE = max(1000, DEAD // 20)
KILLS = ["retry.before=kill@2", "retry.after=kill@2", "retry.before=kill@3"]
KILLS += ["retry.after=kill@30", "retry.before=kill@300"] if DEAD >= 100_000 else []
COMMAND = ("duly", "dead", "retry", "--tag", "night", "--yes")


def items(target: str) -> Iterator[dict[str, object]]:
    """Half of them without a stream, half over some; each stream's are numbered."""
    for n in range(DEAD // 2):
        yield {"target": target, "payload": {"stream": -1, "n": n}, "tags": ["night"]}
    for n in range(DEAD - DEAD // 2):
        yield {
            "target": target,
            "payload": {"stream": n % STREAMS, "n": n // STREAMS},
            "stream": f"s{n % STREAMS}",
            "tags": ["night"],
        }


async def kill_all(books: Books) -> None:
    """Let them all be dead, the last first, as if their attempts had been spent an hour ago."""
    print_of = fingerprint("handler_exception", "ValueError: no")
    ago = "now() - interval '1 hour'" if books.postgres else str(int(time.time() - 3600) * 10**6)
    step = (
        "interval '1 microsecond' * coalesce(position, 0)"
        if books.postgres
        else "coalesce(position, 0)"
    )
    await books.run("delete from duly.agenda")
    await books.run(
        "update duly.deliveries set state = 'dead', attempt = 3, lane = null, reason = "
        f"'handler_exception', error = 'ValueError: no', fingerprint = '{print_of}', "
        f"dead_at = {ago} - {step}, finished_at = {ago}"
    )


async def prepare(books: Books) -> None:
    async with build(books.database) as app:
        await app.deliver_many(items("in-run"))
    await kill_all(books)


def retrying(books: Books, *more: str, **environment: str) -> subprocess.Popen[str]:
    return start(
        *COMMAND,
        "--json",
        *more,
        cwd=ROOT,
        env=os.environ | {"DULY_DATABASE": books.database} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs(fleet: Fleet) -> dict[int, list[int]]:
    """What the worker ran of each stream, in its order; it is told to stop."""
    fleet.processes[0].signal(signal.SIGTERM)
    told: dict[int, list[int]] = defaultdict(list)
    for _, words in fleet.words():
        if words[0] == "stopped":
            break
        if words[0] == "in-run":
            told[int(words[1])].append(int(words[2]))
    return told


def expected(count: int) -> list[int]:
    """Each once; every tenth fails at its first attempt, and is tried again before the next."""
    return [n for n in range(count) for _ in range(2 if n % 10 == 3 else 1)]


async def assert_each_once_and_in_order(books: Books, told: dict[int, list[int]]) -> None:
    assert sorted(told.pop(-1)) == expected(DEAD // 2), "lost or repeated"
    sizes = [len(range(stream, DEAD - DEAD // 2, STREAMS)) for stream in range(STREAMS)]
    for stream, size in enumerate(sizes):
        assert told[stream] == expected(size), f"stream {stream} is not in order, or not once"
    states = await books.run("select state, count(*) from duly.deliveries group by state")
    assert dict(states) == {"completed": DEAD}
    retried = await books.run(
        "select count(*), count(distinct delivery) from duly.attempts where outcome = 'retried'"
    )
    assert tuple(retried[0]) == (DEAD, DEAD), "one was retried twice"


@pytest.mark.requirement("F4", "F5", "D4")
@pytest.mark.timeout(600)
async def test_a_retry_killed_and_begun_again_brings_each_back_once_and_in_order(
    fleet: Fleet, books: Books
) -> None:
    await prepare(books)
    fleet.start()
    began = time.monotonic()
    until = (await books.run("select now()"))[0][0].isoformat() if books.postgres else None
    same = () if until is None else ("--until", until)
    for place in KILLS:
        killed = retrying(books, "--rate", str(RATE), *same, DULY_FAILPOINTS=place)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL, f"{place} was never reached"
    done = retrying(books, "--rate", str(RATE), *same)
    out, error = done.communicate(timeout=200)
    assert done.returncode == 0, error
    assert json.loads(out)["finished"] is True
    retried_in = time.monotonic() - began
    await books.until_finished(within=200)
    print(f"{DEAD} retried in {retried_in:.1f} s, done in {time.monotonic() - began:.1f} s")
    await assert_each_once_and_in_order(books, runs(fleet))
