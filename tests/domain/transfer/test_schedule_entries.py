"""A schedule in an export of version 1, byte for byte."""

from datetime import UTC, datetime

from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.transfer import entries
from duly.domain.transfer.entries import ScheduleEntry
from duly.domain.transfer.import_checks import revision_of

LINE = (
    b'{"kind":"schedule","name":"monday","rule":{"kind":"cron","expression":"0 9 * * MON",'
    b'"tz":"Europe/Oslo","dst_gap":"run"},"catch_up":"latest","window":21600.0,"cap":12,'
    b'"starts_at":"2026-03-01T00:00:00Z","ends_at":"2026-04-10T00:00:00Z","max_runs":3,'
    b'"jitter":2.5,"target":"https://example.org","webhook":{"url":"https://example.org/hook",'
    b'"method":"PUT","headers":{"X-Team":"7"},"timeout":5.0},"payload":{"team": 7},"priority":8,'
    b'"stream":"team:7","expires_after":5400.0,"retry":{"type":"delays","seconds":[0.0,30.0]},'
    b'"tags":["red","green"],"paused_at":"2026-03-01T00:00:00Z","pause_reason":"why",'
    b'"progress":{"fired_at":"2026-03-01T00:00:00Z","fired":null,"made":"2026-03-02T08:00:00Z",'
    b'"made_at":"2026-03-02T08:00:00Z","made_id":"01a1e5e7-4d91-7008-9b94-c07e815d67d0",'
    b'"next_at":"2026-03-02T08:00:00Z","runs":1,"merged":2,"skipped":3,"zone":"Europe/Oslo",'
    b'"zone_hash":"ab","zone_version":"2026a","missed_at":null}}\n'
)
"""All options except catch_up and overlap differ from their defaults."""
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_an_export_of_version_1_is_imported_and_exported_unchanged() -> None:
    entry = entries.decode(LINE)
    assert isinstance(entry, ScheduleEntry)
    found = revision_of(entry, 1000)
    schedule = StoredSchedule(
        id=1,
        name=entry.name,
        version=1,
        timing=found.timing,
        contents=found.contents,
        progress=found.plan.progress,
        created_at=NOW,
        updated_at=NOW,
        paused_at=found.paused_at,
        pause_reason=found.pause_reason,
    )
    assert entries.encode(entries.schedule_entry(schedule, entry.retry)) == LINE
