"""`duly send`: the delivery it makes, what it prints, and `--watch`."""

import asyncio
import json
import signal

import pytest

import duly
from tests.surfaces.processes import Home, Running
from tests.transports.receiver import receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LOCAL = {"DULY_EGRESS_ALLOW": "127.0.0.1", "DULY_WEBHOOK_SECRET": SECRET}
AT_ONCE = ("--retry", "delays:0")
NOWHERE = "http://127.0.0.1:9/"


@pytest.mark.requirement("C5", "C6")
def test_a_webhook_arrives_signed_and_is_watched_to_its_end(home: Home) -> None:
    with (
        home.listening("--json", "--fail", "1", environ=LOCAL) as there,
        home.serving(environ=LOCAL),
    ):
        url = f"{there.url}/hook?a=1"
        done = home.duly("send", url, "--data", '{"n": 1}', "--watch", *AT_ONCE, environ=LOCAL)
        first, second = there.document(), there.document()
    assert done.returncode == 0, done.stderr
    id, failed, completed, end = done.stdout.splitlines()
    assert "attempt 1: status 503 (" in failed
    assert "dependency_failure: it answered 503; retry at 20" in failed
    assert "attempt 2: status 200 (" in completed
    assert end == f"{id} completed"
    assert [first[each] for each in ("id", "attempt", "repeat", "answer")] == [id, 1, False, 503]
    assert [second[each] for each in ("id", "attempt", "repeat", "answer")] == [id, 2, True, 200]
    assert (first["verified"], first["path"], first["body"]) == (True, "/hook?a=1", {"n": 1})
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.requirement("C5")
def test_a_dead_letter_is_code_1(home: Home) -> None:
    with home.listening("--answer", "404") as there, home.serving(environ=LOCAL):
        done = home.duly("send", there.url, "--watch", environ=LOCAL)
    assert done.returncode == 1
    id, attempt, end = done.stdout.splitlines()
    assert "validation_failure: it answered 404, which ends it; with retry_on=" in attempt
    assert attempt.endswith("; dead")
    assert end == f"{id} dead"


def test_a_hint_is_printed_if_no_worker_runs(home: Home) -> None:
    with home.listening() as there:
        done = home.duly("send", there.url, "--data", "1", environ=LOCAL)
        assert done.returncode == 0
        assert f"POST {there.url} is sent at once" in done.stderr
        assert "nothing is sent until `duly serve` runs" in done.stderr
        with home.running("send", there.url, "--watch", environ=LOCAL) as watching:
            id = next_line(watching)
            watching.line_with("nothing is sent until `duly serve` runs")
            with home.serving(environ=LOCAL):
                assert "attempt 1: status 200" in next_line(watching)
                assert next_line(watching) == f"{id} completed"
                assert watching.end() == 0


def next_line(process: Running) -> str:
    return (process.printed() or "").strip()


def test_no_hint_is_printed_if_a_worker_runs(sqlite_home: Home) -> None:
    with sqlite_home.serving(environ=LOCAL):
        done = sqlite_home.duly("send", NOWHERE, "--in", "1h", environ=LOCAL)
    assert f"POST {NOWHERE} is sent in " in done.stderr
    assert "duly serve" not in done.stderr


@pytest.mark.requirement("C6")
async def test_an_argument_that_is_not_a_url_is_the_name_of_an_endpoint(home: Home) -> None:
    with home.listening("--json", "--secret", SECRET) as there, home.serving(environ=LOCAL):
        home.ok("endpoints", "add", "billing", there.url, "--secret", SECRET, environ=LOCAL)
        async with home.app() as app:
            await app.endpoints.edit("billing", retry=duly.delays(1, 2))
        done = home.duly("send", "billing", "--data", "[1]", "--watch", "--json")
        taken = there.document()
        shown = home.json("deliveries", "show", taken["id"])
    assert done.returncode == 0
    assert f"POST {there.url} is sent at once; at most 3 attempts" in done.stderr
    assert json.loads(done.stdout) == shown
    assert (shown["target"], shown["endpoint"]["name"]) == ("endpoint:billing", "billing")
    assert (taken["verified"], taken["body"]) == (True, [1])
    unknown = home.duly("send", "nobody")
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "no endpoint 'nobody'" in unknown.stderr


def test_a_delivery_cancelled_while_watched_is_code_1(home: Home) -> None:
    with home.running("send", NOWHERE, "--in", "1h", "--watch", environ=LOCAL) as watching:
        id = next_line(watching)
        home.ok("deliveries", "cancel", id)
        assert next_line(watching).endswith("  cancelled")
        assert next_line(watching) == f"{id} cancelled"
        assert watching.end() == 1


def test_an_interrupted_watch_prints_that_the_delivery_continues(sqlite_home: Home) -> None:
    with sqlite_home.running("send", NOWHERE, "--in", "1h", "--watch", environ=LOCAL) as watching:
        id = next_line(watching)
        watching.signal(signal.SIGINT)
        assert watching.end() == 130
    assert watching.log[-1] == f"the delivery continues: duly deliveries show {id}\n"


def test_json_output_is_one_document_with_every_attempt(home: Home) -> None:
    with home.listening("--fail", "500") as there, home.serving(environ=LOCAL):
        done = home.duly("send", there.url, "--watch", "--json", *AT_ONCE, environ=LOCAL)
        shown = home.json("deliveries", "show", json.loads(done.stdout)["id"])
    assert done.returncode == 0
    assert json.loads(done.stdout) == shown
    assert [each["answer"]["status"] for each in shown["attempts"]] == [500, 200]
    assert "attempt 1: status 500" in done.stderr


async def test_the_request_has_the_given_method_headers_and_body(sqlite_home: Home) -> None:
    sqlite_home.write("body.json", '{ "spaced" : 1.50 }\n')
    options = ("--method", "put", "--header", "X-Team: 7", "-H", "Authorization:Bearer a:b")
    async with receiver() as there:
        with sqlite_home.serving(environ=LOCAL):
            arguments = ("send", there.url("/x"), "--data", "@body.json", *options, "--watch")
            await asyncio.to_thread(sqlite_home.ok, *arguments, environ=LOCAL)
    (taken,) = there.taken
    assert taken.line == "PUT /x HTTP/1.1"
    assert taken.body == b'{ "spaced" : 1.50 }\n'
    assert (taken.headers["x-team"], taken.headers["authorization"]) == ("7", "Bearer a:b")


def test_the_data_may_be_an_argument_a_file_or_stdin(sqlite_home: Home) -> None:
    sqlite_home.write("body.json", "[1]")
    given = [("--data", "[1]"), ("--data", "-"), ("--data", "@body.json"), ("--data", "@-"), ()]
    found = [
        sqlite_home.json("deliveries", "show", id)["payload"]
        for each in given
        for id in [sqlite_home.ok("send", NOWHERE, *each, stdin="[1]", environ=LOCAL)]
    ]
    assert found == [[1], [1], [1], [1], None]


def test_the_options_of_deliver_work_for_send_too(sqlite_home: Home) -> None:
    options = ("--at", "2040-01-02T03:04:05+01:00", "--key", "k", "--tag", "red", "--priority", "8")
    first = sqlite_home.json("send", NOWHERE, *options, environ=LOCAL)
    assert first["due_at"] == "2040-01-02T02:04:05Z"
    found = sqlite_home.json("deliveries", "show", first["id"])
    assert (found["key"], found["tags"], found["priority"]) == ("k", ["red"], 8)
    assert (found["target"], found["url"]) == ("http://127.0.0.1:9", NOWHERE)
    repeated = sqlite_home.duly("send", NOWHERE, *options, environ=LOCAL)
    assert repeated.stdout.strip() == first["id"]
    assert "was known" in repeated.stderr
    assert sqlite_home.duly("send", NOWHERE, "--data", "2", *options, environ=LOCAL).returncode == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ftp://a.example",), "url: 'ftp://a.example' cannot be read: give http:// or https://"),
        (("an endpoint",), "endpoint: 'an endpoint' is not a name"),
        (("billing", "--method", "PUT"), "method: an endpoint has its own"),
        (("billing", "--header", "A: hunter2"), "headers: an endpoint has its own"),
        (("billing", "--timeout", "5s"), "timeout: an endpoint has its own"),
        (("http://127.0.0.1/",), "url: 127.0.0.1 is not for the public; allow it with DULY_EGRESS"),
        (("http://a.example", "--data", "{"), "payload: it is not valid JSON"),
        (("http://a.example", "--data", "@none"), "payload: 'none' cannot be read: No such file"),
        (("http://a.example", "--data", "@"), "payload: '' cannot be read"),
        (("http://a.example", "--method", "LIST"), "method: 'LIST' is none of POST"),
        (("http://a.example", "--timeout", "90s"), "timeout: 90 is not from 1 to 60 seconds"),
        (("http://a.example", "--timeout", "5"), "timeout: '5' is no duration"),
        (("http://a.example", "-H", "hunter2"), "header: one has no colon"),
        (("http://a.example", "-H", "A: 1", "-H", "a: 2"), "header: 'a' is given twice"),
        (("http://a.example", "-H", "webhook-id: 1"), "headers: 'webhook-id' is set by duly"),
        (("http://a.example", "--in", "1h", "--at", "2040-01-01T00:00Z"), "at: give either"),
        ((), "URL"),
    ],
)
def test_bad_input_is_refused_with_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("send", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "hunter2" not in done.stderr
