"""`duly outages`, and lists of what was late, as text and as JSON."""

from datetime import UTC, datetime, timedelta

import pytest

from duly import App
from duly.domain.monitoring.alerts import AlertCause
from duly.records.alert import AlertKind
from duly.testing import RecordingTransport, VirtualClock, run_until_idle
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("L7")


async def away_for_a_day(home: Home) -> list[str]:
    """An outage of a day that ended two hours ago; returns the ids, the most late first."""
    clock = VirtualClock(datetime.now(UTC).replace(microsecond=0) - timedelta(hours=27))
    async with App(home.database, clock=clock, environment={}) as app:
        app.expect("log")

        async def work() -> None:
            await run_until_idle(app, transport=RecordingTransport("log"))
            await app.stats.overview()

        await app.deliver("log", "before")
        await work()
        clock.advance(3600)
        late = [(await app.deliver("log", hours, after=hours * 3600)).id for hours in (0, 6, 12)]
        clock.advance(24 * 3600)
        await work()
    return late


async def test_an_outage_is_printed_as_text_and_as_json(home: Home) -> None:
    await away_for_a_day(home)
    (found,) = home.json("outages")["outages"]
    began_at, ended_at = (datetime.fromisoformat(found[name]) for name in ("began_at", "ended_at"))
    assert ended_at - began_at == timedelta(days=1)
    assert (found["late"], found["waiting"], found["worked_off_at"]) == (3, 0, found["ended_at"])
    assert (found["largest_late_seconds"], found["median_late_seconds"]) == (86400, 18 * 3600)
    header, line = home.ok("outages", "--since", "7d", "--at-least", "1h").splitlines()
    assert " ".join(header.split()) == "began ended lasted late most late median worked off"
    assert line.split()[4:8] == ["1d", "3", "1d", "18h"]
    assert len(home.ok("outages", "--since", "1h").splitlines()) == 1
    assert len(home.ok("outages", "--at-least", "25h").splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (("--since", "soon"), "since"),
        (("--at-least", "30s"), "at_least"),
        (("--at-least", "long"), "at_least"),
        (("--limit", "0"), "limit"),
    ],
)
async def test_invalid_flags_are_code_2(
    sqlite_home: Home, flags: tuple[str, ...], field: str
) -> None:
    await sqlite_home.deliver("log")
    done = sqlite_home.duly("outages", *flags)
    assert (done.returncode, done.stderr.startswith(f"error: {field}: ")) == (2, True)


async def test_deliveries_are_listed_by_lateness_page_by_page(home: Home) -> None:
    late = await away_for_a_day(home)
    by_lateness = ("deliveries", "list", "--sort", "lateness")
    whole = home.json(*by_lateness, "--late-over", "5m")
    assert [each["id"] for each in whole["items"]] == late
    assert whole["next"] is None
    first = home.json(*by_lateness, "--limit", "2")
    assert [each["id"] for each in first["items"]] == late[:2]
    second = home.json(*by_lateness, "--limit", "2", "--before", first["next"])
    assert second["items"][0]["id"] == late[2]
    shown = home.duly(*by_lateness, "--limit", "1")
    assert "there are more: --before " in shown.stderr
    assert late[0] in shown.stdout
    done = home.duly(*by_lateness, "--before", late[0])
    assert (done.returncode, done.stderr.startswith("error: before: ")) == (2, True)


async def test_alerts_have_a_second_page(sqlite_home: Home) -> None:
    async with sqlite_home.app() as app:
        for name in ("a", "b", "c"):
            await app.store.alerts.raise_one(AlertCause(AlertKind.CIRCUIT_OPEN, name, "it failed"))
    first = sqlite_home.json("alerts", "--all", "--limit", "2")
    assert [each["subject"] for each in first["items"]] == ["c", "b"]
    second = sqlite_home.json("alerts", "--all", "--limit", "2", "--before", first["next"])
    assert [each["subject"] for each in second["items"]] == ["a"]
    done = sqlite_home.duly("alerts", "--before", "1")
    assert (done.returncode, done.stderr.startswith("error: before: add --all")) == (2, True)
