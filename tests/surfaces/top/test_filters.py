"""Filters that a user types."""

import pytest

from duly.errors import InvalidInput
from duly.surfaces.cli.top.filters import OF_DEAD_LETTERS, OF_DELIVERIES, parsed


@pytest.mark.parametrize(
    ("typed", "keywords"),
    [
        ("", {}),
        ("no route", {"text": "no route"}),
        ("target:mail", {"target": "mail"}),
        (
            "target:https://a.example broken tag:red",
            {"target": "https://a.example", "tag": "red", "text": "broken"},
        ),
        ('stream:"a b" x', {"stream": "a b", "text": "x"}),
        ("TypeError: x", {"text": "TypeError: x"}),
        ("tag:", {"text": "tag:"}),
        ("it's", {"text": "it's"}),
    ],
)
def test_qualifiers_become_fields_and_the_rest_is_text(typed: str, keywords: object) -> None:
    assert parsed(typed).keywords(OF_DELIVERIES) == keywords


def test_a_qualifier_that_does_not_apply_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidInput, match=r"^filter: fingerprint: does not apply.*id:, target:"):
        parsed("fingerprint:abc").keywords(OF_DELIVERIES)
    assert parsed("fingerprint:abc").keywords(OF_DEAD_LETTERS) == {"fingerprint": "abc"}
