"""The secrets of endpoints: rotated with an overlap, sealed, resealed, and never shown."""

import base64
import json

import pytest

import duly
from tests.surfaces.processes import Home

URL = "https://example.org/hook"
FIRST, SECOND = (base64.b64encode(bytes([each]) * 32).decode() for each in (1, 2))
LOCAL = {"DULY_EGRESS_ALLOW": "127.0.0.1"}


def sealed(*keys: str) -> dict[str, str]:
    return {"DULY_SECRET_KEY": " ".join(keys)}


def signed_with(home: Home, secret: str, environ: dict[str, str] | None = None) -> bool:
    """Whether a test message to the endpoint `billing` has a signature with the secret."""
    with home.listening("--json", "--secret", secret) as there:
        environ = LOCAL | (environ or {})
        home.ok("endpoints", "edit", "billing", "--url", there.url, environ=environ)
        home.ok("endpoints", "test", "billing", environ=environ)
        return bool(there.document()["verified"])


@pytest.mark.requirement("C6")
def test_after_a_rotation_both_secrets_sign_for_a_while(home: Home) -> None:
    old = home.ok("endpoints", "add", "billing", URL)
    done = home.duly("endpoints", "rotate", "billing", "--overlap", "2h")
    new = done.stdout.strip()
    assert new != old
    assert "its secret is not shown again" in done.stderr
    assert "signed with the old secret too, until 20" in done.stderr
    present, before = home.json("endpoints", "show", "billing")["secrets"]
    assert (present["signs_until"], before["signs_until"] > "2026") == (None, True)
    assert signed_with(home, new)
    assert signed_with(home, old)
    rotated = home.json("endpoints", "rotate", "billing", "--overlap", "0s")
    assert len(rotated["secrets"]) == 1
    assert signed_with(home, rotated["secret"])
    assert not signed_with(home, old)


@pytest.mark.requirement("C6")
def test_secrets_are_sealed_at_rest_and_resealed_with_a_new_key(home: Home) -> None:
    plain = home.ok("endpoints", "add", "billing", URL)
    with_key = home.ok("endpoints", "add", "other", URL, environ=sealed(FIRST))
    assert home.json("endpoints", "show", "billing")["secrets"][0]["sealed_with"] is None
    both = sealed(SECOND, FIRST)
    assert home.ok("endpoints", "reseal", "other", environ=sealed(FIRST)) == "0 of 1 resealed"
    assert home.ok("endpoints", "reseal", "--all", environ=both) == "2 of 2 resealed"
    assert home.ok("endpoints", "reseal", "--all", environ=both) == "0 of 2 resealed"
    keys = {each["secrets"][0]["sealed_with"] for each in home.json("endpoints", "list")["items"]}
    assert len(keys) == 1
    assert None not in keys
    assert signed_with(home, plain, sealed(SECOND))
    assert with_key != plain


@pytest.mark.requirement("X4")
def test_a_reseal_of_everything_includes_the_headers_of_plain_urls(home: Home) -> None:
    home.ok("send", URL, "-H", "Authorization: Bearer x", "--after", "1d")
    assert home.ok("endpoints", "reseal", "--all", environ=sealed(FIRST)) == "0 of 0 resealed"
    lost = home.duly("endpoints", "reseal", "--all", "--json", environ=sealed(SECOND))
    assert lost.returncode == 1
    (problem,) = json.loads(lost.stdout)["failed"].values()
    assert "which is not in DULY_SECRET_KEY" in problem
    done = home.duly("endpoints", "reseal", "--all", "--json", environ=sealed(SECOND, FIRST))
    assert json.loads(done.stdout) == {
        "endpoints": 0,
        "resealed": [],
        "failed": {},
        "schedules": 0,
        "deliveries": 1,
    }
    assert done.stderr == "1 deliveries to plain URLs resealed\n"


@pytest.mark.requirement("C6")
def test_the_database_contains_no_sealed_secret_in_plain(sqlite_home: Home) -> None:
    secret = sqlite_home.ok("endpoints", "add", "billing", URL, environ=sealed(FIRST))
    stored = b"".join(each.read_bytes() for each in sqlite_home.folder.glob("duly.db*"))
    assert b"billing" in stored
    assert secret.removeprefix("whsec_").encode() not in stored


@pytest.mark.requirement("C6")
def test_a_secret_with_a_lost_key_is_reported_and_the_others_are_resealed(home: Home) -> None:
    home.ok("endpoints", "add", "lost", URL, environ=sealed(FIRST))
    home.ok("endpoints", "add", "plain", URL)
    done = home.duly("endpoints", "reseal", "--all", "--json", environ=sealed(SECOND))
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["endpoints"], found["resealed"]) == (2, ["plain"])
    assert "which is not in DULY_SECRET_KEY" in found["failed"]["lost"]
    assert done.stderr.startswith("lost: it was sealed with key ")
    one = home.duly("endpoints", "reseal", "lost", environ=sealed(SECOND))
    assert (one.returncode, one.stdout) == (1, "0 of 1 resealed\n")
    tried = home.duly("endpoints", "test", "lost", environ=sealed(SECOND))
    assert (tried.returncode, tried.stdout) == (5, "")
    assert "sealed with key" in tried.stderr
    shown = home.ok("endpoints", "show", "lost")
    assert "cannot be read here: it was sealed with key" in shown
    id = home.ok("send", "lost")
    assert "cannot be read from here" in home.json("deliveries", "show", id)["waits"]
    assert home.json("deliveries", "show", id, environ=sealed(FIRST))["waits"] is None


@pytest.mark.requirement("C6")
def test_the_doctor_warns_of_plain_secrets_and_fails_on_lost_keys(home: Home) -> None:
    home.ok("endpoints", "add", "plain", URL)
    assert verdicts(home) == {"plain secrets": "warning", "unreadable secrets": "ok"}
    output = home.ok("doctor")
    assert "1 endpoints: plain" in output
    assert "duly endpoints reseal --all" in output
    home.ok("endpoints", "reseal", "plain", environ=sealed(FIRST))
    assert verdicts(home, sealed(FIRST)) == {"plain secrets": "ok", "unreadable secrets": "ok"}
    assert verdicts(home) == {"plain secrets": "ok", "unreadable secrets": "failed"}
    ill = home.duly("doctor", environ=sealed(SECOND))
    assert ill.returncode == 1
    assert "plain: it was sealed with key" in ill.stdout


def verdicts(home: Home, environ: dict[str, str] | None = None) -> dict[str, str]:
    document = json.loads(home.duly("doctor", "--json", environ=environ).stdout)
    found = {each["name"]: each["verdict"] for each in document["checks"]}
    return {name: found[name] for name in found if name.endswith("secrets")}


@pytest.mark.requirement("C6")
def test_settings_hide_secrets_wherever_they_come_from(sqlite_home: Home) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    environ = sealed(FIRST) | {"DULY_WEBHOOK_SECRET": secret}
    shown = sqlite_home.ok("config", "show", "--json", environ=environ)
    found = {each["name"]: each["value"] for each in json.loads(shown)["items"]}
    assert (found["webhook_secret"], found["secret_key"]) == ("***", "***")
    output = shown + sqlite_home.ok("config", "show", environ=environ)
    assert secret not in output
    assert FIRST not in output
    sqlite_home.write("duly.toml", f'secret_key = ["{FIRST}"]\n')
    wrong = sqlite_home.duly("config", "show")
    assert wrong.returncode == 2
    assert "secret_key: *** from duly.toml is not valid" in wrong.stderr
    assert FIRST not in wrong.stderr


@pytest.mark.requirement("C6")
async def test_a_schedule_of_a_webhook_is_shown_without_its_credentials(sqlite_home: Home) -> None:
    headers = {"Authorization": "Bearer hunter2", "X-Team": "7"}
    async with sqlite_home.app() as app:
        target = duly.webhook("https://example.org/hook", headers=headers)
        await app.schedule("ping", duly.every("1h"), target)
    found = sqlite_home.json("schedules", "show", "ping")["webhook"]
    assert found["url"] == "https://example.org/hook"
    assert found["headers"] == {"Authorization": "***", "X-Team": "7"}
    assert "hunter2" not in sqlite_home.ok("schedules", "show", "ping")
