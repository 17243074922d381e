"""Foreign text controls no terminal and no log, and tokens in URLs are never shown.

Every input for text or a URL gets a hostile one, and every output is checked.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.client import pool
from duly.records.key import Scope
from duly.surfaces.cli.server.log_format import Shaped, _json, _line
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import run_until_idle
from tests.http.conftest import calling
from tests.surfaces.shown_commands import commands_to_run
from tests.surfaces.sides import command
from tests.transports.receiver import receiver

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066x\u2028\r\x85\x7f forged"
TOKEN = "hunter2-in-a-query"
URL = f"http://127.0.0.1:9/hook?token={TOKEN}"
HERE = {"DULY_EGRESS_ALLOW": "127.0.0.1", "DULY_ALERT_URL": URL}
SAFE = {"\n", "\t"}


def escapes(text: str) -> set[str]:
    """The characters that control a terminal or reorder a line."""
    return {
        each
        for each in set(text) - SAFE
        if unicodedata.category(each) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(each) in ("RLO", "LRI", "RLI", "PDI", "LRE", "RLE", "PDF")
    }


async def fill_store(app: App) -> dict[str, str]:
    """Store hostile text and URLs everywhere; returns the values of the placeholders in <>."""

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        await delivery.do("ask", lambda: HOSTILE)
        raise ValueError(HOSTILE + "\nsecond line")

    async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {HOSTILE.encode().hex()}\r\n\r\n".encode())

    dead = await app.deliver("fails", {"said": HOSTILE})
    await app.deliver("fails", stream="line")
    limits = duly.per("customer", in_flight=2)
    await app.endpoints.add("billing", URL, description=HOSTILE, rate=100, limits=limits)
    await app.deliver(duly.endpoint("billing"), 1)
    await app.schedule("hourly", duly.every("1h"), duly.webhook(URL), {"said": HOSTILE})
    await app.calendars.set("nrw")
    batch = await app.batches.open((duly.webhook(URL), {"said": HOSTILE}), name="nightly")
    async with receiver(garbage) as there:
        sent = await app.deliver(duly.webhook(f"{there.url('/')}?token={TOKEN}"), 1)
        await run_until_idle(app)
    return {
        "dead": dead.id,
        "sent": sent.id,
        "schedule": "hourly",
        "stream": "line",
        "batch": batch.id,
        "url": URL,
    }


@pytest.mark.requirement("X5", "C7")
def test_no_command_shows_an_escape_or_a_token(
    empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepared() -> dict[str, str]:
        app = App(empty_sqlite_url, environment={}, egress_allow="127.0.0.1")
        app.expect("log")
        async with app:
            return await fill_store(app)

    names = asyncio.run(prepared())
    where = {"DULY_DATABASE": empty_sqlite_url, **HERE}
    seen = ""
    for arguments in commands_to_run():
        for name, value in names.items():
            arguments = tuple(each.replace(f"<{name}>", value) for each in arguments)
        for more in ((), ("--json",)):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no\n")))
            done = command(*arguments, *more, environ=where)
            assert done.code in (0, 1, 2, 3), (arguments, done)
            assert escapes(done.out + done.err) == set(), arguments
            assert TOKEN not in done.out + done.err, arguments
            seen += done.out
    # The output contains the hostile text, but escaped, and the URL without its token.
    for escaped in (r"\x9b31m\u202e", r"\u009b31m\u202e", "/hook?token=…"):
        assert escaped in seen


@pytest.mark.requirement("X5", "C7")
async def test_no_log_line_has_an_escape_a_token_or_a_second_line(
    empty_sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with App(empty_sqlite_url, environment={}, egress_allow="127.0.0.1") as app:
            await fill_store(app)
    records = [each for each in caplog.records if each.name == "duly"]
    assert any(each.event == "AttemptFailed" for each in records)  # type: ignore[attr-defined]
    for record in records:
        message = record.getMessage()
        assert escapes(message) == set()
        assert "\n" not in message
    strange = logging.getLogger("theirs").makeRecord(
        "theirs", logging.ERROR, "", 0, f"{HOSTILE}\n12:00:00 info all is well", (), None
    )
    for record in [*records, strange]:
        line, document = Shaped(_line).format(record), Shaped(_json).format(record)
        assert TOKEN not in line + document
        plain = line.replace("\x1b[0m", "").replace("\x1b[2m", "").replace("\x1b[31m", "")
        assert escapes(plain.replace("\x1b[33m", "")) == set()
        assert all(each.startswith("  ") for each in line.split("\n")[1:])
        assert escapes(document) == set()
        assert json.loads(document)["message"] == record.getMessage()


PATHS = {
    "/v1/deliveries/{id}": "dead",
    "/v1/deliveries/{id}/moves": "dead",
    "/v1/schedules/{name}": "schedule",
    "/v1/schedules/{name}/preview": "schedule",
    "/v1/calendars/{name}": "calendar",
    "/v1/endpoints/{name}": "endpoint",
    "/v1/limits/{target}": "limited",
    "/v1/limits/{target}/keys": "limited",
    "/v1/streams/{name}": "stream",
    "/v1/batches/{id}": "batch",
    "/v1/dead-letters/{id}": "dead",
    "/v1/keys/{id}": "key",
}
GOES_ON = {"/v1/events"}


@pytest.mark.requirement("C7")
async def test_the_api_shows_a_token_only_in_an_endpoint_to_its_admin(
    empty_sqlite_url: str,
) -> None:
    app = App(empty_sqlite_url, environment={}, egress_allow="127.0.0.1", alert_url=URL)
    async with app:
        names = await fill_store(app) | {"endpoint": "billing", "calendar": "nrw"}
        names |= {"limited": "endpoint:billing"}
        reader = await app.keys.create("reader", scope=Scope.READ)
        names |= {"key": reader.id}
        async with calling(app, ProcessHealth(app, app.engine())) as client:
            described = (await client.get("/docs/openapi.json")).json()["paths"]
            paths = [path for path, ways in described.items() if "get" in ways]
            assert {path for path in paths if "{" in path} <= set(PATHS), (
                "the path has a parameter that is not in PATHS"
            )
            for path in [*paths, "/metrics", "/health?verbose=true"]:
                if path in GOES_ON:
                    continue
                begin, _, end = path.partition("{")
                place = begin + (names[PATHS[path]] + end.partition("}")[2] if end else "")
                key = {"authorization": f"Bearer {reader.token}"}
                answer = await client.get(place, headers=key)
                assert answer.status_code in (200, 403), (place, answer.text)
                assert TOKEN not in answer.text, place
            sent = await client.get(f"/v1/deliveries/{names['sent']}")
            assert sent.json()["url"].endswith("/?token=…")
            assert TOKEN not in sent.text
            whole = await client.get("/v1/endpoints/billing")
            assert whole.json()["url"] == URL
            listed = await client.get("/v1/endpoints")
            assert listed.json()["items"][0]["url"] == "http://127.0.0.1:9/hook?token=…"
            edited = await client.patch(
                "/v1/endpoints/billing", json={"url": listed.json()["items"][0]["url"]}
            )
            assert (edited.status_code, edited.json()["field"]) == (422, "url")


@contextmanager
def server(answer: bytes, *, endless: bool = False) -> Iterator[str]:
    """A foreign server that gives the same answer to every request."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(answer)
            try:
                while endless:
                    self.wfile.write(b" " * 65536)
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    found = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{found.server_port}"
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.mark.requirement("X5")
@pytest.mark.parametrize("status", [302, 401, 404, 409, 422, 500])
def test_a_hostile_server_controls_no_terminal(tmp_path: Path, status: int) -> None:
    body = json.dumps({"detail": HOSTILE, "field": HOSTILE}).encode()
    head = (
        f"HTTP/1.1 {status} X\r\ncontent-type: application/problem+json\r\n"
        f"location: /\x9b31m\x85\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with server(head.encode("latin-1") + body) as url:
        for more in ((), ("--json",)):
            done = command("deliveries", "list", *more, environ={"DULY_SERVER": url})
            assert done.code
            assert done.err.startswith("error: ")
            assert escapes(done.out + done.err) == set()


@pytest.mark.requirement("X5")
def test_a_page_of_a_hostile_server_controls_no_terminal() -> None:
    found = {"name": HOSTILE, "state": HOSTILE, "target": HOSTILE, "problem": HOSTILE}
    body = json.dumps({"items": [found], "next": None}).encode()
    head = (
        f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with server(head.encode() + body) as url:
        for more in ((), ("--json",)):
            done = command("schedules", "list", *more, environ={"DULY_SERVER": url})
            assert escapes(done.out + done.err) == set()


@pytest.mark.requirement("S6")
def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LONGEST_ANSWER", 1 << 20)
    with server(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", endless=True) as url:
        done = command("deliveries", "list", environ={"DULY_SERVER": url})
    assert done.code == 4
    assert "is longer than 1 MB" in done.err


@pytest.mark.requirement("C7")
def test_the_credentials_in_a_server_address_are_never_shown() -> None:
    where = {"DULY_SERVER": f"http://me:{TOKEN}@127.0.0.1:9/?token={TOKEN}"}
    for arguments in (("deliveries", "list"), ("doctor",), ("config", "show")):
        done = command(*arguments, environ=where)
        assert done.out + done.err
        assert TOKEN not in done.out + done.err
