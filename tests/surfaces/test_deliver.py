"""`duly deliver`: what is taken, what is refused, and with which code."""

import json

import pytest

from tests.surfaces.processes import Home


def test_a_newcomer_sees_a_delivery_move(home: Home) -> None:
    with home.serving() as server:
        id = home.ok("deliver", "log", '{"hello": "world"}')
        assert server.wait_for("Logged")["delivery"] == id
        listed = home.ok("deliveries", "list")
    assert id in listed
    assert "log" in listed


def test_a_payload_is_kept_as_the_bytes_that_came(home: Home) -> None:
    with home.serving() as server:
        odd = '{"b" : 1.50,  "a":"é"}'
        by_argument = home.json("deliver", "log", odd)["id"]
        by_stdin = home.json("deliver", "log", "-", stdin=odd)["id"]
        for id in (by_argument, by_stdin):
            assert odd in home.ok("deliveries", "show", id, "--json")
        assert home.json("deliver", "log", "-5")["payload"] == -5
        assert home.json("deliver", "log")["payload"] is None
        server.wait_for("Logged")


def test_every_fact_that_is_given_is_kept(home: Home) -> None:
    with home.serving():
        found = home.json(
            "deliver", "log", "{}", "--at", "2040-01-02T03:04:05+01:00",
            "--expires-at", "2041-01-01T00:00Z", "--key", "k", "--priority", "8",
            "--tag", "red", "--tag", "blue",
        )  # fmt: skip
    assert found["due_at"] == "2040-01-02T02:04:05Z"
    assert found["expires_at"] == "2041-01-01T00:00:00Z"
    assert (found["key"], found["priority"], found["tags"]) == ("k", 8, ["red", "blue"])
    assert found["state"] == "pending"


def test_a_known_key_gives_the_same_delivery_or_a_conflict(home: Home) -> None:
    with home.serving():
        first = home.ok("deliver", "log", "1", "--key", "once")
        again = home.duly("deliver", "log", "1", "--key", "once")
        other = home.duly("deliver", "log", "2", "--key", "once")
    assert again.stdout.strip() == first
    assert "was known" in again.stderr
    assert other.returncode == 5
    assert first in other.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody",), "no handler 'nobody' is known"),
        (("log", "{"), "payload: it is not valid JSON"),
        (("log", "{}", "--at", "2026-11-16T09:00"), "at: '2026-11-16T09:00' has no time zone"),
        (("log", "{}", "--at", "tomorrow"), "at: 'tomorrow' is no moment"),
        (("log", "{}", "--after", "soon"), "after: 'soon' is no duration"),
        (("log", "{}", "--priority", "10"), "priority: 10"),
        (("log", "{}", "--priority", "high"), "--priority"),
        (("log", "{}", "--nonsense"), "--nonsense"),
        ((), "TARGET"),
    ],
)
def test_bad_input_is_refused_with_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], said: str
) -> None:
    done = sqlite_home.duly("deliver", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_an_answer_is_one_json_document(sqlite_home: Home) -> None:
    with sqlite_home.serving():
        done = sqlite_home.duly("deliver", "log", "[1]", "--json")
    assert json.loads(done.stdout)["payload"] == [1]
    assert done.stderr == ""
