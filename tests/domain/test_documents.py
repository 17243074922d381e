"""JSON documents are checked in one piece or in slices, with the same result."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.documents import LARGE, MARKS_IN_A_SLICE, OutOfRange, Unfit, Walk, check, checking
from tests.domain.deliveries.test_payloads import json_values

pytestmark = pytest.mark.requirement("X2")
ODD = [
    b"[" * 64 + b"]" * 64,
    b"[" * 65 + b"]" * 65,
    b'[{"a":' * 32 + b"{}" + b"}]" * 32,
    b'["%s"]' % (b"[{" * 100),
    b'{"a": 1, "a": 2}',
    b'{"a": 1, "\\u0061": 2}',
    b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}',
    b'{"a\\"": 1, "a": ":", "b" : "a"}',
    b'[{"a": 1}, {"b": 1, "c": 2, "b": 3}]',
    b"[1e400]",
    b"[-1e308, 1E-999, 1.5e+3]",
    b"[%s]" % (b"9" * 4300),
    b"[-%s]" % (b"9" * 4301),
    b"[%s.5]" % (b"1" * 308),
    b"[%s.5]" % (b"1" * 400),
    b"[0.%s]" % (b"1" * 400),
    b'["\xff"]',
    b'["\\ud800"]',
    b'["\\x"]',
    b'["a\x01"]',
    b"[01]",
    b"[1,]",
    b"[1 2]",
    b'{"a" 1}',
    b"{1: 2}",
    b"[}",
    b"[1] x",
    b'["a',
    b"[",
    b"",
    b"[-]",
    b"[NaN]",
]


def verdict(work: Any) -> str:
    """The result of a check; the messages for invalid JSON may differ."""
    try:
        work()
    except OutOfRange:
        return "out of range"
    except Unfit as error:
        return str(error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "no JSON"
    return "taken"


def alike(data: bytes) -> str:
    """The result for a document, which has to be the same in slices."""
    assert len(data) <= LARGE
    found = verdict(lambda: check(data))
    assert verdict(lambda: list(checking(data))) == found
    # Padded with spaces so that it is large enough for slices.
    assert verdict(lambda: check(data + b" " * LARGE)) == found
    return found


def test_unusual_documents_have_the_same_result_in_slices() -> None:
    found = [alike(each) for each in ODD]
    assert found.count("taken") == 8
    assert sum("nested" in each for each in found) == 2
    assert sum("twice" in each for each in found) == 3
    assert found.count("out of range") == 3


@given(json_values, st.sampled_from([None, 1]))
def test_any_valid_document_is_accepted_in_slices_too(value: Any, indent: int | None) -> None:
    assert alike(json.dumps(value, indent=indent, ensure_ascii=False).encode()[:LARGE]) in (
        "taken",
        "no JSON",
    )


def test_a_walk_ends_with_the_value_and_reports_an_unfinished_one() -> None:
    text = '[{"a": "]}"}, [1, "\\"]"], "x"]'
    for value in ('{"a": "]}"}', '[1, "\\"]"]', '"x"'):
        walk = Walk(text, text.index(value))
        list(walk.slices())
        assert walk.end == text.index(value) + len(value)
    for broken in ('["a', "[1, 2", "[-", "[" + " " * 100_000):
        walk = Walk(broken)
        list(walk.slices())
        assert walk.end is None
    walk = Walk("[[1], [2]]", most=5)
    list(walk.slices())
    assert walk.end is None


@pytest.mark.parametrize("part", [b"{}", b"[]", b"1", b'""', b'{"a":1}', b"1e5"])
def test_large_documents_are_checked_in_many_slices(part: bytes) -> None:
    """Counted, not timed: no slice checks more than the constants allow."""
    count = 60 * MARKS_IN_A_SLICE
    slices = sum(1 for _ in checking(b"[%s]" % b",".join([part] * count)))
    assert slices >= 30
