"""`duly deliver`: accepted and refused input, and exit codes."""

import json

import pytest

from tests.surfaces.processes import Home


def test_a_first_delivery_is_completed_by_a_server(home: Home) -> None:
    with home.serving() as server:
        id = home.ok("deliver", "log", '{"hello": "world"}')
        logged = server.wait_for("Logged")
        assert (logged["delivery"], logged["payload"]) == (id, '{"hello":"world"}')
        assert id in home.ok("deliveries", "list")


async def register_log(home: Home) -> None:
    """Register the target `log`, as a server does when it starts."""
    async with home.app() as app:
        await app.deliver("log")


async def test_a_payload_is_stored_byte_for_byte(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    odd = '{"b" : 1.50,  "a":"é"}'
    by_argument = sqlite_home.ok("deliver", "log", odd)
    by_stdin = sqlite_home.ok("deliver", "log", "-", stdin=odd)
    for id in (by_argument, by_stdin):
        assert bytes((await sqlite_home.find(id)).payload_json) == odd.encode()


async def test_a_payload_may_be_omitted_or_look_like_a_flag(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    assert (await sqlite_home.find(sqlite_home.ok("deliver", "log"))).payload is None
    found = await sqlite_home.find(sqlite_home.ok("deliver", "log", "-5", "--after", "1h"))
    assert found.payload == -5


async def test_every_option_is_stored(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    id = sqlite_home.ok(
        "deliver", "log", "{}", "--at", "2040-01-02T03:04:05+01:00",
        "--expires-at", "2041-01-01T00:00Z", "--key", "k", "--priority", "8",
        "--tag", "red", "--tag", "blue",
    )  # fmt: skip
    found = sqlite_home.json("deliveries", "show", id)
    assert found["due_at"] == "2040-01-02T02:04:05Z"
    assert found["expires_at"] == "2041-01-01T00:00:00Z"
    assert (found["key"], found["priority"], found["tags"]) == ("k", 8, ["red", "blue"])
    assert found["state"] == "pending"


async def test_a_known_key_gives_the_same_delivery_or_a_conflict(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    first = sqlite_home.ok("deliver", "log", "1", "--key", "once")
    repeated = sqlite_home.duly("deliver", "log", "1", "--key", "once")
    other = sqlite_home.duly("deliver", "log", "2", "--key", "once")
    assert repeated.stdout.strip() == first
    assert "was known" in repeated.stderr
    assert other.returncode == 5
    assert first in other.stderr


@pytest.mark.requirement("P7")
async def test_a_unique_key_replaces_or_postpones_what_waits(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    unique = ("--key", "k", "--unique", "pending", "--after", "1h")
    first = sqlite_home.ok("deliver", "log", "1", *unique)
    kept = sqlite_home.duly("deliver", "log", "2", *unique)
    flags = ("--on-duplicate", "postpone", "--latest", "90m")
    postponed = sqlite_home.duly("deliver", "log", "3", *unique, *flags)
    assert kept.stdout.strip() == postponed.stdout.strip() == first
    assert "a delivery with key 'k' waits; nothing new was stored" in kept.stderr
    assert "it was postponed" in postponed.stderr
    found = sqlite_home.json("deliveries", "show", first)
    assert (found["payload"], found["unique"], found["replaced"]) == (3, "pending", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "no handler 'nobody' is known"),
        (("log", "{"), "payload: it is not valid JSON"),
        (("log", "{}", "--at", "2026-11-16T09:00"), "at: '2026-11-16T09:00' has no time zone"),
        (("log", "1", "--unique", "pending"), "unique: it needs a key"),
        ((), "TARGET"),
    ],
)
def test_bad_input_is_refused_with_code_2(
    sqlite_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = sqlite_home.duly("deliver", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


async def test_json_output_is_one_document_and_nothing_else(sqlite_home: Home) -> None:
    await register_log(sqlite_home)
    done = sqlite_home.duly("deliver", "log", "[1]", "--json")
    answer = json.loads(done.stdout)
    found = await sqlite_home.find(answer["id"])
    assert found.payload == [1]
    assert answer == {
        "id": found.id,
        "state": "pending",
        "due_at": found.due_at.isoformat().replace("+00:00", "Z"),
        "known": False,
    }
    assert done.stderr == ""
