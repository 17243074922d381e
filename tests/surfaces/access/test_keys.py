"""`duly keys`: create, list and revoke API keys."""

import pytest

from tests.surfaces.processes import Home


@pytest.mark.requirement("S2")
async def test_keys_are_created_listed_and_revoked(home: Home) -> None:
    done = home.duly("keys", "create", "ops", "--scope", "admin", "--expires", "90d")
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    assert token not in done.stderr
    (listed,) = home.json("keys", "list")["items"]
    assert (listed["name"], listed["scope"], listed["state"]) == ("ops", "admin", "active")
    assert listed["id"] in token
    assert token.rpartition("_")[2] not in home.ok("keys", "list", "--json")
    assert f"{listed['id']}  admin  active" in home.ok("keys", "list")
    assert home.ok("keys", "revoke", listed["id"]) == f"{listed['id']} revoked"
    actors = [(each["actor"], each["action"]) for each in home.json("audit")["items"]]
    assert actors == [("cli", "key.revoked"), ("cli", "key.created")]
    assert home.duly("keys", "revoke", "nobody").returncode == 3


@pytest.mark.requirement("S2")
def test_a_public_server_does_not_start_without_a_key(sqlite_home: Home) -> None:
    done = sqlite_home.process("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert done.stderr.startswith("error: host: ")
    assert "duly keys create" in done.stderr
    key = sqlite_home.ok("keys", "create", "ops")
    with sqlite_home.serving("--host", "0.0.0.0") as server:
        assert server.get("/health")[0] == 200
        assert server.get("/v1/deliveries/none")[0] == 401
        health = server.get("/health?verbose=true", key=key)
    assert health[0] == 200


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        (("--scope", "root"), "scope"),
        (("--expires", "soon"), "expires"),
        (("--expires", "2001-01-01T00:00Z"), "expires_at"),
    ],
)
def test_invalid_options_of_a_key_are_code_2(
    sqlite_home: Home, flags: tuple[str, ...], setting: str
) -> None:
    done = sqlite_home.duly("keys", "create", "ops", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {setting}: ")
