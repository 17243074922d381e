"""`duly stats`, as text and as JSON."""

import pytest

from tests.surfaces.processes import Home


@pytest.mark.requirement("F11")
async def test_stats_are_printed_as_text_and_as_json(home: Home) -> None:
    async with home.app() as app:
        id = (await app.deliver("log", 1)).id
    found = home.json("stats")
    assert found["states"] == {"pending": 1}
    assert found["oldest_waiting"]["id"] == id
    assert (found["retries"]["count"], found["poison"], found["capped"]) == (
        0,
        {"count": 0, "first": []},
        [],
    )
    output = home.ok("stats", "--since", "1h30m")
    assert "pending: 1" in output
    assert f"{id} to log, due since " in output


@pytest.mark.requirement("S3")
async def test_a_series_has_counts_for_each_interval(sqlite_home: Home) -> None:
    async with sqlite_home.app() as app:
        await app.deliver("log", 1)
    points = sqlite_home.json("stats", "--series", "--since", "24h")["points"]
    assert (len(points) <= 49, points[-1]["accepted"]) == (True, 1)
    header, *lines = sqlite_home.ok("stats", "--series", "--since", "10m").splitlines()
    assert header.split()[:3] == ["from", "accepted", "completed"]
    assert len(lines) >= 10


@pytest.mark.requirement("F11")
async def test_a_series_is_of_one_target_or_schedule(home: Home) -> None:
    await home.deliver("log")
    for flags in (("--target", "log"), ("--schedule", "none")):
        points = home.json("stats", "--series", "--since", "10m", *flags)["points"]
        # Only outcomes are counted by target and schedule.
        assert {each["accepted"] for each in points} == {0}
    for flags, field in (
        (("--target", "log"), "series"),
        (("--series", "--target", "log", "--schedule", "none"), "schedule"),
        (("--series", "--target", ""), "target"),
    ):
        done = home.duly("stats", *flags)
        assert (done.returncode, done.stderr.startswith(f"error: {field}: ")) == (2, True)


@pytest.mark.parametrize("since", ["soon", "2026-11-15T09:00", "9999-01-01T00:00Z"])
async def test_an_invalid_since_is_code_2(sqlite_home: Home, since: str) -> None:
    await sqlite_home.deliver("log")
    done = sqlite_home.duly("stats", "--since", since)
    assert done.returncode == 2
    assert done.stderr.startswith("error: since: ")


@pytest.mark.requirement("L7")
async def test_a_series_has_an_end_and_steps(sqlite_home: Home) -> None:
    await sqlite_home.deliver("log")
    whole = ("stats", "--series", "--since", "2h")
    found = sqlite_home.json(*whole, "--until", "1h", "--step", "30m")
    assert found["step"] == 1800
    assert sum(each["accepted"] for each in found["points"]) == 0
    assert (
        sum(each["accepted"] for each in sqlite_home.json(*whole, "--step", "30m")["points"]) == 1
    )
    for flags, field in (
        (("--until", "1h"), "series"),
        (("--series", "--step", "90s"), "step"),
        (("--series", "--until", "soon"), "until"),
    ):
        done = sqlite_home.duly("stats", *flags)
        assert (done.returncode, done.stderr.startswith(f"error: {field}: ")) == (2, True)
