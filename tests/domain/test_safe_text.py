"""Foreign text is made safe to show."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.safe_text import one_line, safe_json, shown_url, visible

pytestmark = pytest.mark.requirement("X5")

BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
UNSAFE = {
    each
    for each in map(chr, range(0x110000))
    if unicodedata.category(each) in ("Cc", "Zl", "Zp") or ord(each) in BIDI
}


def test_every_control_character_is_escaped() -> None:
    for each in UNSAFE - {"\n", "\t"}:
        assert visible(f"a{each}b") == f"a{repr(each)[1:-1]}b"
        assert UNSAFE.isdisjoint(one_line(f"a{each}b") + safe_json(json.dumps(each)))
    assert visible("two\n\tlines") == "two\n\tlines"
    assert one_line("two\n\tlines") == "two\\n\tlines"


@given(st.text(st.characters(codec="utf-8")))
def test_other_text_is_unchanged_and_json_keeps_its_meaning(text: str) -> None:
    assert json.loads(safe_json(json.dumps(text, ensure_ascii=False))) == text
    plain = "".join(each for each in text if each not in UNSAFE)
    assert visible(plain) == one_line(plain) == plain


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/hook", "https://example.org/hook"),
        ("https://example.org/?token=hunter2&a=", "https://example.org/?token=…&a="),
        ("https://example.org?hunter2", "https://example.org?…"),
        ("https://example.org/?a=b=hunter2?hunter2&&c", "https://example.org/?a=…&&…"),
        ("https://me:hunter2@example.org/x@y", "https://…@example.org/x@y"),
        ("http://me:hunter2@hunter2@example.org/x", "http://…@example.org/x"),
        ("https://example.org/a@b?c=hunter2#d", "https://example.org/a@b?c=…#d"),
        ("no URL?hunter2", "no URL?…"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_user_and_the_values_of_its_query(url: str, shown: str) -> None:
    assert shown_url(url) == shown
