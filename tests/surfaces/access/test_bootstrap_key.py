"""`DULY_BOOTSTRAP_KEY`: the first key of a public server, given in its environment."""

import signal

import pytest

from tests.surfaces.processes import Home


@pytest.mark.requirement("S2")
async def test_a_public_server_starts_with_a_key_from_its_environment(home: Home) -> None:
    token = home.ok("keys", "bootstrap")
    assert home.json("keys", "bootstrap")["token"] != token
    environ = {"DULY_BOOTSTRAP_KEY": token}
    several = ("--processes", "2") if home.database.startswith("postgres") else ()
    with home.serving("--host", "0.0.0.0", *several, environ=environ) as server:
        assert server.get("/v1/audit")[0] == 401
        status, _, audit = server.get("/v1/audit", key=token)
        assert status == 200
        assert [(each["actor"], each["action"]) for each in audit["items"]] == [
            ("bootstrap", "key.created")
        ]
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    created = [line for line in server.log if "created the first key" in line]
    assert len(created) == 1
    secret = token.rpartition("_")[2]
    assert not any(secret in line for line in server.log)
    assert secret not in home.ok("config", "show", environ=environ)
    wrong = home.process("serve", environ={"DULY_BOOTSTRAP_KEY": f"{token}x"})
    assert (wrong.returncode, wrong.stderr.partition(":")[0]) == (2, "error")
    assert wrong.stderr.startswith("error: bootstrap_key: *** from DULY_BOOTSTRAP_KEY is not valid")
