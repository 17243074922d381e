"""Many dead letters retried by a command that is killed and repeated: each once, in order."""

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
from tests.crash.fleet import Fleet, StoreUnderTest
from tests.crash.worker import build
from tests.support.forks import ROOT, start

DEAD = int(os.environ.get("DULY_TEST_DEAD_LETTERS", "300"))
"""The default; `DULY_TEST_DEAD_LETTERS=100000` for a long run."""
STREAMS = max(8, DEAD // 100)
RATE = max(1000, DEAD // 20)
KILLS = ["retry.before=kill@2", "retry.after=kill@2", "retry.before=kill@3"]
KILLS += ["retry.after=kill@30", "retry.before=kill@300"] if DEAD >= 100_000 else []
COMMAND = ("duly", "dead", "retry", "--tag", "night", "--yes")


def items(target: str) -> Iterator[dict[str, object]]:
    """Half of them without a stream, half in streams; each stream is numbered."""
    for n in range(DEAD // 2):
        yield {"target": target, "payload": {"stream": -1, "n": n}, "tags": ["night"]}
    for n in range(DEAD - DEAD // 2):
        yield {
            "target": target,
            "payload": {"stream": n % STREAMS, "n": n // STREAMS},
            "stream": f"s{n % STREAMS}",
            "tags": ["night"],
        }


async def make_dead(store: StoreUnderTest) -> None:
    """Make all deliveries dead, the last first, as if their attempts were spent an hour ago."""
    print_of = fingerprint("handler_exception", "ValueError: no")
    ago = "now() - interval '1 hour'" if store.postgres else str(int(time.time() - 3600) * 10**6)
    step = (
        "interval '1 microsecond' * coalesce(position, 0)"
        if store.postgres
        else "coalesce(position, 0)"
    )
    await store.run("delete from duly.agenda")
    await store.run(
        "update duly.deliveries set state = 'dead', attempt = 3, lane = null, reason = "
        f"'handler_exception', error = 'ValueError: no', fingerprint = '{print_of}', "
        f"dead_at = {ago} - {step}, finished_at = {ago}"
    )


async def prepare(store: StoreUnderTest) -> None:
    async with build(store.database) as app:
        await app.deliver_many(items("in-run"))
    await make_dead(store)


def retrying(store: StoreUnderTest, *more: str, **environment: str) -> subprocess.Popen[str]:
    return start(
        *COMMAND,
        "--json",
        *more,
        cwd=ROOT,
        env=os.environ | {"DULY_DATABASE": store.database} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs(fleet: Fleet) -> dict[int, list[int]]:
    """The deliveries that the worker ran, by stream, in order; stops the worker."""
    fleet.processes[0].signal(signal.SIGTERM)
    executed: dict[int, list[int]] = defaultdict(list)
    for _, words in fleet.lines():
        if words[0] == "stopped":
            break
        if words[0] == "in-run":
            executed[int(words[1])].append(int(words[2]))
    return executed


def expected(count: int) -> list[int]:
    """Each once; every tenth fails at its first attempt and is retried before the next."""
    return [n for n in range(count) for _ in range(2 if n % 10 == 3 else 1)]


async def assert_each_once_and_in_order(
    store: StoreUnderTest, executed: dict[int, list[int]]
) -> None:
    assert sorted(executed.pop(-1)) == expected(DEAD // 2), "lost or repeated"
    sizes = [len(range(stream, DEAD - DEAD // 2, STREAMS)) for stream in range(STREAMS)]
    for stream, size in enumerate(sizes):
        assert executed[stream] == expected(size), f"stream {stream} is not in order, or not once"
    states = await store.run("select state, count(*) from duly.deliveries group by state")
    assert dict(states) == {"completed": DEAD}
    retried = await store.run(
        "select count(*), count(distinct delivery) from duly.attempts where outcome = 'retried'"
    )
    assert tuple(retried[0]) == (DEAD, DEAD), "a delivery was retried twice"


@pytest.mark.requirement("F4", "F5", "D4")
@pytest.mark.timeout(600)
async def test_a_killed_and_repeated_retry_retries_each_once_and_in_order(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    await prepare(store)
    fleet.start()
    began = time.monotonic()
    until = (await store.run("select now()"))[0][0].isoformat() if store.postgres else None
    same = () if until is None else ("--until", until)
    for place in KILLS:
        killed = retrying(store, "--rate", str(RATE), *same, DULY_FAILPOINTS=place)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL, f"{place} was never reached"
    done = retrying(store, "--rate", str(RATE), *same)
    out, error = done.communicate(timeout=200)
    assert done.returncode == 0, error
    assert json.loads(out)["finished"] is True
    retried_in = time.monotonic() - began
    await store.until_finished()
    print(f"{DEAD} retried in {retried_in:.1f} s, done in {time.monotonic() - began:.1f} s")
    await assert_each_once_and_in_order(store, runs(fleet))
