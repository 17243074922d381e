"""Commands that a server refuses, and commands that do not reach a server of duly."""

import json
import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from duly.client import pool
from tests.support.postgres import free_port
from tests.surfaces.processes import DEADLINE_SECONDS, Home
from tests.surfaces.sample_data import HOOK
from tests.surfaces.sides import Done, Sides, both_sides, command

CERTIFICATE = Path(__file__).parents[2] / "data" / "self_signed.pem"
pytestmark = pytest.mark.requirement("C10", "S6")
NOBODY = "00000000-0000-7000-8000-000000000000"
REFUSED = {
    ("deliveries", "show", NOBODY): 3,
    ("deliveries", "show", "banana"): 2,
    ("deliveries", "cancel", "<dead>"): 5,
    ("deliveries", "list", "--state", "lost"): 2,
    ("deliveries", "list", "--before", "banana"): 2,
    ("deliver", "nobody"): 2,
    ("deliver", "log", "{"): 2,
    ("deliver", "log", '{"a": 1, "a": 2}'): 2,
    ("deliver", "log", "--priority", "10"): 2,
    ("deliver", "log", "--on-failure", "block"): 2,
    ("deliver", "log", "--at", "2096-01-01T00:00Z", "--after", "1s"): 2,
    ("deliver", "log", "--key", "a\tb"): 2,
    ("deliver", "log", "--retry", "often"): 2,
    ("deliver", "log", "--retry", '{"type": "never"}'): 2,
    ("schedules", "add", "x", "log", "--every", "1h", "--retry", "delays:soon"): 2,
    ("endpoints", "add", "x", HOOK, "--retry", "exponential:attempts=0"): 2,
    ("endpoints", "edit", "shut", "--retry", "none", "--default-retry"): 2,
    ("send", "nobody"): 3,
    ("send", "http://10.1.2.3/"): 2,
    ("schedules", "show", "none"): 3,
    ("schedules", "show", ""): 2,
    ("schedules", "pause", "a/b c?d#e%2F"): 3,
    ("schedules", "add", "x", "nobody", "--every", "1h"): 2,
    ("schedules", "add", "x", "endpoint:nobody", "--every", "1h"): 3,
    ("schedules", "add", "x", "log", "--every", "1h", "--window", "soon"): 2,
    ("dead", "retry", "<pending>"): 5,
    ("dead", "discard", NOBODY, "--note", "x"): 3,
    ("dead", "list", "--before", "banana"): 2,
    ("streams", "release", "none"): 3,
    ("streams", "list", "--state", "idle"): 2,
    ("endpoints", "pause", "none"): 3,
    ("endpoints", "add", "a b", HOOK): 2,
    ("endpoints", "edit", "shut", "--timeout", "5m"): 2,
    ("workers", "drain", "999"): 3,
    ("keys", "revoke", "a" * 16): 3,
    ("stats", "--since", "2096-01-01T00:00Z"): 2,
    ("late", "--grace", "soon"): 2,
}


@pytest.mark.parametrize(("arguments", "code"), REFUSED.items(), ids=str)
def test_a_command_is_refused_alike_on_the_store_and_through_the_server(
    sides: Sides, arguments: tuple[str, ...], code: int
) -> None:
    ours, theirs = sides.store(*arguments), sides.server(*arguments, side=0)
    assert ours.plain() == theirs.plain()
    assert ours.code == code


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, sqlite_schema: Path) -> Iterator[Sides]:
    """One server for all tests, on SQLite because the store does not matter here."""
    folder = tmp_path_factory.mktemp("sides")
    (folder / "duly.db").write_bytes(sqlite_schema.read_bytes())
    with both_sides(Home(folder, f"sqlite:///{folder}/duly.db")) as found:
        yield found


def status(url: str, **environ: str) -> Done:
    """Run any command through that server."""
    return command("status", "--server", url, environ=environ)


def test_a_key_without_the_scope_is_refused_with_the_scope_that_is_needed(sides: Sides) -> None:
    key = sides.store("keys", "create", "looks", "--scope", "read").out.strip()
    assert sides.server("status", DULY_KEY=key).code == 0
    refused = sides.server("deliveries", "cancel", "<pending>", DULY_KEY=key)
    assert refused.code == 2
    assert refused.err == (
        "error: key: this needs a key with scope operate; the one given has read\n"
    )
    assert key not in refused.err


def test_an_invalid_key_is_a_wrong_setting(sides: Sides) -> None:
    wrong = f"duly_{'a' * 16}_{'b' * 52}"
    refused = sides.server("status", DULY_KEY=wrong)
    assert refused.code == 2
    assert "it is wrong, expired or revoked" in refused.err
    assert wrong not in refused.err
    shapeless = sides.server("status", DULY_KEY="hunter2")
    assert shapeless.code == 2
    assert "hunter2" not in shapeless.err


def test_a_local_server_needs_no_key(sides: Sides) -> None:
    assert sides.server("status", DULY_KEY="").code == 0


def test_an_unreachable_server_is_code_4() -> None:
    done = status(f"http://127.0.0.1:{free_port()}")
    assert done.code == 4
    assert "cannot reach the server at http://127.0.0.1:" in done.err
    assert status("http://name.invalid:1").code == 4


Answer = tuple[int, dict[str, str], bytes]
NAMED = {"content-type": "application/json"}
PROBLEM = {"content-type": "application/problem+json"}
FINE = {
    "store": "sqlite",
    "workers": 1,
    "recovering": None,
    "next_planned_at": None,
    "planner_lag": 0.0,
    "zones": "2026b",
    "pending": 0,
    "processing": 0,
    "dead": 0,
    "counted_up_to": 10_000,
}
GOOD: Answer = (200, NAMED, json.dumps(FINE).encode())


def problem(status: int, detail: str, **headers: str) -> Answer:
    return status, PROBLEM | headers, json.dumps({"status": status, "detail": detail}).encode()


@contextmanager
def answering(
    *answers: Answer | None,
    until: threading.Event | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """A server that gives the answers in order and repeats the last; None closes the connection.

    Yields its URL and the list of its requests. It gives the last answer after the event, if any.
    """
    left, requests = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(f"{self.command} {self.path}")
            length = int(self.headers.get("content-length") or 0)
            requests.extend(filter(None, [self.headers.get("idempotency-key")]))
            self.rfile.read(length)
            if len(left) == 1 and until is not None:
                until.wait(DEADLINE_SECONDS)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer is None:
                return
            code, headers, body = answer
            self.send_response(code)
            for name, value in (headers | {"content-length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_said: Any) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ((200, {"content-type": "text/html"}, b"<html>"), 4, "but is not a duly server"),
        ((200, NAMED, b"{"), 4, "cannot be read by this version"),
        ((200, NAMED, b'{"store": "sqlite"}'), 4, "cannot be read by this version"),
        ((404, {"content-type": "text/html"}, b"<html>"), 4, "(status 404, text/html)"),
        ((302, {"location": "https://login.example/"}, b""), 4, "points to https://login.example/"),
        ((502, PROBLEM, b"{"), 4, "but is not a duly server"),
        (problem(404, "Not Found"), 4, "another version"),
        (problem(500, "something went wrong"), 1, "the server answered: something went wrong"),
        (problem(421, "no name of this server"), 2, "server: no name of this server"),
        (problem(429, "later", **{"retry-after": "3600"}), 1, "later"),
        (problem(503, "its store is away"), 4, "its store is away"),
    ],
)
def test_an_answer_that_is_not_of_duly_is_reported(answer: Answer, code: int, message: str) -> None:
    with answering(answer) as (url, requests):
        done = status(url)
    assert (done.code, message in done.err) == (code, True), done
    assert requests[0] == "GET /v1/status"


def test_a_request_that_may_be_repeated_is_repeated_after_retry_after() -> None:
    busy = problem(429, "too much at once", **{"retry-after": "0"})
    away = problem(503, "in a moment", **{"retry-after": "0"})
    with answering(busy, away, None, GOOD) as (url, requests):
        assert status(url).code == 0
    assert len(requests) == 4
    with answering(busy) as (url, requests):
        done = status(url)
    assert (done.code, done.err) == (1, "error: too much at once\n")
    assert len(requests) == 4
    with answering(away) as (url, requests):
        assert status(url).code == 4


def test_a_request_that_timed_out_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ANSWER_SECONDS", 0.1)
    ends = threading.Event()
    with answering(GOOD, until=ends) as (url, requests):
        done = status(url)
        ends.set()
    assert (done.code, len(requests)) == (4, 1)
    assert "did not answer: timed out" in done.err


def test_a_certificate_is_checked() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    with answering(GOOD, tls=tls) as (url, requests):
        secure = url.replace("http://127.0.0.1", "https://localhost")
        refused = status(secure)
        assert (refused.code, requests) == (4, [])
        assert "cannot be trusted: " in refused.err
        assert status(secure, SSL_CERT_FILE=str(CERTIFICATE)).code == 0


def test_a_change_without_a_key_is_not_repeated() -> None:
    away = problem(503, "in a moment", **{"retry-after": "0"})
    with answering(away) as (url, requests):
        done = command("workers", "drain", "1", "--server", url, environ={})
    assert (done.code, len(requests)) == (4, 1)
    with answering(None) as (url, requests):
        done = command("workers", "drain", "1", "--server", url, environ={})
    assert (done.code, len(requests)) == (4, 1)
    assert "check whether it was executed" in done.err


def test_a_delivery_is_sent_again_with_the_same_key() -> None:
    away = problem(503, "in a moment", **{"retry-after": "0"})
    with answering(away, problem(409, "enough")) as (url, requests):
        done = command("deliver", "log", "--server", url, environ={})
    assert done.code == 5
    first, key, second, same = requests
    assert (first, key) == (second, same)


def moved(count: int, *, finished: bool) -> Answer:
    document = {
        "matching": 3,
        "moved": count,
        "until": "2026-11-16T09:00:00Z",
        "finished": finished,
    }
    return 200, NAMED, json.dumps(document).encode()


def calls(requests: list[str]) -> list[str]:
    """The requests without their idempotency keys."""
    return [each for each in requests if each.startswith("POST ")]


def test_a_stopped_bulk_operation_prints_the_command_that_continues_it(tmp_path: Path) -> None:
    home, ends = Home(tmp_path, "sqlite:///none.db"), threading.Event()
    # It is stopped during its third request: count, first batch, second batch.
    answers = moved(0, finished=True), moved(1, finished=False), None
    with answering(*answers, until=ends) as (url, requests):
        retry = ("dead", "retry", "--tag", "red", "--server", url, "--yes")
        with home.running(*retry) as running:
            while len(calls(requests)) < 3:
                assert running.process.poll() is None, "".join(running.log)
            running.signal(signal.SIGINT)
            running.line_with("stopping; ")
            running.signal(signal.SIGINT)
            assert running.end() == 128 + signal.SIGINT
        ends.set()
    (message,) = [line for line in running.log if line.startswith("stopped after ")]
    assert message == (
        f"stopped after at least 1; to continue: duly dead retry --tag red --server {url} "
        "--until 2026-11-16T09:00:00+00:00\n"
    )


def test_a_stopped_bulk_operation_counts_the_batch_that_was_running(tmp_path: Path) -> None:
    home, ends = Home(tmp_path, "sqlite:///none.db"), threading.Event()
    answers = moved(0, finished=True), moved(1, finished=False), moved(1, finished=False)
    with answering(*answers, until=ends) as (url, requests):
        retry = ("dead", "retry", "--tag", "red", "--server", url, "--yes")
        with home.running(*retry) as running:
            while len(calls(requests)) < 3:
                assert running.process.poll() is None, "".join(running.log)
            running.signal(signal.SIGINT)
            running.line_with("stopping; ")
            ends.set()
            assert running.end() == 128 + signal.SIGINT
    (message,) = [line for line in running.log if line.startswith("stopped after ")]
    assert message.startswith("stopped after 2; to continue: ")
    assert len(calls(requests)) == 3, "no further request was sent"


def test_a_webhook_is_watched_to_its_end_through_the_server(sides: Sides) -> None:
    with answering((200, NAMED, b"{}")) as (url, requests):
        ours = sides.store("send", url, "--data", "[1]", "--watch", "--json")
        theirs = sides.server("send", url, "--data", "[1]", "--watch", "--json")
    assert ours.plain()[:2] == theirs.plain()[:2]
    assert theirs.document["state"] == "completed"
    assert "attempt 1: status 200" in theirs.err
    assert len(requests) == 4, "two requests, each with its key"


@pytest.mark.parametrize(
    "arguments",
    [
        ("prune", "--dry-run"),
        ("migrate", "status"),
        ("migrate", "sql", "--all"),
        ("doctor",),
        ("endpoints", "reseal", "--all"),
    ],
    ids=" ".join,
)
def test_commands_that_need_the_store_are_refused(sides: Sides, arguments: tuple[str, ...]) -> None:
    refused = sides.server(*arguments)
    assert refused.code == 2
    assert "needs the store" in refused.err
    assert "--database" in refused.err
    named = sides.server(*arguments, "--database", sides.home.database)
    assert "needs the store" not in named.err


def test_a_server_and_a_database_cannot_both_be_given(sides: Sides) -> None:
    database = ("--database", sides.home.database)
    assert sides.server("status", *database, DULY_SERVER="http://127.0.0.1:1").code == 0
    both = sides.server("status", *database, "--server", sides.url)
    assert (both.code, "not both" in both.err) == (2, True)
    other_namespace = sides.server("status", "--namespace", "billing")
    assert (other_namespace.code, other_namespace.err.startswith("error: namespace: ")) == (2, True)
    for wrong in ("localhost:8787", "http://", "http://user:pw@host", "ftp://host", "http://h/?a"):
        refused = sides.server("status", "--server", wrong)
        assert refused.code == 2, wrong
        assert "pw" not in refused.err
    assert sides.server("status", "--server", "http://127.0.0.1:99999").code == 2


def test_a_process_with_a_url_and_a_key_needs_no_database(sides: Sides, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path, f"sqlite:///{tmp_path}/none.db")
    where = {"DULY_SERVER": f"{sides.url}/", "DULY_KEY": sides.key}
    id = elsewhere.ok("deliver", "log", '{"hello": "world"}', environ=where)
    assert elsewhere.json("deliveries", "show", id, environ=where)["payload"] == {"hello": "world"}
    (tmp_path / "duly.toml").write_text(f'server = "{sides.url}"\nkey = "{sides.key}"\n')
    assert elsewhere.json("deliveries", "list", "--limit", "1")["items"][0]["id"] == id
    shown = elsewhere.ok("config", "show", "--origin")
    assert sides.url in shown
    assert sides.key not in shown
    assert not (tmp_path / "none.db").exists()
