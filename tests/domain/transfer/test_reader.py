"""Reading an export: only complete and valid files are accepted; errors have the line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.domain.endpoints.signatures import new_secret
from duly.domain.transfer.reader import BATCH, Reading, Survey
from duly.errors import InvalidInput

pytestmark = pytest.mark.requirement("C10")
AT = "2026-11-15T12:00:00Z"
SECRET = new_secret(b"0" * 32)
HEADING = {
    "kind": "duly-export", "version": 1, "duly": "0.1.0", "schema": 12, "namespace": "default",
    "exported_at": AT, "deliveries": "unfinished", "secrets": False,
}  # fmt: skip
ENDPOINT = {
    "kind": "endpoint", "name": "billing", "url": "https://example.org/in", "state": "active",
    "state_at": AT, "secrets": [{"secret": SECRET}],
}  # fmt: skip
STREAM = {"kind": "stream", "name": "team:7", "paused_at": AT}
SCHEDULE = {
    "kind": "schedule", "name": "hourly",
    "rule": {"kind": "every", "interval": "PT1H", "anchor": AT},
    "catch_up": "all", "target": "work", "progress": {"fired_at": AT},
}  # fmt: skip
DELIVERY = {
    "kind": "delivery", "id": "01990000-0000-7000-8000-000000000001", "state": "pending",
    "target": "work", "payload": {"n": 1}, "due_at": AT, "accepted_at": AT,
}  # fmt: skip
POLICY = {"kind": "policy", "reason": "unknown", "tries": 3, "then": "hold"}
CALENDAR = {"kind": "calendar", "name": "nrw", "days": {"closed": {"2026-12-25": "Christmas"}}}
THINGS = (ENDPOINT, STREAM, POLICY, CALENDAR, SCHEDULE, DELIVERY)
WEBHOOK = {"target": "https://example.org", "webhook": {"url": "https://example.org/hook"}}
OCCASION = {"schedule": "hourly", "scheduled_for": AT}
DEAD = {"state": "dead", "dead_at": AT, "finished_at": AT}
IN_LINE = {"stream": "s", "position": 1, "in_line": True}
PAST = {"attempt": 1, "outcome": "retry", "finished_at": AT}
STEP = {"name": "charge", "attempt": 1, "done_at": AT}


def file(*things: Any, heading: Any = HEADING, counts: Any = None) -> list[bytes]:
    """The lines of an export of these records."""
    ending = {"kind": "end", "counts": {"things": len(things)} if counts is None else counts}
    return [json.dumps(each).encode() + b"\n" for each in (heading, *things, ending)]


def survey(lines: list[bytes], reported: list[tuple[int, str]] | None = None) -> Survey:
    report = (
        None if reported is None else lambda number, problem: reported.append((number, problem))
    )
    return Reading(lines, 1000, report).survey()


def refusal(lines: list[bytes]) -> str:
    with pytest.raises(InvalidInput) as raised:
        survey(lines)
    return str(raised.value)


def test_a_whole_file_is_read_to_its_end() -> None:
    found = survey(file(*THINGS))
    assert (found.total, found.bad, found.heading.namespace) == (6, 0, "default")
    assert found.counts == {
        "endpoints": 1,
        "streams": 1,
        "policies": 1,
        "calendars": 1,
        "schedules": 1,
        "deliveries": 1,
    }


def test_a_file_that_is_cut_off_anywhere_is_refused() -> None:
    whole = b"".join(file(*THINGS))
    # Only the last line break may be missing.
    for size in range(len(whole) - 1):
        message = refusal(whole[:size].splitlines(keepends=True))
        assert "cut off" in message or "its first line" in message, (size, message)


def test_a_part_of_a_file_or_two_files_are_refused() -> None:
    lines = file(*THINGS)
    assert "counts 6 entries, and there are 5" in refusal(lines[:2] + lines[3:])
    assert "there is more after its end in line 8" in refusal(lines + lines)


@pytest.mark.parametrize("heading", [None, 7, [], "x", {}, {"kind": "delivery"}, DELIVERY])
def test_a_file_that_is_not_an_export_is_refused(heading: Any) -> None:
    assert "first line is not that of an export" in refusal(file(heading=heading))
    assert "first line is not that of an export" in refusal([b"\xff\xfe garbage"])
    assert "first line is not that of an export" in refusal([])


def test_a_newer_version_is_refused_whatever_its_contents() -> None:
    heading = {"kind": "duly-export", "version": 2, "duly": "9.9", "compression": "zstd"}
    message = refusal(file(heading=heading))
    assert "version 2 by duly 9.9" in message
    assert "first line is damaged" in refusal(file(heading=HEADING | {"schema": "x"}))


GOOD = (
    DELIVERY | WEBHOOK,
    DELIVERY | {"target": "endpoint:billing"},
    DELIVERY | DEAD | IN_LINE | {"blocks": AT, "on_failure": "block"},
    DELIVERY | {"schedule": "hourly", "occurrence": "x", "occasion": OCCASION},
    DELIVERY | {"steps": [STEP], "history": [PAST]},
    SCHEDULE | WEBHOOK,
    ENDPOINT | {"secrets": [], "missing": ["secret"]},
)


@pytest.mark.parametrize("thing", GOOD)
def test_valid_records_are_accepted(thing: Any) -> None:
    assert survey(file(thing)).total == 1


BAD = (
    ({"kind": "user"}, "Invalid value 'user'"),
    (CALENDAR | {"days": {"weekend": []}}, "closed: it closes no day"),
    (CALENDAR | {"days": {"weekend": [8]}}, "weekend: 8 is no weekday"),
    (CALENDAR | {"name": ""}, "is not a name"),
    (DELIVERY | {"surprise": 1}, "unknown field `surprise`"),
    (DELIVERY | {"id": "7"}, "id: '7' is no delivery id"),
    (DELIVERY | {"id": DELIVERY["id"].upper()[:-1] + "A"}, "is no delivery id"),  # type: ignore[attr-defined]
    (DELIVERY | {"state": "processing"}, "Invalid enum value 'processing'"),
    (DELIVERY | {"target": "no name"}, "target: 'no name' is not a name"),
    (DELIVERY | {"target": "https://example.org"}, "webhook: a URL has one"),
    (
        DELIVERY | WEBHOOK | {"target": "https://example.com"},
        "target: it is not https://example.org",
    ),
    (DELIVERY | WEBHOOK | {"missing": ["Authorization"]}, "without the headers Authorization"),
    (DELIVERY | {"webhook": {"url": "ftp://x"}, "target": "http://x"}, "url: "),
    (DELIVERY | {"payload": "x" * 1000}, "payload: 1002 bytes are more"),
    (DELIVERY | {"payload_text": "{"}, "payload: it is not valid JSON"),
    (DELIVERY | {"key": ""}, "key: it has 0 bytes"),
    (DELIVERY | {"priority": 0}, "priority: 0 is not"),
    (DELIVERY | {"due_at": "2026-11-15T12:00:00"}, "timezone"),
    (DELIVERY | {"due_at": "9500-01-01T00:00:00Z"}, "due_at: "),
    (DELIVERY | {"attempt": -1}, "`int` >= 0"),
    (DELIVERY | {"error": "\0"}, "error: it holds what no store keeps"),
    (DELIVERY | {"state": "dead"}, "finished_at: it does not go with the state dead"),
    (DELIVERY | DEAD | {"next_at": AT}, "next_at: "),
    (DELIVERY | {"dead_at": AT}, "dead_at: "),
    (DELIVERY | {"position": 1}, "stream: "),
    (DELIVERY | {"stream": "s", "in_line": True}, "position: "),
    (DELIVERY | IN_LINE | {"blocks": AT}, "blocks: "),
    (DELIVERY | {"schedule": "hourly"}, "schedule: "),
    (DELIVERY | {"steps": [STEP | {"name": ""}]}, "step: it has 0 bytes"),
    (DELIVERY | {"history": [PAST | {"error": "\0"}]}, "error: it holds"),
    (DELIVERY | {"retry": {"type": "never"}}, "never"),
    (SCHEDULE | {"rule": {"kind": "cron", "expression": "x"}}, "expression: "),
    (SCHEDULE | {"target": "https://x"}, "webhook: "),
    (SCHEDULE | {"cap": 0}, "cap: 0 is not"),
    (SCHEDULE | {"progress": {"fired_at": "2026-11-15T12:00:00"}}, "progress.fired_at: "),
    (SCHEDULE | {"progress": {"fired_at": AT, "made_id": "x"}}, "id: "),
    (SCHEDULE | {"name": "\n"}, "name: "),
    (ENDPOINT | {"url": "nowhere"}, "url: "),
    (ENDPOINT | {"secrets": [{"secret": "short"}]}, "secret"),
    (ENDPOINT | {"timeout": 0}, "timeout: "),
    (STREAM | {"on_failure": "hope"}, "hope"),
)


@pytest.mark.parametrize(("thing", "problem"), BAD)
def test_a_bad_line_is_reported_with_its_number_and_problem(thing: Any, problem: str) -> None:
    message = refusal(file(thing))
    assert message.startswith("line 2: ")
    assert problem in message
    reported: list[tuple[int, str]] = []
    lines = file(ENDPOINT, thing, DELIVERY)
    lines[3:3] = [b"garbage\n", b"\n"]
    lines[-1] = lines[-1].replace(b"3", b"4")
    found = survey(lines, reported)
    assert (found.total, found.bad) == (2, 2)
    assert [number for number, _ in reported] == [3, 4]
    assert problem in reported[0][1]


def test_records_come_after_those_they_refer_to() -> None:
    message = refusal(file(DELIVERY, SCHEDULE))
    assert message == "line 3: schedules stand before deliveries, which refer to them"


def test_a_batch_has_one_kind_of_record_and_a_limited_size() -> None:
    things = [ENDPOINT, *[DELIVERY] * (BATCH + 1)]
    found = list(Reading(file(*things), 1000, None).batches())
    assert [len(each) for each in found] == [1, BATCH, 1]
    assert found[-1][0][0] == BATCH + 3
