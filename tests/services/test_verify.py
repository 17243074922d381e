"""`duly.verify`, compared with another implementation of the signatures."""

import time
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from standardwebhooks.webhooks import Webhook
from starlette.datastructures import Headers

import duly
from duly.domain.endpoints.signatures import new_secret, secret_key, signatures

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = new_secret(b"another key of thirty-two bytes!")
SENT_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
BODY = '{"hello": "wörld"}'
ids = some.text(some.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=40)
bodies = some.text(some.characters(codec="utf-8"), max_size=200)


def signed(
    *secrets: str, body: str = BODY, at: datetime = SENT_AT, id: str = "msg_1"
) -> dict[str, str]:
    """Headers made by another implementation."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(each).sign(id, at, body) for each in secrets),
    }


@pytest.mark.requirement("C6")
@given(ids, bodies)
def test_signatures_of_others_are_accepted(id: str, body: str) -> None:
    headers = signed(SECRET, body=body, id=id)
    assert duly.verify(body, headers, SECRET, now=SENT_AT) == id


@pytest.mark.requirement("C6")
@given(ids, bodies)
def test_our_signatures_are_accepted_by_others(id: str, body: str) -> None:
    now = int(time.time())
    keys = [secret_key(SECRET), secret_key(OTHER)]
    header = signatures(keys, id, now, body.encode())
    headers = {"webhook-id": id, "webhook-timestamp": str(now), "webhook-signature": header}
    for secret in (SECRET, OTHER):
        Webhook(secret).verify(body, headers, json_parse=False)


@pytest.mark.requirement("C6")
def test_the_default_time_is_now() -> None:
    assert duly.verify(BODY, signed(SECRET, at=datetime.now(UTC)), SECRET) == "msg_1"
    with pytest.raises(duly.SignatureRefused, match="too old"):
        duly.verify(BODY, signed(SECRET), SECRET)


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    "secret", [OTHER, f"{OTHER} {SECRET}", [OTHER, SECRET], (SECRET, OTHER), iter([OTHER])]
)
def test_during_a_key_rotation_either_side_may_have_both_keys(secret: Any) -> None:
    assert duly.verify(BODY, signed(SECRET, OTHER), secret, now=SENT_AT) == "msg_1"


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("change", ["webhook-id", "webhook-timestamp", "webhook-signature", "body"])
def test_every_change_is_detected(change: str) -> None:
    headers, body = signed(SECRET), BODY.encode()
    others = signed(SECRET, id="msg_2", at=SENT_AT + timedelta(seconds=1))
    if change == "body":
        body = body.replace(b"hello", b"hallo")
    else:
        headers[change] = others[change]
    with pytest.raises(duly.SignatureRefused, match="no signature matches"):
        duly.verify(body, headers, SECRET, now=SENT_AT)


@pytest.mark.requirement("C6")
def test_another_secret_accepts_nothing() -> None:
    with pytest.raises(duly.SignatureRefused, match="no signature matches"):
        duly.verify(BODY, signed(SECRET), OTHER, now=SENT_AT)


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("tolerance", [600, timedelta(minutes=10)])
@pytest.mark.parametrize(
    ("seconds", "accepted"), [(600, True), (-600, True), (601, False), (-601, False)]
)
def test_the_receiver_chooses_how_old_a_message_may_be(
    seconds: int, accepted: bool, tolerance: Any
) -> None:
    now = SENT_AT + timedelta(seconds=seconds)
    if accepted:
        assert duly.verify(BODY, signed(SECRET), SECRET, tolerance=tolerance, now=now)
        return
    with pytest.raises(duly.SignatureRefused, match="too old"):
        duly.verify(BODY, signed(SECRET), SECRET, tolerance=tolerance, now=now)


def as_message(headers: dict[str, str]) -> Message:
    message = Message()
    for name, value in headers.items():
        message[name.title()] = value
    return message


@pytest.mark.parametrize(
    "kind",
    [
        dict,
        Headers,
        as_message,
        lambda headers: {name.upper(): value for name, value in headers.items()},
        lambda headers: {name.encode(): value.encode() for name, value in headers.items()},
    ],
)
@pytest.mark.parametrize("body", [BODY, BODY.encode(), bytearray(BODY.encode())])
def test_headers_and_body_of_all_frameworks_are_accepted(kind: Any, body: Any) -> None:
    assert duly.verify(body, kind(signed(SECRET)), SECRET, now=SENT_AT) == "msg_1"


texts = some.text(max_size=40)


@pytest.mark.requirement("C6")
@given(some.binary(max_size=40) | texts, texts, texts, texts)
def test_invalid_input_is_refused_without_another_error(
    body: bytes | str, id: str, timestamp: str, signature: str
) -> None:
    headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
    for each in (headers, headers | {"webhook-timestamp": str(int(SENT_AT.timestamp()))}):
        with pytest.raises(duly.SignatureRefused):
            duly.verify(body, each, SECRET, now=SENT_AT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"body": {"hello": "world"}}, "body: give the bytes as received"),
        ({"headers": [("webhook-id", "a")]}, "headers: give a mapping"),
        ({"secret": ""}, "secret: there is none"),
        ({"secret": None}, "secret: there is none"),
        ({"secret": "hunter2"}, "secret: "),
        ({"tolerance": -1}, "tolerance: "),
        ({"now": datetime(2026, 3, 1)}, "now: .* has no time zone"),  # noqa: DTZ001
    ],
)
def test_a_mistake_of_the_receiver_is_not_a_refused_signature(
    change: dict[str, Any], message: str
) -> None:
    arguments = {"body": BODY, "headers": signed(SECRET), "secret": SECRET} | change
    with pytest.raises(duly.InvalidInput, match=message) as caught:
        duly.verify(**arguments)
    assert "hunter2" not in str(caught.value)
