"""`duly export` and `duly import`: one store is moved to another by real processes."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import duly
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("C10", "S6"), pytest.mark.long]
URL = "https://example.org/in"
SEALED = {"DULY_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}
MANY = 1100
"""More than two batches."""


@pytest.fixture
def there(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Home:
    """A home on the other kind of store, which does not exist yet."""
    name = "postgres" if database_url.startswith("sqlite") else "sqlite"
    return Home(tmp_path, request.getfixturevalue(f"empty_{name}_url"))


@pytest.fixture
def small(tmp_path: Path, sqlite_url: str) -> Home:
    """A home on SQLite, for tests in which the store does not matter."""
    return Home(tmp_path, sqlite_url)


def elsewhere(home: Home) -> Home:
    """Another store in the same folder, which does not exist yet."""
    return Home(home.folder, f"sqlite:///{home.folder}/elsewhere.db")


def exported_lines(home: Home, *options: str, **more: Any) -> list[str]:
    """The lines of an export, sorted."""
    return sorted(home.ok("export", *options, **more).splitlines()[1:])


async def fill_store(home: Home) -> None:
    """A stream, a schedule, a webhook and two endpoints."""
    async with home.app() as app:
        app.expect("log")
        for number in range(3):
            await app.deliver("log", {"number": number}, stream="team:7", key=f"k{number}")
        await app.schedule("hourly", duly.cron("0 * * * *"), "log", {"team": 7})
        await app.deliver(duly.webhook(URL, headers={"X-Team": "7"}), [1], after=3600)
        await app.endpoints.add("billing", URL, headers={"Authorization": "Bearer hunter2"})
        await app.streams.configure("others", on_failure="release")
        await app.recovery.set("unknown", tries=1, then="hold")
        await app.calendars.set("office", weekend=["sunday"])


async def many(home: Home) -> None:
    async with home.app() as app:
        items = [{"target": "log", "payload": each, "stream": "s"} for each in range(MANY)]
        await app.deliver_many(items)


async def test_a_store_is_moved_and_unfinished_deliveries_run_there_once_in_order(
    home: Home, there: Home
) -> None:
    await fill_store(home)
    counts = "1 endpoints, 1 streams, 1 policies, 1 calendars, 1 schedules, 5 deliveries"
    assert home.ok("export", "moved.ndjson", "--with-secrets") == f"{counts} exported"
    assert (home.folder / "moved.ndjson").stat().st_mode & 0o077 == 0
    assert there.ok("import", "moved.ndjson", "--yes") == f"{counts} imported"
    assert there.ok("import", "moved.ndjson", "--yes").endswith(f"imported\n{counts} already exist")
    assert exported_lines(there, "--with-secrets") == exported_lines(home, "--with-secrets")
    with there.serving() as server:
        logged = [json.loads(server.wait_for("Logged")["payload"]) for _ in range(3)]
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert logged == [{"number": number} for number in range(3)]
    ids = {each["id"] for each in home.json("deliveries", "list")["items"]}
    found = {each["id"]: each for each in there.json("deliveries", "list")["items"]}
    assert found.keys() == ids
    ended = [each for each in found.values() if each["state"] == "completed"]
    assert sorted((each["key"], each["attempt"]) for each in ended) == [
        ("k0", 1), ("k1", 1), ("k2", 1),
    ]  # fmt: skip


async def test_a_killed_import_can_be_continued_and_imports_nothing_twice(
    home: Home, there: Home
) -> None:
    await many(home)
    home.ok("export", "moved.ndjson")
    environ = {"DULY_FAILPOINTS": "import.middle=kill@2"}
    dead = there.process("import", "moved.ndjson", "--yes", environ=environ)
    assert dead.returncode == -signal.SIGKILL
    found = there.json("import", "moved.ndjson", "--yes")["deliveries"]
    assert found == {"new": MANY - 500, "known": 500, "refused": 0}
    assert exported_lines(there) == exported_lines(home)


async def test_an_interrupted_import_prints_its_progress_and_how_to_continue(small: Home) -> None:
    await many(small)
    small.ok("export", "moved.ndjson")
    command = ("import", "moved.ndjson", "--yes", "--database", elsewhere(small).database)
    environ = {"DULY_FAILPOINTS": "import.before=stop@2"}
    with small.running(*command, environ=environ) as process:
        process.wait_until_stopped()
        process.signal(signal.SIGINT)
        process.signal(signal.SIGCONT)
        assert process.end() == 128 + signal.SIGINT
    # The batch that had begun is finished and counted.
    assert "stopped after 1000 of 1100; the same command imports the rest" in "".join(process.log)
    assert small.json(*command)["deliveries"]["known"] == 1000


async def test_a_pipe_is_read_to_its_end_before_anything_is_written(small: Home) -> None:
    await fill_store(small)
    other = elsewhere(small)
    text = small.ok("export") + "\n"
    cut = other.duly("import", "--yes", stdin=text[:-40])
    assert (cut.returncode, cut.stdout) == (2, "")
    assert "it was cut off" in cut.stderr
    unasked = other.duly("import", stdin=text)
    assert unasked.returncode == 2
    assert "give --yes, or --dry-run" in unasked.stderr
    assert not (small.folder / "elsewhere.db").exists()
    other.ok("import", "--yes", "--namespace", "b", stdin=text)
    found = other.json("endpoints", "show", "billing", "--namespace", "b")
    assert (found["state"], found["secrets"]) == ("paused", [])
    assert found["state_reason"].startswith("imported without secret, Authorization; rotate")


async def test_a_file_with_bad_lines_is_refused_or_they_are_skipped(small: Home) -> None:
    await fill_store(small)
    lines = small.ok("export", "--with-secrets").splitlines()
    bad = [*lines[:6], lines[6].replace('"pending"', '"lost"'), *lines[7:]]
    small.write("bad.ndjson", "\n".join(bad) + "\n")
    other = elsewhere(small)
    done = other.duly("import", "bad.ndjson", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: line 7: Invalid enum value 'lost'")
    assert not (small.folder / "elsewhere.db").exists()
    skipped = other.duly("import", "bad.ndjson", "--yes", "--skip-bad", "--json")
    assert skipped.returncode == 1
    assert skipped.stderr.startswith("line 7: Invalid enum value 'lost'")
    found = json.loads(skipped.stdout)
    assert (found["deliveries"]["new"], found["bad"]) == (4, 1)
    small.write("newer.ndjson", '{"kind": "duly-export", "version": 99}\n')
    newer = other.duly("import", "newer.ndjson", "--yes")
    assert newer.returncode == 2
    assert "version 99" in newer.stderr
    assert other.duly("import", "nowhere.ndjson").returncode == 2
    assert other.duly("import", small.database.removeprefix("sqlite:///")).returncode == 2


async def test_a_file_that_cannot_be_written_is_reported_and_an_older_one_stays(
    small: Home,
) -> None:
    small.write("moved.ndjson", "older")
    environ = {"DULY_DATABASE": "sqlite:////nowhere/duly.db"}
    assert small.duly("export", "moved.ndjson", environ=environ).returncode == 4
    assert (small.folder / "moved.ndjson").read_text() == "older"
    done = small.duly("export", "nowhere/moved.ndjson")
    assert done.returncode == 1
    assert "nowhere/moved.ndjson cannot be written: No such file" in done.stderr
    full = small.duly("export", "/dev/full")
    assert full.returncode == 1
    assert "/dev/full cannot be written: No space left" in full.stderr


async def test_a_dry_run_prints_what_would_be_done_and_does_nothing(small: Home) -> None:
    await fill_store(small)
    small.ok("export", "moved.ndjson", "--with-secrets")
    other = elsewhere(small)
    first = other.json("import", "moved.ndjson", "--dry-run")
    assert not (small.folder / "elsewhere.db").exists()
    other.ok("migrate", "up")
    wrong = other.duly("import", "moved.ndjson", "--yes", environ={"DULY_NAMESPACE": "b"})
    assert wrong.returncode == 2
    assert "the file is from namespace 'default', and this is 'b'" in wrong.stderr
    planned = other.json("import", "moved.ndjson", "--dry-run")
    assert planned["deliveries"] == {"new": 5, "known": 0, "refused": 0}
    assert planned == first
    assert other.json("audit")["items"] == []
    assert other.ok("import", "moved.ndjson", stdin="no\n").startswith("0 endpoints")
    done = other.json("import", "moved.ndjson", "--yes")
    assert done == planned | {"dry_run": False}
    assert other.json("audit", "--limit", "1")["items"] != []


@pytest.mark.requirement("C6")
async def test_secrets_are_exported_only_on_request(small: Home) -> None:
    secret = small.ok("endpoints", "add", "billing", URL, environ=SEALED)
    small.ok("endpoints", "add", "plain", URL, "--header", "X-Token: hunter2")
    async with small.app() as app:
        webhook = duly.webhook(URL, headers={"X-Api-Key": "hunter2"})
        await app.schedule("ping", duly.every("1h"), webhook)
        await app.deliver(webhook, after=3600)
    done = small.duly("export")
    assert "2 endpoints are without their secrets" in done.stderr
    assert "1 schedules, 2 deliveries are without headers" in done.stderr
    assert "whsec_" not in done.stdout
    assert "hunter2" not in done.stdout
    other = elsewhere(small)
    refused = other.duly("import", "--yes", stdin=done.stdout)
    assert refused.returncode == 2
    assert "line 4: missing: it was exported without the headers X-Api-Key" in refused.stderr
    unreadable = small.duly("export", "whole.ndjson", "--with-secrets")
    assert unreadable.returncode == 5
    assert "the secret of endpoint 'billing': it was sealed with key" in unreadable.stderr
    assert [each.name for each in small.folder.glob("*whole*")] == []
    small.ok("export", "whole.ndjson", "--with-secrets", environ=SEALED)
    assert secret in (small.folder / "whole.ndjson").read_text()
    other.ok("import", "whole.ndjson", "--yes", environ=SEALED)
    assert other.json("endpoints", "show", "billing")["secrets"][0]["sealed_with"] is not None
    same = ("--with-secrets",)
    assert exported_lines(other, *same, environ=SEALED) == exported_lines(
        small, *same, environ=SEALED
    )


async def test_a_store_is_not_worked_on_during_an_import(small: Home) -> None:
    await fill_store(small)
    other = elsewhere(small)
    with small.serving():
        done = small.duly("export", "moved.ndjson", "--all")
        assert done.returncode == 0
        assert "workers run on this store" in done.stderr
        refused = small.duly("import", "moved.ndjson", "--yes", "--skip-bad")
        assert refused.returncode == 5
        assert "uses this store; stop it first" in refused.stderr
        found = small.json("import", "moved.ndjson", "--yes", "--beside-workers")
        assert found["deliveries"] == {"new": 0, "known": 5, "refused": 0}
    assert other.ok("import", "moved.ndjson", "--yes").startswith("1 endpoints")
