"""`duly deliveries`, `workers`, `late` and `stuck`."""

from datetime import UTC, datetime
from typing import Any

import pytest

import duly
from duly.safe_text import visible
from tests.surfaces.processes import Home

UNKNOWN = "00000000-0000-7000-8000-000000000000"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = """
import duly
app = duly.App()

@app.handler("fails", retry=duly.no_retry)
async def fails(delivery):
    await delivery.do("charge", lambda: {"receipt": 7})
    raise ValueError("\\x1b[31mno [bold]luck")
"""


def ids(page: Any) -> list[str]:
    return [each["id"] for each in page["items"]]


async def test_pages_follow_each_other_newest_first(home: Home) -> None:
    async with home.app() as app:
        stored = [(await app.deliver("log", n, after=3600)).id for n in range(3)]
        newest_first = [each.id for each in await app.list()]
    assert set(newest_first) == set(stored)
    first = home.json("deliveries", "list", "--limit", "2")
    second = home.json("deliveries", "list", "--limit", "2", "--before", first["next"])
    assert ids(first) + ids(second) == newest_first
    assert second["next"] is None


async def test_a_list_is_filtered_by_state_target_tag_and_key(home: Home) -> None:
    async with home.app() as app:
        kept = await app.deliver("log", 1, after=3600, tags=["red"], key="k1")
        gone = await app.deliver("log", 2, after=3600, tags=["blue"], key="k2")
        await app.cancel(gone.id)
    narrow = ("--state", "pending", "--tag", "red", "--key", "k1", "--target")
    assert ids(home.json("deliveries", "list", *narrow, "log")) == [kept.id]
    assert ids(home.json("deliveries", "list", *narrow, "other")) == []


async def test_webhooks_are_listed_by_endpoint_or_host(sqlite_home: Home) -> None:
    async with sqlite_home.app() as app:
        await app.endpoints.add("billing", "https://example.org/billing")
        named = await app.deliver(duly.endpoint("billing"), after=3600)
        plain = await app.deliver(duly.webhook("https://example.org/hook"), after=3600)
    by_target = ("deliveries", "list", "--target")
    assert ids(sqlite_home.json(*by_target, "endpoint:billing")) == [named.id]
    assert ids(sqlite_home.json(*by_target, "https://example.org/other")) == [plain.id]
    assert sqlite_home.duly(*by_target, "endpoint:a b").returncode == 2


async def test_an_invalid_limit_is_code_2(sqlite_home: Home) -> None:
    await sqlite_home.deliver("log")
    done = sqlite_home.duly("deliveries", "list", "--limit", "0")
    assert done.returncode == 2
    assert done.stderr.startswith("error: limit: ")


async def test_a_dead_letter_is_shown_with_its_attempts_and_can_be_retried(home: Home) -> None:
    home.write("shop.py", SHOP)
    id = await home.deliver("fails", {"secret": 1})
    with home.running("work", "shop:app") as server:
        logged = server.wait_for("AttemptFailed")
        server.signal(15)
        assert server.end() == 0
    found = home.json("deliveries", "show", id)
    (attempt,) = found["attempts"]
    assert attempt["traceback"].startswith("Traceback (most recent call last):\n")
    assert "shop.py" in attempt["traceback"]
    assert logged["exception"] == visible(attempt["traceback"])
    assert (found["state"], found["reason"]) == ("dead", "handler_exception")
    assert [each["outcome"] for each in found["attempts"]] == ["dead"]
    (step,) = found["steps"]
    assert (step["name"], step["attempt"], step["result"]) == ("charge", 1, {"receipt": 7})
    for_people = home.ok("deliveries", "show", id)
    assert r"\x1b[31mno [bold]luck" in for_people
    assert "\nattempt 1\nTraceback (most recent call last):\n" in for_people
    assert '{"receipt":7}' in for_people
    assert "\x1b" not in for_people
    assert home.json("deliveries", "retry", id)["state"] == "pending"


@pytest.mark.requirement("C10")
async def test_a_cancelled_delivery_may_be_cancelled_again(sqlite_home: Home) -> None:
    async with sqlite_home.app() as app:
        id = (await app.deliver("log", after=3600)).id
    assert sqlite_home.json("deliveries", "cancel", id)["state"] == "cancelled"
    assert sqlite_home.ok("deliveries", "cancel", id) == f"{id} was cancelled already"


async def test_an_unknown_id_is_code_3_and_a_bad_one_code_2(sqlite_home: Home) -> None:
    await sqlite_home.deliver("log")
    unknown = sqlite_home.duly("deliveries", "retry", UNKNOWN)
    assert unknown.returncode == 3
    assert UNKNOWN in unknown.stderr
    assert sqlite_home.duly("deliveries", "show", "17").returncode == 2


async def test_namespaces_do_not_see_each_other(sqlite_home: Home) -> None:
    async with sqlite_home.app("mine") as app:
        id = (await app.deliver("log", after=3600)).id
    assert sqlite_home.duly("deliveries", "show", id).returncode == 3
    assert sqlite_home.json("deliveries", "show", id, "--namespace", "mine")["id"] == id


@pytest.mark.requirement("C10")
async def test_late_and_stuck_list_waiting_deliveries_and_why(home: Home) -> None:
    async with home.app() as app:
        late = await app.deliver("log", 1, at=LONG_AGO)
        await app.deliver("log", 2, after=3600)
    assert ids(home.json("late")) == [late.id]
    assert ids(home.json("late", "--grace", "1000w")) == []
    (stuck,) = home.json("stuck")["items"]
    assert (stuck["id"], stuck["why"]) == (
        late.id,
        "no worker that is alive works for namespace 'default'; start one: "
        "duly serve --namespaces default",
    )


def test_workers_are_listed_with_what_they_hold_and_can_be_drained(sqlite_home: Home) -> None:
    with sqlite_home.serving() as server:
        (worker,) = sqlite_home.json("workers")["items"]
        number = str(worker["id"])
        drained = sqlite_home.json("workers", "drain", number)
        (listed,) = sqlite_home.json("workers")["items"]
        assert sqlite_home.ok("workers", "resume", number).strip() == f"worker {number} resumes"
        (resumed,) = sqlite_home.json("workers")["items"]
        assert sqlite_home.duly("workers", "drain", "4711").returncode == 3
        assert sqlite_home.duly("workers", "drain", str(2**70)).returncode == 2
    assert (worker["alive"], worker["holding"], worker["handlers"]) == (True, 0, ["log"])
    assert worker["name"].endswith(f":{server.process.pid}")
    assert drained["draining_at"] is not None
    assert drained == listed | {"beat_at": drained["beat_at"]}
    assert (worker["draining_at"], resumed["draining_at"]) == (None, None)


@pytest.mark.requirement("P3")
async def test_a_result_is_shown_once_the_delivery_has_ended(home: Home) -> None:
    home.write("sums.py", SUMS)
    with home.serving("sums:app"):
        id = home.json("deliver", "double", '{"number": 6}')["id"]
        shown = home.ok("deliveries", "show", id, "--wait", "60s")
    assert '"double":12' in next(line for line in shown.splitlines() if line.startswith("result"))
    assert home.json("deliveries", "show", id)["result"] == {"double": 12}
    refused = home.duly("deliveries", "show", id, "--wait", "2m")
    assert (refused.returncode, "give up to 60s" in refused.stderr) == (2, True)


SUMS = """
import duly

app = duly.App()

@app.handler("double")
async def double(number: int) -> dict[str, int]:
    return {"double": number * 2}
"""
