"""Bad input gets the same message with the same field in Python, HTTP and the command line."""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Client
from duly.errors import InvalidInput
from tests.support.postgres import ForeignServer, Server
from tests.surfaces.sides import Sides, both_sides, fresh_home

LONG = "x" * 300


@dataclass(frozen=True)
class Case:
    """One mistake, made through each interface."""

    call: Callable[[App | Client], Awaitable[object]]
    request: tuple[str, str, object]
    command: tuple[str, ...]


def delivery(**given: Any) -> Case:
    flags = [each for name, value in given.items() for each in flag(name, value)]
    return Case(
        lambda app: app.deliver("log", None, **given),
        ("POST", "/v1/deliveries", {"target": "log", **given}),
        ("deliver", "log", *flags),
    )


def flag(name: str, value: Any) -> list[str]:
    """The flags for a field: one for each tag, durations with a unit."""
    word = "--tag" if name == "tags" else f"--{name.replace('_', '-')}"
    unit = "s" if name in ("jitter", "timeout") else ""
    values = value if isinstance(value, list) else [value]
    return [part for each in values for part in (word, f"{each}{unit}")]


def schedule(**given: Any) -> Case:
    flags = [each for name, value in given.items() for each in flag(name, value)]
    return Case(
        lambda app: app.schedules.declare("five", duly.every("5m"), "log", **given),
        ("PUT", "/v1/schedules/five", {"rule": {"every": "5m"}, "target": "log", **given}),
        ("schedules", "add", "five", "log", "--every", "5m", *flags),
    )


def endpoint(name: str = "new", url: str = "https://example.org/", **given: Any) -> Case:
    flags = [each for field, value in given.items() for each in flag(field, value)]
    return Case(
        lambda app: app.endpoints.add(name, url, **given),
        ("POST", "/v1/endpoints", {"name": name, "url": url, **given}),
        ("endpoints", "add", name, url, *flags),
    )


def pending(**given: Any) -> Case:
    flags = [each for name, value in given.items() for each in flag(name, value)]
    return Case(
        lambda app: app.deliveries.count(**given),
        ("POST", "/v1/deliveries/cancel", {**given, "dry_run": True}),
        ("deliveries", "cancel", *flags, "--dry-run"),
    )


def series(**given: Any) -> Case:
    flags = [each for name, value in given.items() for each in flag(name, value)]
    return Case(
        lambda app: app.stats.series(**given),
        ("GET", f"/v1/stats/series?{urllib.parse.urlencode(given)}", None),
        ("stats", "--series", *flags),
    )


CASES = {
    "priority": delivery(priority=10),
    "priority of a schedule": schedule(priority=0),
    "long key": delivery(key=LONG),
    "empty key": delivery(key=""),
    "long tag": delivery(tags=[LONG]),
    "many tags": delivery(tags=[str(n) for n in range(21)]),
    "policy without a stream": delivery(on_failure="release"),
    "unknown policy": delivery(stream="a", on_failure="explode"),
    "stream of schedules": delivery(stream="duly:schedule:x"),
    "unknown handler": Case(
        lambda app: app.deliver("nobody", None),
        ("POST", "/v1/deliveries", {"target": "nobody"}),
        ("deliver", "nobody"),
    ),
    "catch-up": schedule(catch_up="never"),
    "cap": schedule(cap=0),
    "cap above the most": schedule(cap=100_001),
    "overlap": schedule(overlap="maybe"),
    "overlap in a stream": schedule(overlap="skip", stream="a"),
    "max runs": schedule(max_runs=0),
    "jitter": schedule(jitter=8 * 86400),
    "endpoint's url": endpoint(url="ftp://example.org"),
    "endpoint's name": endpoint(name="no good"),
    "endpoint's rate": endpoint(rate=0),
    "endpoint's in_flight": endpoint(in_flight=0),
    "endpoint's timeout": endpoint(timeout=100),
    "endpoint's method": endpoint(method="BREW"),
    "pending with an empty tag": pending(tag=""),
    "pending with a long key": pending(key=LONG),
    "pending with a bad beginning of an id": pending(id="xyz"),
    "pending to a bad target": pending(target="endpoint:a b"),
    "schedules with an empty text": Case(
        lambda app: app.schedules.count(text=""),
        ("POST", "/v1/schedules/pause", {"text": "", "dry_run": True}),
        ("schedules", "pause", "--text", "", "--dry-run"),
    ),
    "schedules with an empty name": Case(
        lambda app: app.schedules.count(names=["", "a"], paused=True),
        ("POST", "/v1/schedules/resume", {"names": ["", "a"], "dry_run": True}),
        ("schedules", "resume", "", "a", "--dry-run"),
    ),
    "series of a target and a schedule": series(target="log", schedule="five"),
    "series of an empty target": series(target=""),
}


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_schema: Path,
    postgres: ForeignServer | Server,
    postgres_schema: str,
) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("bad")
    stores = (sqlite_schema, postgres, postgres_schema)
    with fresh_home("sqlite", folder, *stores) as home, both_sides(home) as found:
        yield found


@pytest.mark.requirement("P17")
@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_has_the_same_message_in_every_interface(sides: Sides, mistake: str) -> None:
    case = CASES[mistake]
    python, client = asyncio.run(raised_messages(sides, case))
    messages = {
        "the client": client,
        "HTTP": http_message(sides, *case.request),
        "the command line": printed_message(sides.store(*case.command)),
        "the command line, through a server": printed_message(sides.server(*case.command)),
    }
    assert messages == dict.fromkeys(messages, python)


async def raised_messages(sides: Sides, case: Case) -> list[str]:
    """The messages that an App and a client raise."""
    messages = []
    async with (
        App(sides.home.database, environment={}) as app,
        Client(sides.url, key=sides.key) as client,
    ):
        for each in (app, client):
            with pytest.raises(InvalidInput) as raised:
                await case.call(each)
            messages.append(str(raised.value))
    return messages


def http_message(sides: Sides, method: str, path: str, body: object) -> str:
    request = urllib.request.Request(
        sides.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    request.method = method
    request.add_header("authorization", f"Bearer {sides.key}")
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=20)
    with raised.value as answer:
        problem = json.load(answer)
    assert raised.value.code == 422, problem
    assert problem["detail"].startswith(f"{problem['field']}: ")
    return str(problem["detail"])


def printed_message(done: Any) -> str:
    assert done.code == 2, done.err
    return str(done.err.strip().removeprefix("error: "))
