"""Fingerprints: similar errors have the same one, different errors have different ones."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.deliveries.fingerprints import fingerprint, shape

pytestmark = pytest.mark.requirement("F4")

ALIKE = [
    ("order 17 is unknown", "order 4711 is unknown"),
    ("no user 'bob'", "no user 'alice smith'"),
    ('KeyError: "a"', 'KeyError: "b c"'),
    ("<Session object at 0x7f001122>", "<Session object at 0x55d1e2f0>"),
    (
        "row 019b5a71-64b0-7f0c-8a3d-0d3c1f6f7a55 is locked",
        "row 7c9e6679-7425-40de-944b-e07fc1f90ae7 is locked",
    ),
    ("connect to 10.0.0.7:5432 failed", "connect to 192.168.1.20:5433 failed"),
    ("https://a.example/x?y=1 is away", "https://b.example/z is away"),
    ("mail to bob@example.org bounced", "mail to eve+x@mail.example.com bounced"),
    ("commit deadbeefcafe is gone", "commit 0123456789ab is gone"),
    ("usr_8fj2k1 is locked", "usr_9ak3l2 is locked"),
    ("it took 30.5 s", "it took 7 s"),
    ("not before 2026-11-15T10:00:00Z", "not before 2027-01-01 09:30:00+01:00"),
    ("ValueError: bad\nat line 7", "ValueError: bad\nat line 12, and more"),
]
UNLIKE = [
    ("it answered 404", "it answered 500"),
    ("HTTP 502", "HTTP 503"),
    ("[Errno 111] refused", "[Errno 113] no route"),
    ("S3Error: denied", "S4Error: denied"),
    ("can't open the user's file", "can't close the user's file"),
    ("KeyError: 'a'", "ValueError: 'a'"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_errors_that_differ_only_in_details_have_the_same_fingerprint(one: str, other: str) -> None:
    assert shape(one) == shape(other)
    assert fingerprint("unknown", one) == fingerprint("unknown", other)


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_different_errors_have_different_fingerprints(one: str, other: str) -> None:
    assert fingerprint("unknown", one) != fingerprint("unknown", other)


def test_another_reason_is_another_group() -> None:
    assert fingerprint("unknown", "x") != fingerprint("timeout_exceeded", "x")
    assert fingerprint(None, None) == fingerprint("", "")


@given(st.text(), st.none() | st.text())
def test_a_fingerprint_has_sixteen_hex_characters_for_any_error(
    reason: str, error: str | None
) -> None:
    found = fingerprint(reason, error)
    assert len(found) == 16
    assert set(found) <= set("0123456789abcdef")
    assert found == fingerprint(reason, error)


@given(st.integers(0, 10**12), st.uuids(), st.integers(0, 2**40))
def test_ids_and_numbers_never_matter(number: int, id: object, address: int) -> None:
    error = f"delivery {id} of customer {number} at {hex(address)} failed"
    assert shape(error) == "delivery ? of customer ? at ? failed"


@pytest.mark.parametrize("part", ["xyz", "x.", "x-", "x' ", "7.x", "x@"])
def test_a_long_word_takes_linear_time(part: str) -> None:
    began = process_time()
    fingerprint("unknown", part * 10_000)
    assert process_time() - began < 2, "twice the length must not take four times as long"
