"""`duly serve --demo` makes sample traffic, and `duly demo --remove` removes all of it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly.surfaces.cli.demo.sample_names import ENDPOINTS, SCHEDULES, STREAMS
from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running


def get_when(
    server: Running, path: str, condition: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Poll a list of the API until the condition holds; returns its items."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not condition(found := server.get(path)[2]["items"]):
        assert time.monotonic() < ends, found
    return found


@pytest.mark.requirement("S1", "S5", "U6")
def test_there_are_healthy_and_broken_things_all_marked_and_removed_by_one_command(
    empty_home: Home,
) -> None:
    with empty_home.serving("--demo") as server:
        deliveries = get_when(
            server, "/v1/deliveries?state=completed", lambda found: len(found) > 4
        )
        dead = get_when(server, "/v1/dead-letters", lambda found: len(found) > 1)
        get_when(server, "/v1/streams?state=blocked", lambda found: len(found) == 1)
        # The carts take turns, one each second.
        get_when(server, "/v1/streams", lambda found: len(found) == len(STREAMS))
        endpoints = get_when(server, "/v1/endpoints", bool)
        schedules = get_when(server, "/v1/schedules", bool)
        server.signal(2)
        assert server.end() == 0
    assert all(each["tags"] == ["demo"] for each in deliveries + dead)
    assert sorted(each["name"] for each in endpoints) == sorted(ENDPOINTS)
    assert sorted(each["name"] for each in schedules) == sorted(SCHEDULES)
    removed = empty_home.json("demo", "--remove")
    assert (removed["schedules"], removed["endpoints"], removed["streams"]) == (4, 5, 5)
    assert removed["deliveries"] >= len(deliveries) + len(dead)
    for kind in ("deliveries", "schedules", "endpoints", "streams"):
        assert empty_home.json(kind, "list")["items"] == []


@pytest.mark.requirement("S1")
async def test_removal_leaves_what_others_made(home: Home) -> None:
    async with home.app() as app:
        await app.endpoints.add("demo-healthy", "https://example.org/in")
        await app.endpoints.add("demo-mine", "https://example.org/in")
        ours = await app.deliver(duly.endpoint("demo-healthy"), 1, tags=["demo"])
        kept = [
            (await app.deliver(duly.endpoint("demo-mine"), 2, tags=["demo"])).id,
            (await app.deliver("log", 3, tags=["demo"], stream="demo-cart-1")).id,
            (await app.deliver("log", 4, tags=["demo"])).id,
        ]
        await app.cancel(kept[2])
    removed = home.json("demo", "--remove")
    assert removed == {"schedules": 0, "endpoints": 1, "streams": 0, "deliveries": 1}
    found = {each["id"] for each in home.json("deliveries", "list")["items"]}
    assert found == set(kept)
    assert ours.id not in found
    assert [each["name"] for each in home.json("endpoints", "list")["items"]] == ["demo-mine"]


@pytest.mark.requirement("S1")
def test_a_second_start_continues_on_its_new_port(sqlite_home: Home) -> None:
    for _ in range(2):
        with sqlite_home.serving("--demo") as server:
            server.wait_for("AttemptFailed")
            server.signal(2)
            assert server.end() == 0
    assert "the sample traffic has ended" not in "".join(server.log)


@pytest.mark.requirement("S6")
def test_bad_flags_are_refused_by_name(sqlite_home: Home) -> None:
    several = sqlite_home.process("serve", "--demo", "--processes", "2")
    assert several.returncode == 2
    assert "demo: it needs one process" in several.stderr
    own = sqlite_home.duly("demo", "--database", "sqlite:///other.db")
    assert own.returncode == 2
    assert "database: the demo makes a database of its own" in own.stderr
