"""`duly deliveries cancel` and `retry`: one delivery, or all pending ones that match."""

from typing import Any

import pytest

from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("F11", "S5")


async def accept(home: Home, *tags: str) -> list[str]:
    """One delivery for each tag, due in an hour."""
    async with home.app() as app:
        return [(await app.deliver("log", tag, after=3600, tags=[tag])).id for tag in tags]


async def states(home: Home, ids: list[str]) -> list[str]:
    return [str((await home.find(id)).state) for id in ids]


async def test_those_that_match_are_cancelled_after_a_count(home: Home) -> None:
    ids = await accept(home, "old", "old", "new")
    cancel = ("deliveries", "cancel", "--tag", "old")
    assert home.ok(*cancel, "--dry-run") == "2 pending deliveries"
    asked = home.duly(*cancel)
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert await states(home, ids) == ["pending"] * 3
    assert home.ok(*cancel, "--yes") == "2 cancelled"
    assert await states(home, ids) == ["cancelled", "cancelled", "pending"]
    assert home.json(*cancel, "--yes") == {
        "matching": 0,
        "moved": 0,
        "until": None,
        "finished": True,
    }


async def test_those_that_match_are_made_due_now(home: Home) -> None:
    red, blue = await accept(home, "red", "blue")
    assert home.ok("deliveries", "retry", "--tag", "red", "--yes") == "1 retried"
    due, later = await home.find(red), await home.find(blue)
    assert (due.next_at or due.due_at) < later.due_at
    assert home.ok("deliveries", "retry", "--all", "--dry-run") == "1 pending deliveries"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "filter: give an id, a filter, or --all for all pending deliveries"),
        (("<id>", "--tag", "red"), "id: give an id or a filter, not both"),
        (("<id>", "--all"), "id: give an id or a filter, not both"),
        (("--tag", ""), "tag: "),
        (("--id", "zz"), "id: "),
        (("--until", "soon"), "until: "),
    ],
)
async def test_a_bad_filter_is_code_2_and_changes_nothing(
    sqlite_home: Home, flags: tuple[str, ...], message: str
) -> None:
    (id,) = await accept(sqlite_home, "red")
    given: list[Any] = [id if each == "<id>" else each for each in flags]
    for verb in ("cancel", "retry"):
        done = sqlite_home.duly("deliveries", verb, *given, "--yes")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert await states(sqlite_home, [id]) == ["pending"]
