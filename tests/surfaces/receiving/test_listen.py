"""`duly listen`: a receiver that prints every request, valid or not."""

import http.client
import json
import shutil
import signal
import socket
import sys
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from standardwebhooks.webhooks import Webhook

from tests.surfaces.processes import Home, Running

HERE = "duly" if shutil.which("duly") else f"{sys.executable} -m duly"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "bm90IHRoZSBzZWNyZXQgdGhhdCBpdCB3YXMgc2lnbmVkIHdpdGg="


def signed(body: str, id: str = "msg_1", secret: str = SECRET) -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, now, body),
        "webhook-attempt": "1",
    }


def post(there: Running, body: str | bytes, headers: dict[str, str | bytes] | None = None) -> int:
    """Send a request; returns the status of the answer."""
    connection = http.client.HTTPConnection(urlsplit(there.url).netloc, timeout=10)
    try:
        data = body.encode() if isinstance(body, str) else body
        connection.request("POST", "/hook", data, headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.requirement("C6")
def test_each_delivery_is_printed_with_its_id_attempt_and_verification(sqlite_home: Home) -> None:
    with sqlite_home.listening("--secret", f"{OTHER} {SECRET}") as there:
        headers = signed('{"a": [1]}')
        assert post(there, '{"a": [1]}', headers) == 200
        first = [there.printed() for _ in range(6)]
        post(there, '{"a": [2]}', headers)
        second = there.printed()
    assert "  POST /hook  msg_1  attempt 1  verified  answered 200\n" in str(first[0])
    assert "".join(map(str, first[1:])) == ('    {\n      "a": [\n        1\n      ]\n    }\n')
    assert "  attempt 1  repeat  NOT VERIFIED: no signature matches" in str(second)
    assert SECRET not in "".join(there.log)


@pytest.mark.requirement("C6")
def test_the_secret_may_come_from_the_environment(sqlite_home: Home) -> None:
    with sqlite_home.listening("--json", environ={"DULY_WEBHOOK_SECRET": SECRET}) as there:
        post(there, "1", signed("1"))
        post(there, "1", signed("1", secret=OTHER))
        post(there, "1")
        found = [there.document() for _ in range(3)]
    assert [each["verified"] for each in found] == [True, False, False]
    assert found[2]["why"] == "the header webhook-id is missing"


def test_without_a_secret_a_warning_is_printed(sqlite_home: Home) -> None:
    with sqlite_home.listening("--json") as there:
        post(there, "1", signed("1"))
        assert there.document()["verified"] is None
    assert "checks no signatures (give --secret, or set DULY_WEBHOOK_SECRET)" in there.log[0]


def test_it_prints_a_command_that_sends_to_it(sqlite_home: Home) -> None:
    with sqlite_home.listening() as there:
        # The printed command starts as this one did: `duly` may not be on the PATH.
        assert there.line_with("serve") == f"  DULY_EGRESS_ALLOW=127.0.0.1 {HERE} serve\n"
        assert f"{HERE} send {there.url}/" in there.line_with("  DULY_EGRESS_ALLOW")


def test_it_does_not_print_settings_that_a_file_has(sqlite_home: Home) -> None:
    sqlite_home.write("duly.toml", f'egress_allow = "127.0.0.1"\nwebhook_secret = "{SECRET}"\n')
    with sqlite_home.listening() as there:
        assert "and checks signatures" in there.log[0]
        assert there.line_with("serve") == f"  {HERE} serve\n"
        assert there.line_with("--watch").startswith(f"  {HERE} send {there.url}/")


def test_each_id_gets_its_own_failures_before_the_answer(sqlite_home: Home) -> None:
    with sqlite_home.listening("--fail", "500, 429", "--answer", "202") as there:
        for id in ("one", "two"):
            assert [post(there, "", signed("", id)) for _ in range(4)] == [500, 429, 202, 202]
    with sqlite_home.listening("--fail", "2") as there:
        assert [post(there, "", signed("")) for _ in range(3)] == [503, 503, 200]
    with sqlite_home.listening("--answer", "503") as there:
        assert [post(there, "", signed("")) for _ in range(2)] == [503, 503]


RUBBISH: dict[str | bytes, str] = {
    b"a\x1b[31m\nb\xff": "a\x1b[31m\nb\\xff",
    '{"half': '{"half',
    "": "",
    b"[" * 5000 + b"]" * 5000: "[" * 5000 + "]" * 5000,
    '"\ud7ff\u2028"': "\ud7ff\u2028",
}


@pytest.mark.parametrize("body", RUBBISH, ids=range(len(RUBBISH)))
def test_any_body_is_one_document_and_never_moves_the_cursor(
    sqlite_home: Home, body: str | bytes
) -> None:
    headers: dict[str, str | bytes] = {"webhook-id": b"\xff", "webhook-attempt": "9" * 30}
    with sqlite_home.listening("--json", "--secret", SECRET) as there:
        assert post(there, body, headers) == 200
        found = there.document()
    assert found["body"] == RUBBISH[body]
    assert (found["id"], found["attempt"], found["verified"]) == (r"\udcff", None, False)
    with sqlite_home.listening() as there:
        post(there, body, headers)
        post(there, "1", {"webhook-id": "last"})
        lines = []
        while "last" not in (line := there.printed() or ""):
            lines.append(line)
    assert r"POST /hook  \udcff  not checked" in lines[0]
    assert "".join(lines).replace("\n", "").isprintable()


def test_a_long_body_is_cut_only_without_json(sqlite_home: Home) -> None:
    with sqlite_home.listening() as there:
        post(there, json.dumps("x" * 5000))
        lines = [there.printed() or "" for _ in range(3)]
    assert len(lines[1]) < 2100
    assert "3002 characters more" in lines[2]
    with sqlite_home.listening("--json") as there:
        post(there, json.dumps("x" * 5000))
        assert there.document()["body"] == "x" * 5000


def test_an_invalid_request_is_reported_and_the_receiver_continues(sqlite_home: Home) -> None:
    with sqlite_home.listening() as there:
        for rubbish in (b"SSH-2.0-x\r\n\r\n", b"GET /?\xff HTTP/1.1\r\n\r\n"):
            address = ("127.0.0.1", urlsplit(there.url).port)
            with socket.create_connection(address, timeout=10) as other:
                other.sendall(rubbish)
                assert b" 400 " in other.recv(1000)
        there.line_with("not HTTP")
        assert post(there, b"\0" * 3_000_000) == 413
        assert post(there, "1") == 200
        there.signal(signal.SIGINT)
        assert there.end() == 0
    assert "Traceback" not in "".join(there.log)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quietly_on_a_signal(sqlite_home: Home, number: int) -> None:
    with sqlite_home.listening() as there:
        post(there, "1")
        there.signal(number)
        assert there.end() == 0
    assert len(there.log) == 4
    assert not (sqlite_home.folder / "duly.db").exists()


def test_a_taken_port_is_code_1(sqlite_home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = sqlite_home.duly("listen", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "choose another port with --port" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--answer", "100"), "answer: '100' is not a status"),
        (("--fail", "0"), "fail: '0' is not a status"),
        (("--fail", "503,2"), "fail: '2' is not a status"),
        (("--fail", "," .join(["503"] * 100)), "fail: give at most 99"),
        (("--port", "65536"), "port: 65536 is not from 0 to 65535"),
        (("--secret", "hunter2"), "secret: "),
        (("--secret", ""), "secret: there is none"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("listen", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert "hunter2" not in done.stderr
