"""Alerts: which ones are raised and cleared for given figures."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.monitoring.alerts import AlertLimits, Changes, Watched, changes
from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LIMITS = AlertLimits(late=100, dead=10)
pytestmark = pytest.mark.requirement("S4")


def watched(
    happened: dict[AlertKind, str] | None = None, dead: int = 0, **facts: object
) -> Watched:
    status = NamespaceStatus(at=NOW, store_seconds=0.001, **facts)  # type: ignore[arg-type]
    return Watched(status=status, dead_lately=dead, happened=happened or {})


def known(kind: AlertKind, subject: str = "", ago: timedelta = timedelta()) -> Alert:
    return Alert(
        id=1, kind=kind, subject=subject, detail="", raised_at=NOW - ago, seen_at=NOW - ago
    )


def raised(found: Changes) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for each in found.raised]


@pytest.mark.parametrize(
    ("figures", "kind"),
    [
        ({"late": 100, "oldest_late_at": NOW}, "late_deliveries"),
        ({"planner_lag": 300.0}, "planner_silent"),
        ({"due": 1, "oldest_due_at": NOW - timedelta(minutes=5)}, "workers_silent"),
        ({"dead": 10}, "dead_letters"),
    ],
)
def test_each_figure_at_its_limit_is_an_alert(figures: dict[str, object], kind: str) -> None:
    assert raised(changes(watched(**figures), LIMITS, [])) == [(kind, "")]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "figures",
    [
        {"late": 99},
        {"planner_lag": 299.0},
        {"due": 1, "oldest_due_at": NOW - timedelta(minutes=4)},
        {"due": 1, "oldest_due_at": NOW - timedelta(minutes=9), "workers": 1, "last_beat_at": NOW},
        {"dead": 9},
        {"endpoints_paused": ["a"]},
    ],
)
def test_a_figure_below_its_limit_is_no_alert(figures: dict[str, object]) -> None:
    assert raised(changes(watched(**figures), LIMITS, [])) == []  # type: ignore[arg-type]


def test_each_open_circuit_and_each_disabled_endpoint_has_its_own_alert() -> None:
    figures = watched(
        circuits_open=["https://a"], circuits_probing=["endpoint:b"], endpoints_disabled=["c"]
    )
    present = [known(AlertKind.CIRCUIT_OPEN, "https://a")]
    found = changes(figures, LIMITS, present)
    assert raised(found) == [("circuit_open", "endpoint:b"), ("endpoint_disabled", "c")]
    assert [each.subject for each in found.seen] == ["https://a"]
    assert found.cleared == []


def test_an_alert_is_raised_once_and_cleared_below_half_its_limit() -> None:
    late = known(AlertKind.LATE_DELIVERIES)
    hovering = changes(watched(late=50), LIMITS, [late])
    assert (hovering.raised, hovering.cleared) == ([], [])
    assert changes(watched(late=49), LIMITS, [late]).cleared == [late]


def test_an_alert_for_an_event_is_cleared_after_a_quiet_time() -> None:
    jumped = {AlertKind.CLOCK_JUMPED: "it stepped"}
    assert raised(changes(watched(jumped), LIMITS, [])) == [("clock_jumped", "")]
    lately = known(AlertKind.CLOCK_JUMPED, ago=timedelta(minutes=14))
    assert changes(watched(), LIMITS, [lately]).cleared == []
    long_ago = known(AlertKind.CLOCK_JUMPED, ago=timedelta(minutes=16))
    assert changes(watched(), LIMITS, [long_ago]).cleared == [long_ago]
    assert changes(watched(jumped), LIMITS, [long_ago]).cleared == []
