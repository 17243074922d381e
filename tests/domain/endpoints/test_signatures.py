"""Signatures by the rules of Standard Webhooks."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.endpoints.signatures import (
    SignatureRefused,
    check,
    new_secret,
    secret_key,
    secret_keys,
    signatures,
)
from duly.errors import InvalidInput

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
SENT = 1674087231
BODY = (
    b'{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z",'
    b'"data":{"id":"1f81eb52-5198-4599-803e-771906343485"}}'
)
KNOWN = "v1,ARw42xaAApl/nxRo+iPGYwSaMQaOwMo2eyH5JBRA+bQ="
NOW = datetime.fromtimestamp(SENT, UTC)


def headers(signature: str = KNOWN, **changes: str) -> dict[str, str]:
    given = {"Webhook-Id": ID, "webhook-timestamp": str(SENT), "WEBHOOK-SIGNATURE": signature}
    return given | changes


@pytest.mark.requirement("C6")
def test_a_known_message_has_the_known_signature() -> None:
    assert signatures([secret_key(SECRET)], ID, SENT, BODY) == KNOWN


@pytest.mark.requirement("C6")
def test_a_signed_message_is_accepted_and_has_its_id() -> None:
    assert check([secret_key(SECRET)], headers(), BODY, NOW) == ID


@pytest.mark.requirement("C6")
def test_during_a_rotation_either_key_is_accepted() -> None:
    old, new = secret_key(SECRET), b"n" * 32
    both = signatures([old, new], ID, SENT, BODY)
    assert both.count("v1,") == 2
    for receiver in ([old], [new], [b"x" * 32, new]):
        assert check(receiver, headers(both), BODY, NOW) == ID


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("given", "body", "message"),
    [
        (headers(), BODY + b" ", "no signature matches"),
        (headers("v1,AAAA"), BODY, "no signature matches"),
        (headers("v1a,whatever v2,whatever"), BODY, "no signature matches"),
        (headers(**{"Webhook-Id": "another"}), BODY, "no signature matches"),
        (headers(**{"webhook-timestamp": str(SENT - 301)}), BODY, "too old"),
        (headers(**{"webhook-timestamp": str(SENT + 301)}), BODY, "too old or in the future"),
        (headers(**{"webhook-timestamp": "now"}), BODY, "no number"),
        (headers(**{"webhook-timestamp": "9" * 30}), BODY, "no number"),
        ({"webhook-id": ID}, BODY, "webhook-timestamp is missing"),
        (headers(""), BODY, "webhook-signature is missing"),
        (headers(**{"Webhook-Id": "\udcff"}), BODY, "webhook-id is no text"),
        (headers("v1,\udcff"), BODY, "webhook-signature is no text"),
        (headers("v1,é"), BODY, "no signature matches"),
    ],
)
def test_anything_else_is_refused(given: dict[str, str], body: bytes, message: str) -> None:
    with pytest.raises(SignatureRefused, match=message):
        check([secret_key(SECRET)], given, body, NOW)


@pytest.mark.requirement("C6")
def test_an_id_cannot_reach_into_the_body_of_another_message() -> None:
    signed = signatures([secret_key(SECRET)], "a", SENT - 9, b"%d.5" % SENT)
    split = {"webhook-id": f"a.{SENT - 9}", "webhook-timestamp": str(SENT)}
    assert signatures([secret_key(SECRET)], split["webhook-id"], SENT, b"5") == signed
    with pytest.raises(SignatureRefused, match="full stop"):
        check([secret_key(SECRET)], split | {"webhook-signature": signed}, b"5", NOW)


@pytest.mark.requirement("C6")
def test_the_receiver_may_have_a_larger_tolerance() -> None:
    late = NOW + timedelta(minutes=20)
    assert check([secret_key(SECRET)], headers(), BODY, late, timedelta(hours=1)) == ID


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "whsec_c2hvcnQ=", "x" * 200])
def test_an_invalid_secret_is_refused(secret: str) -> None:
    with pytest.raises(InvalidInput, match="secret"):
        secret_key(secret)


def test_a_key_and_its_secret_can_be_converted_into_each_other() -> None:
    assert secret_key(new_secret(bytes(range(32)))) == bytes(range(32))


def test_a_secret_needs_no_padding() -> None:
    padded = new_secret(bytes(range(25)))
    assert padded.endswith("==")
    assert secret_key(padded.rstrip("=")) == bytes(range(25))


def test_several_secrets_can_be_given_in_several_forms() -> None:
    other = new_secret(b"o" * 32)
    keys = [secret_key(SECRET), b"o" * 32]
    assert secret_keys(f"{SECRET}  {other}\n") == keys
    assert secret_keys([SECRET, other]) == secret_keys((SECRET, other)) == keys


@pytest.mark.parametrize("none", ["", " ", [], None])
def test_a_missing_secret_is_refused(none: object) -> None:
    with pytest.raises(InvalidInput, match="secret: there is none"):
        secret_keys(none)  # type: ignore[arg-type]
