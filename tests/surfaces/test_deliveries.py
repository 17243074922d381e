"""`duly deliveries`, `workers`, `late` and `stuck`: what an operator sees and can do."""

from typing import Any

import pytest

from tests.surfaces.processes import Home

NOBODY = "00000000-0000-7000-8000-000000000000"
SHOP = """
import duly
app = duly.App()

@app.handler("fails", retry=duly.no_retry)
async def fails(delivery):
    raise ValueError("\\x1b[31mno [bold]luck")
"""


def ids(page: Any) -> list[str]:
    return [each["id"] for each in page["items"]]


def test_pages_follow_each_other_newest_first(home: Home) -> None:
    with home.serving():
        stored = [home.ok("deliver", "log", str(n), "--after", "1h") for n in range(3)]
    first = home.json("deliveries", "list", "--limit", "2")
    second = home.json("deliveries", "list", "--limit", "2", "--before", first["next"])
    assert ids(first) + ids(second) == stored[::-1]
    assert second["next"] is None


def test_a_list_is_narrowed_by_state_target_tag_and_key(home: Home) -> None:
    with home.serving():
        kept = home.ok("deliver", "log", "1", "--after", "1h", "--tag", "red", "--key", "k1")
        gone = home.ok("deliver", "log", "2", "--after", "1h", "--tag", "blue", "--key", "k2")
    home.ok("deliveries", "cancel", gone)
    for narrowing in (("--state", "pending"), ("--tag", "red"), ("--key", "k1")):
        assert ids(home.json("deliveries", "list", *narrowing)) == [kept]
    assert ids(home.json("deliveries", "list", "--target", "log")) == [gone, kept]
    assert ids(home.json("deliveries", "list", "--target", "other")) == []
    assert home.duly("deliveries", "list", "--state", "lost").returncode == 2
    assert home.duly("deliveries", "list", "--limit", "0").returncode == 2


def test_a_dead_letter_is_shown_with_its_attempts_and_can_be_retried(home: Home) -> None:
    home.write("shop.py", SHOP)
    with home.serving("shop:app") as server:
        id = home.ok("deliver", "fails", '{"secret": 1}')
        server.wait_for("AttemptFailed")
        while (found := home.json("deliveries", "show", id))["state"] != "dead":
            pass
        for_people = home.ok("deliveries", "show", id)
        assert home.json("deliveries", "retry", id)["state"] in ("pending", "processing", "dead")
        server.wait_for("AttemptFailed")
    assert [each["outcome"] for each in found["attempts"]] == ["dead"]
    assert found["reason"] == "handler_exception"
    assert "\\x1b[31mno [bold]luck" in for_people
    assert "\x1b" not in for_people


def test_a_cancelled_delivery_cannot_be_cancelled_again(home: Home) -> None:
    with home.serving():
        id = home.ok("deliver", "log", "--after", "1h")
    assert home.json("deliveries", "cancel", id)["state"] == "cancelled"
    again = home.duly("deliveries", "cancel", id)
    assert again.returncode == 5
    assert "is cancelled" in again.stderr


@pytest.mark.parametrize("verb", ["show", "cancel", "retry"])
def test_an_unknown_id_is_code_3_and_a_bad_one_code_2(sqlite_home: Home, verb: str) -> None:
    sqlite_home.ok("migrate", "up")
    unknown = sqlite_home.duly("deliveries", verb, NOBODY)
    assert unknown.returncode == 3
    assert NOBODY in unknown.stderr
    assert sqlite_home.duly("deliveries", verb, "17").returncode == 2


def test_namespaces_do_not_see_each_other(sqlite_home: Home) -> None:
    with sqlite_home.serving("--namespace", "mine"):
        id = sqlite_home.ok("deliver", "log", "--after", "1h", "--namespace", "mine")
    assert sqlite_home.duly("deliveries", "show", id).returncode == 3
    assert sqlite_home.json("deliveries", "show", id, "--namespace", "mine")["id"] == id


def test_late_and_stuck_name_what_waits_and_why(home: Home) -> None:
    with home.serving() as server:
        worker = home.json("workers")["items"]
        assert [each["alive"] for each in worker] == [True]
        assert worker[0]["name"].endswith(f":{server.process.pid}")
    id = home.ok("deliver", "log", "1", "--at", "2026-01-01T00:00Z")
    future = home.ok("deliver", "log", "2", "--after", "1h")
    assert ids(home.json("late")) == [id]
    assert ids(home.json("late", "--grace", "1000w")) == []
    (stuck,) = home.json("stuck", "--held-for", "1s")["items"]
    assert stuck["id"] == id
    if home.database.startswith("postgres"):
        return  # killed a moment ago, its worker still counts as alive there
    assert future not in home.ok("stuck")
