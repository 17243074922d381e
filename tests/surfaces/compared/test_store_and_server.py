"""Commands print and do the same on a store and through the server in front of it."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from duly.surfaces.cli.command_line import COMMANDS, command_line
from tests.surfaces.sample_data import HOOK
from tests.surfaces.sides import Sides

pytestmark = pytest.mark.requirement("C10", "S6")
NO_BATCH = "01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"
VARYING = ("top", "stats", "outages", "endpoints recover")
"""Commands whose output contains the current time."""
READING = [
    ("status",),
    ("top",),
    ("stats",),
    ("stats", "--series", "--since", "2h"),
    ("outages", "--since", "30d", "--at-least", "1m"),
    ("alerts", "--all"),
    ("workers",),
    ("late", "--grace", "0s"),
    ("stuck",),
    ("audit", "--limit", "30"),
    ("keys", "list"),
    ("deliveries", "list", "--limit", "208"),
    ("deliveries", "list", "--tag", "red", "--state", "pending", "--target", "log"),
    ("deliveries", "list", "--before", "<dead>"),
    ("deliveries", "list", "--late-over", "1ms", "--sort", "lateness", "--limit", "500"),
    ("deliveries", "show", "<pending>"),
    ("deliveries", "show", "<dead>"),
    ("schedules", "list"),
    ("schedules", "list", "--after", "cron", "--limit", "2"),
    ("schedules", "list", "--state", "active", "--target", "log"),
    ("schedules", "show", "every"),
    ("schedules", "show", "leap"),
    ("schedules", "show", "once"),
    ("schedules", "preview", "cron", "-n", "3"),
    (
        *("schedules", "backfill", "every", "--dry-run"),
        *("--from", "2026-01-01T00:00Z", "--to", "2026-01-02T00:00Z"),
    ),
    ("streams", "list"),
    ("batches", "list"),
    ("batches", "list", "--state", "open", "--limit", "1"),
    ("streams", "show", "<line>"),
    ("endpoints", "list"),
    ("endpoints", "list", "--limit", "2"),
    ("limits", "list"),
    ("limits", "list", "--limit", "1"),
    ("limits", "show", "endpoint:shut"),
    ("limits", "keys", "endpoint:failing-north"),
    ("endpoints", "show", "shut"),
    ("dead", "list"),
    ("dead", "list", "--target", "fails", "--limit", "2"),
    ("dead", "groups"),
    ("dead", "poison"),
    ("dead", "retry", "--all", "--dry-run"),
    ("dead", "retry", "--until", "2h", "--dry-run"),
    ("dead", "discard", "--reason", "handler_exception", "--note", "x", "--dry-run"),
    ("endpoints", "recover", "shut", "--since", "2h", "--dry-run"),
]


WITHOUT_JSON = [
    ("status",),
    ("audit", "--before", "5", "--limit", "2"),
    ("deliveries", "list", "--limit", "3"),
    ("deliveries", "show", "<dead>"),
    ("schedules", "show", "cron"),
    ("streams", "show", "paused"),
    ("endpoints", "show", "shut"),
    ("dead", "groups"),
]
"""Some without --json: the text is made from the same values, so a few are enough."""


@pytest.mark.parametrize(
    "arguments", [*((*each, "--json") for each in READING), *WITHOUT_JSON], ids=" ".join
)
def test_reading_commands_print_the_same(sides: Sides, arguments: tuple[str, ...]) -> None:
    ours, theirs = results_of_both(sides, arguments)
    if ours != theirs:
        # A heartbeat or a minute may have passed in between.
        ours, theirs = results_of_both(sides, arguments)
    assert ours == theirs
    assert ours[0] == 0, ours


def results_of_both(sides: Sides, arguments: tuple[str, ...]) -> tuple[Any, Any]:
    """The results of both sides for the same record."""
    found = sides.store(*arguments), sides.server(*arguments, side=0)
    if " ".join(arguments).startswith(VARYING):
        return found[0].plain(), found[1].plain()
    return found[0].all, found[1].all


CHANGES = {
    "deliver": [
        (*("deliver", "log", '{"a":   1.50}', "--after", "1d", "--priority", "9", "--tag", "a"),
         *("--stream", "<side>", "--on-failure", "release", "--expires-at", "2096-01-01T00:00Z")),
        ("deliver", "log", "[1]", "--key", "<side>", "--at", "2096-01-01T00:00Z"),
        ("deliver", "log", "[1]", "--key", "<side>", "--at", "2096-01-01T00:00Z"),
        ("deliver", "log", "[2]", "--key", "<side>"),
        ("deliver", "endpoint:shut", "null", "--after", "1d"),
    ],
    "send": [
        ("send", HOOK, "--data", "{}", "--in", "1d", "-H", "X-Team: 7", "--timeout", "5s"),
        ("send", "<hook>", "--data", '{"a": 1}', "--in", "1d"),
        ("send", "shut"),
    ],
    "deliveries": [
        ("deliveries", "retry", "<dead>"),
        ("deliveries", "cancel", "<pending>"),
        ("deliveries", "cancel", "<pending>"),
    ],
    "schedules": [
        (*("schedules", "add", "<side>", "log", '{"team":  7}', "--cron", "0 9 * * MON"),
         *("--tz", "Europe/Oslo", "--window", "6h", "--jitter", "1m", "--tag", "a")),
        ("schedules", "add", "<side>", HOOK, "--every", "1h30m", "--start", "2096-01-01T00:00Z"),
        ("schedules", "add", "<side>", "gone", "--every", "1h30m", "--start", "2026-01-01T00:00Z"),
        ("schedules", "add", "<side>", "gone", "--every", "1h30m", "--start", "2026-01-01T00:00Z"),
        ("schedules", "show", "<side>"),
        ("schedules", "pause", "<side>", "--reason", "it snows"),
        ("schedules", "preview", "<side>"),
        ("schedules", "resume", "<side>", "--from-pause"),
        ("schedules", "trigger", "<side>"),
        (*("schedules", "backfill", "<side>", "--yes"),
         *("--from", "2026-01-01T00:00Z", "--to", "2026-02-10T00:00Z")),
        (*("schedules", "backfill", "<side>", "--yes"),
         *("--from", "2026-01-01T00:00Z", "--to", "2026-02-11T00:00Z")),
        ("schedules", "remove", "<side>", "--yes"),
    ],
    "dead": [
        ("dead", "hold", "<dead>", "--note", "wait"),
        ("dead", "list", "--disposition", "held"),
        ("dead", "hold", "--tag", "<some>", "--note", "wait", "--yes"),
        ("dead", "release", "--tag", "<some>", "--yes"),
        ("dead", "give-up", "--tag", "none", "--note", "wait", "--yes"),
        ("dead", "replay", "--generation", "v1", "--dry-run"),
        ("dead", "replay", "--generation", "v 1"),
        ("recovery", "set", "unknown", "--tries", "2", "--after", "9h", "--then", "fail"),
        ("recovery", "set", "unknown", "--tries", "2"),
        ("recovery", "set", "unknown", "--tries", "0", "--target", "<side>"),
        ("recovery", "remove", "unknown", "--target", "<side>"),
        ("recovery", "remove", "unknown", "--target", "<side>"),
        ("recovery", "generations"),
        ("dead", "release", "<dead>"),
        ("dead", "retry", "<dead>", "--keep-attempts"),
        ("dead", "edit", "<spoiled>", '{"n":  2}'),
        ("dead", "discard", "<spent>", "--note", "spent"),
        ("dead", "discard", "<spent>", "--note", "spent"),
        ("dead", "show", "<spent>"),
        ("dead", "retry", "--tag", "<some>", "--rate", "100", "--yes"),
        ("dead", "retry", "--tag", "<some>", "--yes"),
        ("dead", "discard", "--tag", "<more>", "--note", "spent", "--yes"),
    ],
    "streams": [
        ("streams", "retry-now", "<line>"),
        ("streams", "dead-letter-head", "<line>", "--note", "enough"),
        ("streams", "configure", "<line>", "--on-failure", "release"),
        ("streams", "pause", "<queue>", "--reason", "wait"),
        ("streams", "release", "<queue>"),
        ("streams", "configure", "<side>", "--on-failure", "block"),
    ],
    "batches": [
        ("batches", "open", "log", '{"month":  11}', "--name", "<side>", "--priority", "7"),
        ("batches", "open", "log", "[1]"),
        ("batches", "open", "log", '{"batch": 1}'),
        ("batches", "open", "nobody"),
        ("batches", "open", "endpoint:none"),
        ("batches", "show", "<batch>"),
        ("deliver", "log", "1", "--after", "1d", "--batch", "<batch>"),
        ("deliver", "log", "1", "--after", "1d", "--batch", NO_BATCH),
        ("deliver", "log", "1", "--after", "1d", "--batch", "none"),
        ("deliveries", "list", "--batch", "<batch>"),
        ("batches", "close", "<batch>"),
        ("deliver", "log", "1", "--after", "1d", "--batch", "<batch>"),
        ("batches", "cancel", "<batch>"),
        ("batches", "cancel", "<batch>"),
        ("batches", "close", NO_BATCH),
        ("batches", "list", "--state", "ended"),
    ],
    "endpoints": [
        (*("endpoints", "add", "<side>", HOOK, "--rate", "5", "--in-flight", "2"),
         *("-H", "X-Api-Key: hush", "-H", "X-Team: 7", "--timeout", "5s")),
        ("endpoints", "add", "<side>", HOOK),
        ("endpoints", "edit", "<side>", "--per", "customer", "--per-rate", "5"),
        ("endpoints", "edit", "<side>", "--per", "customer"),
        ("endpoints", "edit", "<side>", "--per", "customer", "--per-in-flight", "0"),
        ("limits", "show", "endpoint:<side>"),
        ("endpoints", "edit", "<side>", "--no-per"),
        ("endpoints", "edit", "<side>", "--no-rate", "-H", "x-team: 8", "--description", "d"),
        ("endpoints", "edit", "<side>", "--no-header", "x-team", "--method", "put"),
        ("endpoints", "edit", "<side>", "--no-header", "x-none"),
        ("endpoints", "pause", "<side>", "--reason", "it moves"),
        ("endpoints", "resume", "<side>"),
        ("endpoints", "rotate", "<side>", "--secret", f"whsec_{'A' * 43}="),
        ("endpoints", "show", "<side>"),
        ("endpoints", "test", "<side>", "--data", '{"a": 1}'),
        ("endpoints", "recover", "<failing>", "--since", "1h", "--rate", "100", "--yes"),
        ("endpoints", "remove", "<hook>", "--yes"),
        ("endpoints", "remove", "<hook>", "--yes", "--cancel-waiting"),
        ("endpoints", "remove", "<side>", "--yes"),
    ],
    "workers": [
        ("workers", "drain", "<worker>"),
        ("workers", "resume", "<worker>"),
        ("keys", "create", "new", "--scope", "operate", "--expires", "90d"),
        ("keys", "create", "new", "--scope", "all"),
        ("keys", "revoke", "<key>"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_changing_commands_print_and_do_the_same(
    sides: Sides, changes: list[tuple[str, ...]]
) -> None:
    words = sides.words()
    for change in changes:
        ours, theirs = sides.store(*change, "--json"), sides.server(*change, "--json")
        assert ours.plain(*words) == theirs.plain(*words), change


BY_ID: dict[tuple[str, ...], tuple[str, ...]] = {
    ("deliveries", "show"): (),
    ("deliveries", "retry"): (),
    ("deliveries", "cancel"): (),
    ("dead", "show"): (),
    ("dead", "retry"): (),
    ("dead", "edit"): ("2",),
    ("dead", "discard"): ("--note", "spent"),
    ("dead", "hold"): ("--note", "wait"),
    ("dead", "release"): (),
    ("dead", "give-up"): ("--note", "enough"),
    ("batches", "show"): (),
    ("batches", "close"): (),
    ("batches", "cancel"): (),
    ("keys", "revoke"): (),
}
"""Every command that takes an id, with its other arguments."""


def test_every_command_that_takes_an_id_is_listed_here() -> None:
    whole, found = command_line(overview=False), set()
    for name in COMMANDS:
        for sub in (each for each in whole[name] if not each.startswith("-")):
            arguments = whole[name][sub].assemble_argument_collection()
            if any(each.field_info.name in ("id", "ids") for each in arguments):
                found.add((name, sub))
    assert found - {("deliveries", "list")} == BY_ID.keys()


@pytest.mark.parametrize("command", BY_ID, ids=" ".join)
def test_an_id_may_be_given_by_its_prefix(sides: Sides, command: tuple[str, ...]) -> None:
    for run in (sides.store, sides.server):
        id, twin = _two(sides, command)
        shared = id[: next(place for place in range(len(id)) if id[place] != twin[place])]
        several = run(*command, shared, *BY_ID[command])
        assert several.code == 2, several.err
        assert f"begin with {shared}; give more of it: " in several.err
        done = run(*command, id[:-4], *BY_ID[command], "--json")
        assert (done.code, json.loads(done.out or "{}").get("id")) == (0, id), done.err
        missing = run(*command, "7777777", *BY_ID[command])
        assert (missing.code, "'7777777'" in missing.err) == (3, True)
    assert sides.store(*command, id[:3], *BY_ID[command]).code in (2, 3)


def test_a_page_can_start_at_the_prefix_of_an_id(sides: Sides) -> None:
    listed = ("deliveries", "list", "--json", "--limit")
    latest = [each["id"] for each in sides.store(*listed, "6").document["items"]]
    for run in (sides.store, sides.server):
        found = run(*listed, "2", "--before", latest[3][:-4]).document["items"]
        assert [each["id"] for each in found] == latest[4:]


def _two(sides: Sides, command: tuple[str, ...]) -> list[str]:
    """Make two records for the command whose ids have the same prefix."""
    if command[0] == "keys":
        id = _created(sides, "keys", "create", "one")
        twin = id[:8] + "".join("a" if each == "b" else "b" for each in id[8:])
        copied = "namespace, name, scope, hash, created_at"
        insert = f"insert into duly.keys (id, {copied}) select '{twin}', {copied}"
        asyncio.run(sides.home.execute(f"{insert} from duly.keys where id = '{id}'"))
        return [id, twin]
    if command[0] == "batches":
        return [_created(sides, "batches", "open", "log") for _ in range(2)]
    to = ("deliver", "log", "--after", "1d", "--stream", uuid.uuid4().hex)
    ids = [_created(sides, *to) for _ in range(2)]
    for _ in ids if command[0] == "dead" else ():
        assert sides.store("streams", "dead-letter-head", to[-1]).code == 0
    return ids


def _created(sides: Sides, *command: str) -> str:
    return str(sides.store(*command, "--json").document["id"])
