"""Endpoints that fail: how they are shown, recovered and removed."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

import duly
from tests.surfaces.processes import DEADLINE_SECONDS, Home
from tests.transports.receiver import answer, receiver, says

pytestmark = pytest.mark.long

URL = "https://example.org/hook"
LOCAL = {"DULY_EGRESS_ALLOW": "127.0.0.1"}
NOWHERE = "http://127.0.0.1:9/"


def run_until(home: Home, condition: Callable[[Any], bool], *command: str) -> Any:
    """Repeat a command until the condition holds for its document; returns the document."""
    for _ in range(100):
        if condition(found := home.json(*command)):
            return found
    raise AssertionError(found)


def run_until_circuit(home: Home, state: str) -> Any:
    return run_until(
        home, lambda it: it["circuit"]["state"] == state, "endpoints", "show", "billing"
    )


@pytest.mark.requirement("C8")
def test_deliveries_to_a_paused_endpoint_wait_until_it_is_resumed(home: Home) -> None:
    with home.listening("--json") as there, home.serving(environ=LOCAL):
        home.ok("endpoints", "add", "billing", there.url, environ=LOCAL)
        assert home.ok("endpoints", "pause", "billing", "--reason", "holidays") == "billing paused"
        sent = home.duly("send", "billing", "--data", "7")
        id = sent.stdout.strip()
        why = "endpoint billing is paused since 20"
        assert f"it waits: {why}" in sent.stderr
        found = home.json("deliveries", "show", id)
        assert found["endpoint"] == {"name": "billing", "url": there.url}
        assert found["waits"].startswith(why)
        assert found["waits"].endswith("(holidays); duly endpoints resume billing")
        (stuck,) = home.json("stuck")["items"]
        assert (stuck["id"], stuck["why"]) == (id, found["waits"])
        output = home.ok("deliveries", "show", id)
        assert f"billing, {there.url}" in output
        shown = home.ok("endpoints", "show", "billing")
        assert "try: duly endpoints resume billing" in shown
        assert "holidays" in shown
        assert home.ok("endpoints", "resume", "billing") == "billing active"
        assert there.document()["id"] == id
    assert home.json("stuck")["items"] == []


@pytest.mark.requirement("F9", "C8")
def test_an_open_circuit_is_shown_and_closed_by_a_resume(home: Home) -> None:
    with home.serving(environ=LOCAL):
        home.ok("endpoints", "add", "billing", NOWHERE, environ=LOCAL)
        for _ in range(5):
            home.ok("send", "billing")
        opened = run_until_circuit(home, "open")
        assert opened["circuit"]["failures"] >= 5
        assert opened["circuit"]["failing_since"] <= opened["circuit"]["opened_at"]
        assert opened["circuit"]["probe_at"] > opened["circuit"]["opened_at"]
        assert (opened["state"], opened["waiting"]) == ("active", 5)
        (line,) = home.ok("endpoints", "list").splitlines()[1:]
        assert "active, circuit open" in line
        shown = home.ok("endpoints", "show", "billing")
        assert "the next probe is at 20" in shown
        assert "try: duly endpoints test billing\ntry: duly endpoints resume billing" in shown
        (first, *_) = home.json("deliveries", "list")["items"]
        waits = home.json("deliveries", "show", first["id"])["waits"]
        assert "times in a row since 20" in waits
        assert "so its circuit is open; one delivery tries it" in waits
        assert home.json("stuck")["items"] == []
    assert home.json("endpoints", "resume", "billing")["circuit"]["state"] == "closed"


@pytest.mark.requirement("F9")
def test_the_circuit_of_a_plain_url_is_shown_too(home: Home) -> None:
    with home.serving(environ=LOCAL):
        ids = [home.ok("send", NOWHERE, environ=LOCAL) for _ in range(5)]
        found = run_until(home, lambda it: it["waits"], "deliveries", "show", ids[0])
    assert found["waits"].startswith("http://127.0.0.1:9 failed too often in a row")
    assert found["endpoint"] is None


@pytest.mark.requirement("C5")
def test_410_disables_an_endpoint_and_its_dead_letters_can_be_recovered(home: Home) -> None:
    with home.listening("--json", "--fail", "410") as there, home.serving(environ=LOCAL) as server:
        home.ok("endpoints", "add", "billing", there.url, environ=LOCAL)
        id = home.ok("send", "billing", "--data", "1")
        server.wait_for("EndpointDisabled")
        found = home.json("endpoints", "show", "billing")
        assert (found["state"], found["state_reason"]) == ("disabled", "it answered 410 Gone")
        recover = ("endpoints", "recover", "billing", "--since")
        counted = home.json(*recover, "1h", "--dry-run")
        assert counted.pop("since") > "2026"
        assert counted == {"name": "billing", "dead": 1, "retried": 0, "dry_run": True}
        assert home.ok(*recover, "2199-01-01T00:00Z", "--yes") == "0 of 0 retried"
        declined = home.duly(*recover, "1h", stdin="n\n")
        assert "billing has 1 dead letters since 20" in declined.stderr
        assert declined.stdout == "0 of 1 retried\n"
        done = home.duly(*recover, "1h", "--yes")
        assert done.stdout == "1 of 1 retried\n"
        assert "they wait: endpoint billing is disabled since" in done.stderr
        (stuck,) = home.json("stuck")["items"]
        assert "is disabled since" in stuck["why"]
        assert "(it answered 410 Gone); duly endpoints resume billing" in stuck["why"]
        home.ok("endpoints", "resume", "billing")
        assert [there.document()["answer"] for _ in range(2)] == [410, 200]
        end = run_until(home, lambda it: it["state"] == "completed", "deliveries", "show", id)
    assert [each["by"] for each in end["transitions"][1:]] == ["dead", "retried", "completed"]
    assert [each["outcome"] for each in end["attempts"]] == ["dead", "completed"]


async def test_a_recovery_keeps_its_rate_and_can_be_continued(home: Home) -> None:
    with home.listening("--answer", "404") as there, home.serving(environ=LOCAL):
        home.ok("endpoints", "add", "billing", there.url, environ=LOCAL)
        async with home.app() as app:
            await app.deliver_many([(duly.endpoint("billing"), n) for n in range(12)])
        recover = ("endpoints", "recover", "billing", "--since", "1h")
        run_until(home, lambda it: it["dead"] == 12, *recover, "--dry-run")
    with home.running(*recover, "--rate", "5", "--yes") as running:
        async with home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
            while len(await app.list(state="pending")) < 5:
                pass
        running.signal(signal.SIGINT)
        assert running.end() == 128 + signal.SIGINT
    (stop_line,) = [line for line in running.log if line.startswith("stopped after ")]
    assert "to continue: duly endpoints recover billing --since 20" in stop_line
    assert "Traceback" not in "".join(running.log)
    stopped = int(stop_line.split()[2].rstrip(";"))
    continued = stop_line.split("duly ")[1].split()
    assert home.ok(*continued, "--yes") == f"{12 - stopped} of {12 - stopped} retried"


@pytest.mark.requirement("C5", "C7")
async def test_a_test_prints_the_answer(home: Home) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(500 if len(there.taken) > 1 else 201, b"\x1b[31mhello"))

    async with receiver(respond) as there:
        home.ok("endpoints", "add", "billing", there.url(), environ=LOCAL)
        home.ok("endpoints", "pause", "billing")
        test = ("endpoints", "test", "billing")
        good = await asyncio.to_thread(home.duly, *test, "--data", "[1]", environ=LOCAL)
        bad = await asyncio.to_thread(home.duly, *test, environ=LOCAL)
    assert there.taken[0].body == b"[1]"
    assert there.taken[1].body == b'{"type":"duly.test","endpoint":"billing"}'
    assert good.returncode == 0, good.stderr
    assert r"\x1b[31mhello" in good.stdout
    assert "201" in good.stdout
    assert "total " in good.stdout
    assert "still wait; to send them: duly endpoints resume billing" in good.stderr
    assert bad.returncode == 1
    assert "it answered 500" in bad.stdout
    assert home.json("deliveries", "list")["items"] == []
    refused = home.duly(*test, "--json")
    assert refused.returncode == 1
    assert '"reason":"validation_failure"' in refused.stdout


@pytest.mark.requirement("C8")
async def test_an_endpoint_with_waiting_deliveries_is_removed_only_with_them(home: Home) -> None:
    home.ok("endpoints", "add", "billing", URL)
    id = home.ok("send", "billing", "--in", "1h")
    remove = ("endpoints", "remove", "billing")
    refused = home.duly(*remove, "--yes")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "1 deliveries wait for endpoint 'billing'" in refused.stderr
    declined = home.duly(*remove, "--cancel-waiting", stdin="n\n")
    assert declined.stdout == "billing kept\n"
    assert f"sends to {URL}, and 1 deliveries wait for it; they are cancelled" in declined.stderr
    assert home.json(*remove, "--cancel-waiting", "--yes") == {"name": "billing", "removed": True}
    assert (await home.find(id)).state == "cancelled"
    assert home.duly("endpoints", "show", "billing").returncode == 3


async def test_an_endpoint_of_a_schedule_is_not_removed(home: Home) -> None:
    home.ok("endpoints", "add", "billing", URL)
    async with home.app() as app:
        await app.schedule("hourly", duly.every("1h"), duly.endpoint("billing"))
    done = home.duly("endpoints", "remove", "billing", "--cancel-waiting", "--yes")
    assert done.returncode == 5
    assert "schedule 'hourly' sends to endpoint 'billing'" in done.stderr
    assert home.json("endpoints", "show", "billing")["state"] == "active"
    (kept,) = home.json("deliveries", "list")["items"]
    assert kept["state"] == "pending"


async def test_a_removal_waits_for_running_attempts(home: Home) -> None:
    begun, enough = asyncio.Event(), asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await enough.wait()
        writer.write(answer(200))

    async with receiver(respond) as there:
        with home.serving(environ=LOCAL):
            home.ok("endpoints", "add", "billing", there.url(), environ=LOCAL)
            under_way = home.ok("send", "billing")
            await asyncio.wait_for(begun.wait(), DEADLINE_SECONDS)
            waiting = home.ok("send", "billing", "--in", "1h")
            remove = ("endpoints", "remove", "billing", "--cancel-waiting", "--yes")
            with home.running(*remove) as removing:
                await asyncio.to_thread(removing.line_with, "1 deliveries are under way")
                enough.set()
                assert await asyncio.to_thread(removing.end) == 0
    assert removing.printed() == "billing removed\n"
    assert (await home.find(under_way)).state == "completed"
    assert (await home.find(waiting)).state == "cancelled"


async def test_deliveries_to_a_removed_endpoint_are_stuck_until_it_is_added_again(
    home: Home,
) -> None:
    with home.listening("--fail", "404") as there, home.serving(environ=LOCAL):
        home.ok("endpoints", "add", "billing", there.url, environ=LOCAL)
        id = home.ok("send", "billing")
        run_until(home, lambda it: it["state"] == "dead", "deliveries", "show", id)
        home.ok("endpoints", "remove", "billing", "--yes")
        home.ok("deliveries", "retry", id)
        (stuck,) = home.json("stuck")["items"]
        why = "endpoint billing no longer exists; add it again: duly endpoints add billing URL"
        assert (stuck["id"], stuck["why"]) == (id, why)
        found = home.json("deliveries", "show", id)
        assert (found["waits"], found["endpoint"]) == (why, {"name": "billing", "url": None})
        assert "billing, removed" in home.ok("deliveries", "show", id)
        home.ok("endpoints", "add", "billing", there.url, environ=LOCAL)
        run_until(home, lambda it: it["state"] == "completed", "deliveries", "show", id)


@pytest.mark.requirement("C5", "S6")
async def test_an_answer_with_a_broken_body_is_completed_and_the_problem_is_shown(
    home: Home,
) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"
    async with receiver(says(cut)) as there:
        with home.serving(environ=LOCAL):
            add = ("endpoints", "add", "billing", there.url())
            await asyncio.to_thread(home.ok, *add, environ=LOCAL)
            watched = await asyncio.to_thread(home.ok, "send", "billing", "--watch")
            tried = await asyncio.to_thread(home.ok, "endpoints", "test", "billing", environ=LOCAL)
    id, attempt, end = watched.splitlines()
    assert "attempt 1: status 200 (" in attempt
    assert "; the body is broken: the connection was closed before its end" in attempt
    assert end == f"{id} completed"
    assert "the body is broken: the connection was closed before its end" in tried
    assert "the body is broken: the connection was closed before its end" in home.ok(
        "deliveries", "show", id
    )
