"""`duly dead`, run as commands."""

import shlex
import signal
from collections.abc import Sequence
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.testing import run_until_idle
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("F4")


async def make_dead_letters(home: Home, payloads: Sequence[Any], **options: Any) -> list[str]:
    """Make dead letters whose error contains the payload; returns their ids."""
    async with home.app() as app:

        @app.handler("work", retry=duly.delays(60))
        async def work(delivery: Delivery[Any]) -> None:
            raise duly.ValidationFailure(f"order {delivery.payload} is unknown")

        ids = [(await app.deliver("work", each, **options)).id for each in payloads]
        await run_until_idle(app)
        return ids


async def states(home: Home, ids: Sequence[str]) -> list[str]:
    async with home.app() as app:
        return [str((await app.get(id)).state) for id in ids]


async def test_dead_letters_are_listed_grouped_and_shown(home: Home) -> None:
    ids = await make_dead_letters(home, [17, 18], tags=["vip"])
    ids += await make_dead_letters(home, [19], stream="team:7")
    first = home.json("dead", "list", "--limit", "2")
    assert [each["id"] for each in first["items"]] == [ids[2], ids[1]]
    rest = home.json("dead", "list", "--before", first["next"])
    assert [each["id"] for each in rest["items"]] == [ids[0]]
    by_stream = home.json("dead", "list", "--stream", "team:7")["items"]
    assert [each["id"] for each in by_stream] == [ids[2]]
    assert home.json("dead", "list", "--since", "2199-01-01T00:00Z")["items"] == []
    (group,) = home.json("dead", "groups")["items"]
    assert (group["count"], group["targets"]) == (3, ["work"])
    assert "order 19 is unknown" in group["error"]
    row = home.ok("dead", "groups", "--tag", "vip").splitlines()[1].split()
    assert row[:3] == [group["fingerprint"], "2", "validation_failure"]
    assert home.ok("dead", "list").count(group["fingerprint"]) == 3
    shown = home.json("dead", "show", ids[0])
    assert (shown["payload"], shown["fingerprint"]) == (17, group["fingerprint"])
    assert [each["outcome"] for each in shown["attempts"]] == ["dead"]


async def test_a_dead_letter_is_retried_and_other_deliveries_are_refused(home: Home) -> None:
    (id,) = await make_dead_letters(home, [17])
    assert home.ok("dead", "retry", id) == f"{id} pending"
    for command in (("retry", id), ("edit", id, "1"), ("discard", id, "--note", "why")):
        done = home.duly("dead", *command)
        assert (done.returncode, done.stdout) == (5, "")
        assert f"delivery {id} is pending; only a dead letter" in done.stderr
        assert f"duly deliveries cancel {id}" in done.stderr
    (entry,) = home.json("audit")["items"]
    assert (entry["actor"], entry["action"]) == ("cli", "dead_letter.retried")


async def test_a_bulk_retry_counts_asks_and_retries(home: Home) -> None:
    ids = await make_dead_letters(home, [1, 2, 3], tags=["vip"])
    (other,) = await make_dead_letters(home, [4])
    retry = ("dead", "retry", "--tag", "vip")
    assert home.json(*retry, "--dry-run") == {
        "matching": 3,
        "moved": 0,
        "until": None,
        "finished": True,
    }
    declined = home.duly(*retry, stdin="n\n")
    assert "3 dead letters match.\nRetry them? [y/N]" in declined.stderr
    assert declined.stdout == "0 of 3 retried\n"
    assert home.duly(*retry).returncode == 2, "there is no terminal to ask"
    assert await states(home, ids) == ["dead"] * 3
    assert home.ok(*retry, "--yes", "--keep-attempts") == "3 of 3 retried"
    assert await states(home, [*ids, other]) == ["pending"] * 3 + ["dead"]
    assert {each["attempt"] for each in home.json("deliveries", "list")["items"]} == {1}
    done = home.duly("dead", "retry", ids[0], other, "--yes")
    assert done.stdout == "1 of 1 retried\n"
    assert "1 of 2 ids match no dead letter" in done.stderr


async def test_a_stopped_retry_prints_the_command_that_continues_it(home: Home) -> None:
    ids = await make_dead_letters(home, list(range(12)))
    stops = {"DULY_FAILPOINTS": "retry.after=stop@2"}
    retry = ("dead", "retry", "--target", "work", "--rate", "5", "--yes")
    with home.running(*retry, environ=stops) as running:
        running.wait_until_stopped()
        running.signal(signal.SIGINT)
        running.signal(signal.SIGCONT)
        assert running.end() == 128 + signal.SIGINT
    (message,) = [line for line in running.log if line.startswith("stopped after ")]
    assert "Traceback" not in "".join(running.log)
    continued = message.split("to continue: duly ")[1].split()
    assert continued[:6] == ["dead", "retry", "--target", "work", "--rate", "5"]
    assert continued[6] == "--until"
    left = (await states(home, ids)).count("dead")
    assert 0 < left < 12
    assert home.ok(*continued, "--yes") == f"{left} of {left} retried"
    assert await states(home, ids) == ["pending"] * 12


async def test_the_command_that_continues_has_the_same_store_and_filter(sqlite_home: Home) -> None:
    home = sqlite_home
    ids = await make_dead_letters(home, [f"-{number} of 'all'" for number in range(4)])
    stops = {"DULY_FAILPOINTS": "retry.after=stop@2"}
    where = ("--database", home.database, "--namespace", "default")
    retry = ("dead", "retry", "--text=-", "--since", "1h", "--rate", "1", *where, "--yes")
    with home.running(*retry, environ=stops) as running:
        running.wait_until_stopped()
        running.signal(signal.SIGINT)
        running.signal(signal.SIGCONT)
        running.end()
    (message,) = [line for line in running.log if line.startswith("stopped after ")]
    continued = shlex.split(message.split("to continue: duly ")[1])
    assert continued[2] == "--text=-"
    assert continued[continued.index("--database") + 1] == home.database
    assert home.ok(*continued, "--yes", database="sqlite:///nowhere.db") == "2 of 2 retried"
    assert await states(home, ids) == ["pending"] * 4


async def test_an_edited_dead_letter_is_retried_with_its_new_payload(home: Home) -> None:
    (id,) = await make_dead_letters(home, [17])
    home.write("new.json", '{"order": 18}')
    edited = home.json("dead", "edit", id, "@new.json")
    assert (edited["state"], edited["payload"]) == ("pending", {"order": 18})
    (entry,) = home.json("audit")["items"]
    assert (entry["actor"], entry["action"], entry["subject"]) == ("cli", "dead_letter.edited", id)


async def test_a_discard_needs_a_note_and_releases_the_stream(home: Home) -> None:
    ids = await make_dead_letters(home, [1, 2], stream="team:7")
    assert home.duly("dead", "discard", ids[0]).returncode == 2
    assert home.ok("dead", "discard", ids[0], "--note", "withdrawn") == f"{ids[0]} cancelled"
    assert home.json("streams", "show", "team:7")["state"] == "waiting"
    assert home.json("deliveries", "show", ids[0])["transitions"][-1]["by"] == "discarded"
    shown = home.ok("deliveries", "show", ids[0]).splitlines()
    assert any("discarded" in line and "withdrawn" in line for line in shown)
    more = await make_dead_letters(home, [3, 4])
    discard = ("dead", "discard", "--all", "--note", "too old")
    assert home.ok(*discard, "--dry-run") == "3 dead letters"
    assert home.ok(*discard, "--yes") == "3 of 3 discarded"
    assert await states(home, more) == ["cancelled"] * 2


async def test_poison_is_listed_before_it_is_dead(home: Home) -> None:
    async with home.app() as app:

        @app.handler("work")
        async def work(delivery: Delivery[Any]) -> None:
            raise RuntimeError("away")

        id = (await app.deliver("work", 1, retry=duly.delays(3600))).id
        await run_until_idle(app)
        other = (await app.deliver("work", 2)).id
        await run_until_idle(app)
    assert home.json("dead", "poison")["items"] == []
    (found,) = home.json("dead", "poison", "--last-attempts")["items"]
    assert (found["id"], found["why"]) == (id, "its next attempt is the last of 2")
    home.write("shop.py", SHOP)
    both = home.json("dead", "poison", "shop:app")["items"]
    assert {each["id"] for each in both} == {id, other}
    assert "its next attempt is the last of 2" in home.ok("dead", "poison", "--last-attempts")


SHOP = """
import duly
app = duly.App()
@app.handler("work", retry=duly.delays(60))
async def work(delivery): ...
"""
BAD = [
    (("list", "--limit", "0"), "limit: 0 is not from 1"),
    (("list", "--since", "yesterday"), "since: 'yesterday' is no duration"),
    (("list", "--before", "x"), "before: 'x' is no place"),
    (("groups", "--target", "a b"), "target: 'a b' is not a name"),
    (("retry", "--yes"), "filter: give ids, a filter, or --all"),
    (("discard", "--yes", "--note", "x"), "filter: give ids, a filter, or --all"),
    (("discard", "--all", "--note", ""), "note: it has 0 bytes"),
    (("retry", "--all", "--rate", "0"), "rate: 0 is not from"),
    (("retry", "7"), "id: '7' is too short"),
    (("edit", "7", "1"), "id: '7' is too short"),
    (("edit", "019b0000-0000-7000-8000-000000000000", "{"), "payload: it is not valid JSON"),
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("empty")
    home = Home(folder, f"sqlite:///{folder}/duly.db")
    home.ok("migrate", "up")
    return home


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_refused_with_code_2_and_names_the_field(
    empty: Home, arguments: tuple[str, ...], message: str
) -> None:
    done = empty.duly("dead", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr


def test_an_unknown_id_is_code_3(empty: Home) -> None:
    done = empty.duly("dead", "retry", "019b0000-0000-7000-8000-000000000000")
    assert (done.returncode, done.stdout) == (3, "")
