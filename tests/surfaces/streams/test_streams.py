"""`duly streams`, and streams in the output of other commands."""

from typing import Any

import pytest

import duly
from duly import Delivery
from duly.testing import run_until_idle
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("F7")
NAME = "team:7"


async def failing(home: Home, error: Exception, count: int = 3, **options: Any) -> list[str]:
    """Make a stream whose head has failed with that error; returns the ids of its deliveries."""
    async with home.app() as app:

        @app.handler("work", retry=duly.delays(3600))
        async def work(delivery: Delivery[Any]) -> None:
            raise error

        given = {"stream": NAME} | options
        ids = [(await app.deliver("work", number, **given)).id for number in range(count)]
        await run_until_idle(app)
        return ids


async def blocked(home: Home, **options: Any) -> list[str]:
    return await failing(home, duly.ValidationFailure("its bank refused"), **options)


async def retrying(home: Home) -> list[str]:
    return await failing(home, RuntimeError("its bank was away"))


async def test_a_blocked_stream_is_shown_with_the_commands_that_unblock_it(home: Home) -> None:
    ids = await blocked(home)
    found = home.json("streams", "show", NAME)
    assert (found["name"], found["state"], found["on_failure"]) == (NAME, "blocked", "block")
    assert found["waiting"] == 2
    assert found["since"] >= found["oldest_at"]
    assert found["head"]["id"] == ids[0]
    assert (found["head"]["state"], found["head"]["attempt"]) == ("dead", 1)
    assert "its bank refused" in found["head"]["error"]
    output = home.ok("streams", "show", NAME)
    for part in (f"{ids[0]}, dead", "its bank refused", f"duly streams retry-now {NAME}"):
        assert part in output


async def test_a_list_is_ordered_by_name_and_filtered_by_state(home: Home) -> None:
    await blocked(home)
    for name in ("a", "b"):
        await home.deliver("work", 1, stream=name)
    home.ok("streams", "pause", "b")
    first = home.json("streams", "list", "--limit", "2")
    assert ([each["name"] for each in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = home.json("streams", "list", "--after", "b")
    assert ([each["name"] for each in rest["items"]], rest["next"]) == ([NAME], None)
    for state, name in (("blocked", NAME), ("paused", "b")):
        found = home.json("streams", "list", "--state", state)["items"]
        assert [(each["name"], each["state"]) for each in found] == [(name, state)]
    done = home.duly("streams", "list", "--limit", "1")
    assert "there are more: --after a" in done.stderr
    assert done.stdout.splitlines()[1].split()[:2] == ["a", "waiting"]


async def test_a_blocked_stream_is_retried(home: Home) -> None:
    ids = await blocked(home)
    assert home.ok("streams", "retry-now", NAME).startswith(f"{NAME} waiting, head {ids[0]}")
    assert (await home.find(ids[0])).state == "pending"
    done = home.duly("streams", "release", NAME)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"stream '{NAME}' is waiting; only a head that failed" in done.stderr


async def test_a_blocked_stream_is_released(home: Home) -> None:
    ids = await blocked(home)
    found = home.json("streams", "release", NAME)
    assert (found["state"], found["head"]["id"], found["waiting"]) == ("waiting", ids[1], 1)
    assert (await home.find(ids[0])).state == "dead"


async def test_a_head_is_dead_lettered(home: Home) -> None:
    ids = await retrying(home)
    home.ok("streams", "dead-letter-head", NAME, "--note", "not worth it")
    found = await home.find(ids[0])
    assert (found.state, found.reason, found.error) == ("dead", "operator", "not worth it")
    assert home.json("streams", "show", NAME)["head"]["id"] == ids[1]


async def test_a_stream_is_paused_and_resumed(home: Home) -> None:
    await home.deliver("work", 1, stream=NAME)
    assert home.ok("streams", "pause", NAME, "--reason", "holidays") == f"{NAME} paused"
    output = home.ok("streams", "show", NAME)
    assert "holidays" in output
    assert f"duly streams resume {NAME}" in output
    assert home.ok("streams", "resume", NAME).startswith(f"{NAME} waiting")
    actions = [each["action"] for each in home.json("audit")["items"]]
    assert actions == ["stream.resumed", "stream.paused"]
    assert {each["actor"] for each in home.json("audit")["items"]} == {"cli"}


def test_a_stream_is_configured_before_it_is_used(home: Home) -> None:
    configure = ("streams", "configure", NAME, "--on-failure")
    assert home.ok(*configure, "release") == f"{NAME} on failure release"
    found = home.json("streams", "show", NAME)
    assert (found["state"], found["on_failure"], found["head"]) == ("idle", "release", None)
    assert "nothing waits in it" in home.ok("streams", "show", NAME)


@pytest.mark.requirement("L4")
async def test_selected_followers_are_released(home: Home) -> None:
    ids = await blocked(home, count=5)
    only = ("--only", ids[2], "--only", ids[4])
    assert home.ok("streams", "release", NAME, *only) == f"{NAME} blocked, head {ids[0]}"
    assert home.json("streams", "show", NAME)["waiting"] == 2
    found = home.json("streams", "release", NAME, "--keep", ids[3])
    assert (found["head"]["id"], found["waiting"]) == (ids[0], 1)
    for id, waits in zip(ids[1:], (False, False, True, False), strict=True):
        assert (home.json("deliveries", "show", id)["waits"] is not None) is waits
    (latest, first) = home.json("audit")["items"]
    assert latest["detail"] == {"head": ids[0], "keep": [ids[3]], "released": 1}
    assert first["detail"] == {"head": ids[0], "only": [ids[2], ids[4]], "released": 2}
    for wrong, code in (
        (("--only", ids[3], "--keep", ids[3]), 2),
        (("--only", ids[0]), 2),
        (("--only", ids[2]), 2),
    ):
        assert home.duly("streams", "release", NAME, *wrong).returncode == code


@pytest.mark.requirement("L4")
async def test_the_block_of_a_stream_is_limited(home: Home) -> None:
    await blocked(home)
    configure = ("streams", "configure", NAME)
    assert home.ok(*configure, "--block-for", "15m") == f"{NAME} on failure block for 900 s"
    found = home.json("streams", "show", NAME)
    assert (found["block_for"], found["blocked_until"] > found["since"]) == (900, True)
    output = home.ok("streams", "show", NAME)
    assert "block for 900 s" in output
    assert "blocked_until" in output
    assert home.ok(*configure, "--block-for", "none") == f"{NAME} on failure block"
    assert home.json("streams", "show", NAME)["blocked_until"] is None


BAD = [
    (("show", "nobody"), 3, "no stream 'nobody'; duly streams list shows what there is"),
    (("pause", "nobody"), 3, "no stream 'nobody'"),
    (("list", "--state", "idle"), 2, "state: 'idle' cannot be listed; give blocked or paused"),
    (("list", "--limit", "0"), 2, "limit: 0 is not from 1 to 1000"),
    (("configure", NAME), 2, "on_failure: there is nothing to change"),
    (("configure", NAME, "--on-failure", "ignore"), 2, "'ignore' is none of block, release"),
    (("pause", ""), 2, "stream: it has 0 bytes"),
    (("configure", NAME, "--block-for", "0s"), 2, "block_for: '0s' is not more than 0"),
    (("configure", NAME, "--block-for", "366d"), 2, "block_for: '366d' is not more than 0"),
    (
        ("configure", NAME, "--block-for", "1m", "--on-failure", "release"),
        2,
        "block_for: a head that is released does not block",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "why"), BAD)
def test_invalid_usage_has_a_code_and_a_reason(
    sqlite_home: Home, arguments: tuple[str, ...], code: int, why: str
) -> None:
    sqlite_home.ok("migrate", "up")
    done = sqlite_home.duly("streams", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr


class TestDeliveries:
    async def test_a_waiting_delivery_is_shown_with_the_head_it_waits_for(self, home: Home) -> None:
        ids = await retrying(home)
        output = home.json("deliveries", "show", ids[2])["waits"]
        assert output.startswith(f"stream {NAME}, behind delivery {ids[0]} (retrying, next at 20")
        assert f"duly streams release {NAME}" in output
        assert home.json("deliveries", "show", ids[0])["waits"] is None

    async def test_a_delivery_behind_a_dead_head_is_shown_with_the_commands_that_unblock_it(
        self, home: Home
    ) -> None:
        ids = await blocked(home)
        output = home.ok("deliveries", "show", ids[1])
        assert f"stream {NAME}, blocked by delivery {ids[0]} (dead since 20" in output
        assert f"duly streams retry-now {NAME}" in output

    async def test_in_a_paused_stream_all_deliveries_wait(self, home: Home) -> None:
        ids = [await home.deliver("work", number, stream=NAME) for number in range(2)]
        home.ok("streams", "pause", NAME, "--reason", "holidays")
        for id in ids:
            output = home.json("deliveries", "show", id)["waits"]
            assert output.startswith(f"stream {NAME}, paused since 20")
            assert "(holidays)" in output

    async def test_a_released_delivery_waits_for_no_other(self, home: Home) -> None:
        ids = await retrying(home)
        home.ok("streams", "release", NAME)
        assert home.json("deliveries", "show", ids[0])["waits"] is None

    async def test_deliveries_of_a_stream_are_retried_and_cancelled(self, home: Home) -> None:
        ids = await retrying(home)
        done = home.duly("deliveries", "retry", ids[1])
        assert done.returncode == 5
        assert f"waits in stream '{NAME}', behind delivery {ids[0]} (retrying" in done.stderr
        assert home.ok("deliveries", "cancel", ids[1]) == f"{ids[1]} cancelled"
        assert home.ok("deliveries", "retry", ids[0]) == f"{ids[0]} pending"


async def test_a_blocked_stream_is_stuck_and_its_remedy_is_shown(home: Home) -> None:
    ids = await blocked(home)
    (found, *_) = home.json("stuck")["items"]
    assert (found["id"], found["state"]) == (ids[0], "dead")
    assert found["why"].startswith(f"it blocks stream {NAME}; duly streams retry-now {NAME}")
    home.ok("streams", "release", NAME)
    assert ids[0] not in home.ok("stuck")


class TestDelivering:
    async def test_deliver_and_send_take_a_stream(self, home: Home) -> None:
        await home.deliver("work")
        given = ("--stream", NAME, "--on-failure", "release")
        first = home.ok("deliver", "work", "1", *given)
        second = home.ok("send", "https://example.org/hook", "--data", "2", *given)
        shown = [home.json("deliveries", "show", each) for each in (first, second)]
        assert [(each["stream"], each["position"]) for each in shown] == [(NAME, 1), (NAME, 2)]
        found = home.json("streams", "show", NAME)
        assert (found["head"]["id"], found["waiting"]) == (first, 1)

    async def test_a_schedule_takes_a_stream(self, home: Home) -> None:
        await home.deliver("work")
        home.ok("schedules", "add", "hourly", "work", "--every", "1h", "--stream", NAME)
        assert home.json("schedules", "show", "hourly")["stream"] == NAME

    async def test_a_policy_without_a_stream_is_refused(self, sqlite_home: Home) -> None:
        await sqlite_home.deliver("work")
        done = sqlite_home.duly("deliver", "work", "--on-failure", "release")
        assert (done.returncode, done.stdout) == (2, "")
        assert "on_failure: only a delivery in a stream has one" in done.stderr
