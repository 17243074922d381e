"""Records of deliveries: the keywords are the fields, and lists may omit payloads."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from duly.errors import InvalidInput
from duly.records.delivery import (
    Delivery,
    DeliveryFilter,
    DeliveryKeywords,
    DeliveryOptions,
    FilterKeywords,
    listed,
)
from duly.records.state import State

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
DELIVERY = Delivery(
    id="a",
    namespace="default",
    target="work",
    state=State.PENDING,
    priority=5,
    attempt=0,
    due_at=NOW,
    accepted_at=NOW,
    payload_json=msgspec.Raw(b'{"b" : 1.50}'),
)


@pytest.mark.parametrize(
    ("keywords", "struct"), [(DeliveryKeywords, DeliveryOptions), (FilterKeywords, DeliveryFilter)]
)
def test_the_keywords_are_the_fields_of_the_struct(
    keywords: Any, struct: type[msgspec.Struct]
) -> None:
    assert {*keywords.__annotations__} == {*struct.__struct_fields__}


def test_a_payload_is_decoded_and_encoded_unchanged() -> None:
    assert DELIVERY.payload == {"b": 1.5}
    assert b'"payload":{"b" : 1.50}' in msgspec.json.encode(DELIVERY)


def test_a_record_without_a_payload_raises_an_error() -> None:
    (bare,) = listed([DELIVERY], payloads=False)
    assert "payload" not in msgspec.to_builtins(bare)
    with pytest.raises(InvalidInput, match="payloads=True"):
        _ = bare.payload
    assert listed([DELIVERY], payloads=True) == [DELIVERY]
