"""Accepted and refused values of a delivery: each error has the field and a remedy."""

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.checks import (
    checked_id,
    checked_limit,
    checked_moment,
    checked_name,
    checked_priority,
    checked_tags,
    checked_text,
    checked_wait,
)
from duly.domain.deliveries import payloads
from duly.domain.deliveries.payloads import payload_bytes
from duly.domain.deliveries.states import checked_state
from duly.errors import InvalidInput


@dataclasses.dataclass
class Dataclass:
    number: int
    moment: datetime


class Struct(msgspec.Struct):
    number: int
    moment: datetime


class Model(pydantic.BaseModel):
    number: int
    moment: datetime


class Reading(pydantic.BaseModel):
    value: float


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def nested(depth: int, leaf: Any = None) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_value_is_read_back_unchanged(value: Any) -> None:
    assert json.loads(payload_bytes(value)) == value


@given(json_values, st.sampled_from([None, 1]))
def test_bytes_are_stored_unchanged(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    assert payload_bytes(data) == data


@pytest.mark.parametrize("kind", [Dataclass, Struct, Model])
def test_structs_dataclasses_and_models_are_encoded_as_their_fields(kind: Any) -> None:
    data = payload_bytes(kind(number=7, moment=NOON))
    assert json.loads(data) == {"number": 7, "moment": "2026-11-16T12:00:00Z"}


@pytest.mark.parametrize(
    "taken",
    [
        {"a\0b": "\0"},
        2**70,
        -(2**63) - 1,
        nested(64),
        b"[" * 64 + b"]" * 64,
        str(2**70).encode(),
        {"nothing": None},
        "[{" * 200,
    ],
)
def test_unusual_but_valid_values_are_accepted(taken: Any) -> None:
    data = payload_bytes(taken)
    assert data == taken or msgspec.json.decode(data) == taken


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ({"a": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (math.nan, "NaN"),
        ({"deep": [1, {"er": -math.inf}]}, "NaN"),
        (Reading(value=math.nan), "NaN"),
        (nested(65), "nested"),
        (nested(65, leaf=1), "nested"),
        (nested(900), "nested"),
        (nested(5000), "nested"),
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"[" * 1000 + b"]" * 1000, "nested"),
        (b'{"a": 1, "a": 2}', "it has 'a' twice in one object; give it once"),
        (b"{nope", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"NaN", "not valid JSON"),
        (b"1e400", "not valid JSON"),
        (b"1" * 5000, "not valid JSON"),
        (b'"\xff"', "not valid JSON"),
        (b'"\\ud800"', "not valid JSON"),
        (b"1 2", "not valid JSON"),
        (msgspec.Raw(b"}{"), "not valid JSON"),
        (object(), "cannot be written as JSON"),
        ({(1, 2): 3}, "cannot be written as JSON"),
    ],
)
def test_values_that_are_not_json_are_refused_with_a_reason(refused: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as error:
        payload_bytes(refused)
    assert error.value.field == "payload"


def test_the_size_is_counted_in_bytes_and_the_error_has_a_remedy() -> None:
    assert len(payload_bytes("x" * 98, limit=100)) == 100
    with pytest.raises(InvalidInput, match="101 bytes are more than the 100 allowed; store the"):
        payload_bytes("x" * 99, limit=100)
    with pytest.raises(InvalidInput, match="payload"):
        payload_bytes("é" * 50, limit=100)
    with pytest.raises(InvalidInput, match="payload"):
        payload_bytes(b"[" + b" " * payloads.BODY_LIMIT + b"]")


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (checked_priority, 1, 1),
        (checked_priority, 9, 9),
        (checked_limit, 1, 1),
        (checked_state, "dead", "dead"),
        (lambda value: checked_tags(value), ["b", "a", "b"], ("b", "a")),
        (lambda value: checked_text("key", value), "é" * 127, "é" * 127),
        (lambda value: checked_name("target", value), "a.b:c/d-e_9", "a.b:c/d-e_9"),
        (lambda value: checked_wait("after", value), timedelta(minutes=1.5), 90.0),
        (lambda value: checked_wait("after", value), 0, 0.0),
        (
            lambda value: checked_moment("at", value),
            datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (
            checked_id,
            "018F00000000700080000000000000AB",
            "018f0000-0000-7000-8000-0000000000ab",
        ),
    ],
)
def test_valid_values_are_normalized(check: Any, value: Any, expected: Any) -> None:
    assert check(value) == expected


@pytest.mark.parametrize(
    ("field", "check", "value"),
    [
        *[("priority", checked_priority, value) for value in (0, 10, True, 5.0, "5", None)],
        *[("limit", checked_limit, value) for value in (0, -1, True, 1.5, "9", 10**9)],
        *[("id", checked_id, value) for value in ("", "7", 7, None, "018f-zz")],
        ("state", checked_state, "finished"),
        ("tags", checked_tags, "urgent"),
        ("tags", checked_tags, [""]),
        ("tags", checked_tags, ["a" * 101]),
        ("tags", checked_tags, [7]),
        ("tags", checked_tags, [f"tag{number}" for number in range(21)]),
        *[
            ("key", lambda value: checked_text("key", value), value)
            for value in ("", "é" * 128, "a\0b", "a\nb", "\ud800", 7, b"key")
        ],
        *[
            ("target", lambda value: checked_name("target", value), value)
            for value in ("", "a b", "-a", "a" * 201, "a\n", "é", None)
        ],
        *[
            ("after", lambda value: checked_wait("after", value), value)
            for value in (-1, math.nan, math.inf, True, "5", timedelta(seconds=-1), 10**11)
        ],
        *[
            ("at", lambda value: checked_moment("at", value), value)
            for value in (
                datetime(2026, 1, 1),  # noqa: DTZ001 - that is the point
                datetime(9999, 12, 31, tzinfo=UTC),
                datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
                datetime(9000, 1, 1, tzinfo=UTC),
                datetime(1969, 12, 31, tzinfo=UTC),
                "2026-01-01",
                1_700_000_000,
            )
        ],
    ],
)
def test_invalid_values_are_refused_with_their_field(field: str, check: Any, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(value)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_the_error_for_a_naive_moment_has_a_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"no time zone; give one, as in datetime.now\(UTC\)"):
        checked_moment("at", datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
