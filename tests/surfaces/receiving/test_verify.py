"""`duly verify`: check the signature of a message, without ever showing the secret."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from tests.surfaces.processes import Home

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "bm90IHRoZSBzZWNyZXQgdGhhdCBpdCB3YXMgc2lnbmVkIHdpdGg="
BODY = '{"hello": "wörld"}'
KNOWN = {"DULY_WEBHOOK_SECRET": SECRET}


def flags(**changes: str) -> list[str]:
    """The flags for a message that another implementation has signed now."""
    now = datetime.now(UTC)
    found = {
        "--id": "msg_1",
        "--timestamp": str(int(now.timestamp())),
        "--signature": Webhook(SECRET).sign("msg_1", now, BODY),
    } | {f"--{name}": value for name, value in changes.items()}
    return [word for pair in found.items() for word in pair]


def with_headers() -> list[str]:
    """The same message as headers."""
    found = flags()
    pairs = zip(found[::2], found[1::2], strict=True)
    return [word for name, value in pairs for word in ("-H", f"Webhook-{name[2:]}: {value}")]


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("place", ["-", "body.json", None])
def test_a_signed_message_is_valid_wherever_its_body_comes_from(
    sqlite_home: Home, place: str | None
) -> None:
    sqlite_home.write("body.json", BODY)
    where = [place] if place else []
    stdin = "" if place == "body.json" else BODY
    output = sqlite_home.ok("verify", *where, "--secret", SECRET, *flags(), stdin=stdin)
    assert output == "the signature is valid: msg_1"
    assert list(sqlite_home.folder.iterdir()) == [sqlite_home.folder / "body.json"]


@pytest.mark.requirement("C6")
def test_headers_may_be_given_as_received_and_the_secret_in_the_environment(
    sqlite_home: Home,
) -> None:
    more = ("-H", "content-type: application/json")
    several = {"DULY_WEBHOOK_SECRET": f"{OTHER} {SECRET}"}
    found = sqlite_home.json("verify", *with_headers(), *more, stdin=BODY, environ=several)
    assert found == {"verified": True, "id": "msg_1", "why": None}


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("changes", "body", "message"),
    [
        ({}, BODY.replace("hello", "hallo"), "no signature matches"),
        ({"id": "msg_2"}, BODY, "no signature matches"),
        ({"secret": OTHER}, BODY, "no signature matches"),
        ({"signature": "v1,rubbish"}, BODY, "no signature matches"),
        ({"timestamp": "1674087231"}, BODY, "too old"),
        ({"timestamp": "now"}, BODY, "no number of seconds"),
        ({"id": ""}, BODY, "the header webhook-id is missing"),
        ({}, f"{BODY}\n", "the body has a newline at its end that was not signed"),
        ({}, f"{BODY}\n\n", "no signature matches"),
    ],
)
def test_an_invalid_message_is_code_1(
    sqlite_home: Home, changes: dict[str, str], body: str, message: str
) -> None:
    done = sqlite_home.duly("verify", *flags(**changes), stdin=body, environ=KNOWN)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    as_json = sqlite_home.duly("verify", *flags(**changes), "--json", stdin=body, environ=KNOWN)
    document = json.loads(as_json.stdout)
    assert as_json.returncode == 1
    assert (document["verified"], document["id"]) == (False, None)
    assert message in document["why"]
    assert not any(secret in done.stderr + as_json.stdout for secret in (SECRET, OTHER))


@pytest.mark.requirement("C6")
def test_an_old_message_is_valid_with_a_larger_tolerance(sqlite_home: Home) -> None:
    old = datetime.now(UTC) - timedelta(days=3)
    then = flags(
        timestamp=str(int(old.timestamp())), signature=Webhook(SECRET).sign("msg_1", old, BODY)
    )
    assert sqlite_home.duly("verify", *then, stdin=BODY, environ=KNOWN).returncode == 1
    sqlite_home.ok("verify", *then, "--tolerance", "4d", stdin=BODY, environ=KNOWN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "secret: it is missing; set DULY_WEBHOOK_SECRET or give --secret"),
        (("--secret", "hunter2"), "secret: "),
        (("--secret", SECRET, "none.json"), "file: 'none.json' cannot be read: No such file"),
        (("--secret", SECRET, "--tolerance", "5"), "tolerance: '5' is no duration"),
        (("--secret", SECRET, "-H", "hunter2"), "header: one has no colon"),
        (("--secret", SECRET, "--id", "1", "-H", "Webhook-ID: 2"), "header: 'Webhook-ID' is given"),
    ],
)
def test_bad_input_is_refused_with_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("verify", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert "hunter2" not in done.stderr
    assert SECRET not in done.stderr
