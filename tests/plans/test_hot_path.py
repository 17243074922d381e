"""Plans of the hot path: made while the tables are empty, they have to be good at any size."""

from __future__ import annotations

import json
from typing import Any

import apsw
import asyncpg
import pytest

import duly
from duly.stores.postgres.database import PLANNER
from duly.stores.statements import statements
from tests.plans.steps import sqlite_steps

UNKNOWN = "'{00000000-0000-0000-0000-000000000000}'"
ARGUMENTS = {
    "agenda.survey": {"served": "null", "now": "null"},
    "agenda.claim": {
        "priority": "'{5}'",
        "target": "'{1}'",
        "floor_at": "'{2000-01-01}'",
        "quota": "'{100}'",
        "now": "null",
        "worker": "1",
        "slots": "100",
        "token": "4294967297",
        "finished": "'{}'",
        "run": "32",
    },
    "agenda.complete": {
        "lane": UNKNOWN,
        "token": "'{4294967297}'",
        "started_us": "'{1}'",
        "finished_us": "'{1}'",
        "answer": "'{x}'",
        "answered": "true",
    },
    "streams.finish": {
        "lane": UNKNOWN,
        "token": "'{4294967297}'",
        "position": "'{1}'",
        "started_us": "'{1}'",
        "finished_us": "'{1}'",
        "answer": "'{x}'",
        "answered": "true",
    },
    "streams.advance": {
        "lane": UNKNOWN,
        "token": "'{4294967297}'",
        "delivery": UNKNOWN,
        "position": "'{1}'",
        "started_us": "'{1}'",
        "finished_us": "'{1}'",
        "apart": "'{null}'",
        "blocks": "'{null}'",
        "follower": "'{null}'",
        "follower_position": "'{null}'",
        "more": "'{null}'",
        "answer": "'{x}'",
        "answered": "true",
        "now": "null",
    },
    "agenda.settle": {
        "lane": UNKNOWN,
        "token": "'{4294967297}'",
        "delivery": UNKNOWN,
        "verdict": "'{retry}'",
        "attempt": "'{1}'",
        "started_at": "'{2000-01-01}'",
        "finished_at": "'{2000-01-01}'",
        "wait": "'{1}'",
        "priority": "'{5}'",
        "crashes": "'{0}'",
        "reason": "'{unknown}'",
        "error": "'{x}'",
        "answer": "'{x}'",
        "fingerprint": "'{x}'",
        "traceback": "'{x}'",
        "exception": "'{x}'",
        "now": "null",
    },
}
COUNTED = {
    "namespace": "'default'",
    "since_at": "'2000-01-01'",
    "until_at": "'2000-01-01'",
    "most": "100",
    "limit": "10",
}
ARGUMENTS |= {
    **{
        f"failure_stats.{name}": COUNTED
        for name in ("recent", "reasons", "retries", "poison_candidates", "halted")
    },
    "steps.load": {"delivery": UNKNOWN.replace("{", "").replace("}", "")},
    "steps.record": {
        "lane": UNKNOWN,
        "token": "'{4294967297}'",
        "delivery": UNKNOWN,
        "name": "'{charge}'",
        "attempt": "'{1}'",
        "done_at": "'{2000-01-01}'",
        "result": "'{null}'",
    },
    "schedules.ready": {
        "namespace": "'default'",
        "until_at": "now()",
        "after_at": "'epoch'",
        "after": "0",
        "passed_over": "'{}'",
        "batch": "50",
    },
    "schedules.plan": {
        "schedule": "'{1}'",
        "version": "'{0}'",
        "fired": "'{2025}'",
        "fired_at": "'{1}'",
        "made": "'{2026}'",
        "made_at": "'{1}'",
        "made_id": UNKNOWN,
        "runs": "'{1}'",
        "due_at": "'{1}'",
        "occasion": """'{"{}"}'""",
        "zone": "'{UTC}'",
        "zone_hash": "'{x}'",
        "zone_version": "'{x}'",
        "now": "null",
    },
    "schedules.next_plans": {"served": "null", "now": "null"},
    "schedules.behind": {
        "namespace": "'default'",
        "until_at": "now()",
        "passed_over": "'{}'",
    },
    "schedules.due": {
        "namespace": "'default'",
        "until_at": "now()",
        "batch": "50",
        "passed_over": "'{}'",
    },
}
FILL = """
with planned as (
    insert into duly.schedules (namespace, name, rule, catch_up, catch_up_cap, overlap, jitter,
        target, priority, created_at, updated_at)
    select 'default', 's' || n, '', 'all', 1, 'allow', 0, 1, 5, now(), now()
    from generate_series(1, 30000) n returning id
), progressing as (
    insert into duly.progress (schedule, namespace, fired_at, next_at)
    select id, 'default', now(), now() + id * interval '1 second' from planned
), made as (
    insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload)
    select gen_random_uuid(), 1, 5, 'default', now(), now(), '1' from generate_series(1, 30000)
    returning id
), trying as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, next_at)
    select id, 1, 'retry', now(), now() from made
), stepping as (
    insert into duly.steps (delivery, name, attempt, done_at)
    select id, 'charge', 1, now() from made
), stream as (
    insert into duly.streams (namespace, name, counter, used_at)
    select 'default', 's' || n, 10, now() from generate_series(1, 3000) n
    returning lane, name
), in_line as (
    insert into duly.deliveries
        (id, target, priority, namespace, due_at, accepted_at, payload, stream, lane, position)
    select gen_random_uuid(), 1, 5, 'default', now(), now(), '1', name, lane, place
    from stream cross join generate_series(1, 10) place
    returning id, lane, position
), heads as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, position)
    select lane, id, 1, 5, now(), position from in_line where position = 1
)
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, 1, 5, now() from made
"""


@pytest.fixture
async def connection(postgres_url: str) -> Any:
    """A connection as the engine has it, on an empty store."""
    async with duly.App(postgres_url):
        pass
    opened = await asyncpg.connect(postgres_url)
    await opened.execute(PLANNER.apply)
    yield opened
    await opened.close()


async def plan(connection: Any, name: str) -> list[dict[str, Any]]:
    """The nodes of the plan that the connection keeps for a statement."""
    statement = statements("postgres")[name]
    given = ", ".join(ARGUMENTS[name][each] for each in statement.parameters)
    label = name.replace(".", "_")
    known = await connection.fetch("select 1 from pg_prepared_statements where name = $1", label)
    if not known:
        await connection.execute(f"prepare {label} as {statement.text}")
        await connection.execute(f"execute {label}({given})")
    found = await connection.fetchval(f"explain (format json) execute {label}({given})")
    return _nodes(json.loads(found)[0]["Plan"])


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(each for child in node.get("Plans", []) for each in _nodes(child))]


def scans(nodes: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """How each table is read: its name, and the index, or the kind of scan without one."""
    return {
        (node["Relation Name"], node.get("Index Name", node["Node Type"]))
        for node in nodes
        if "Relation Name" in node and "Scan" in node["Node Type"]
    }


SMALL = {"targets", "endpoints", "gates", "limits"}
"""Tables with few rows: the planner may use the key or a scan."""

EXPECTED = {
    "agenda.survey": {("agenda", "agenda_open")},
    "agenda.claim": {
        ("workers", "workers_pkey"),
        ("claims", "claims_pkey"),
        ("agenda", "agenda_open"),
        ("agenda", "Tid Scan"),
        ("deliveries", "deliveries_pkey"),
        ("deliveries", "deliveries_line"),
        ("streams", "streams_pkey"),
    },
    "agenda.complete": {
        ("agenda", "agenda_pkey"),
        ("agenda", "Tid Scan"),
        ("deliveries", "deliveries_pkey"),
    },
    "streams.finish": {
        ("agenda", "agenda_pkey"),
        ("agenda", "Tid Scan"),
        ("streams", "streams_pkey"),
        ("deliveries", "deliveries_pkey"),
    },
    "streams.advance": {
        ("agenda", "agenda_pkey"),
        ("agenda", "Tid Scan"),
        ("streams", "streams_pkey"),
        ("deliveries", "deliveries_line"),
        ("deliveries", "deliveries_pkey"),
    },
    "schedules.ready": {
        ("progress", "progress_next"),
        ("schedules", "schedules_pkey"),
        ("calendars", "calendars_pkey"),
    },
    "schedules.plan": {("progress", "progress_pkey"), ("schedules", "schedules_pkey")},
    "schedules.due": {("progress", "progress_next")},
    "schedules.behind": {("progress", "progress_next")},
    "schedules.next_plans": {("progress", "progress_next")},
    "failure_stats.recent": {("deliveries", "deliveries_pkey"), ("agenda", "agenda_pkey")},
    "failure_stats.reasons": {("attempts", "attempts_failed"), ("deliveries", "deliveries_pkey")},
    "failure_stats.retries": {
        ("attempts", "attempts_next"),
        ("deliveries", "deliveries_pkey"),
        ("agenda", "agenda_pkey"),
    },
    "failure_stats.poison_candidates": {
        ("deliveries", "deliveries_pkey"),
        ("agenda", "agenda_crashed"),
    },
    "failure_stats.halted": {("agenda", "agenda_halted")},
    "steps.load": {("steps", "steps_pkey")},
    "steps.record": {("agenda", "agenda_pkey"), ("steps", "steps_pkey")},
    "agenda.settle": {
        ("agenda", "agenda_pkey"),
        ("deliveries", "deliveries_pkey"),
        ("progress", "progress_pkey"),
    },
}


@pytest.mark.requirement("D5", "F5", "F8", "F11")
async def test_plans_made_on_empty_tables_are_good_on_full_ones(connection: Any) -> None:
    # In one test: filling the tables takes longer than everything else.
    for name in EXPECTED:
        await plan(connection, name)
    await connection.execute(FILL)
    kept = {name: await how_it_reads(connection, name) for name in EXPECTED}
    assert kept == EXPECTED
    for table in (
        *("agenda", "deliveries", "streams", "schedules", "progress", "steps", "attempts"),
    ):
        await connection.execute(f"analyze duly.{table}")
    fresh = {name: await how_it_reads(connection, name) for name in EXPECTED}
    assert fresh == EXPECTED


async def how_it_reads(connection: Any, name: str) -> set[tuple[str, str]]:
    """How a statement reads the tables that can grow."""
    return {each for each in scans(await plan(connection, name)) if each[0] not in SMALL}


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "name",
    [
        *("agenda.survey", "agenda.claim", "agenda.complete", "streams.finish", "streams.advance"),
        "steps.record",
    ],
)
async def test_sqlite_never_scans_the_ledger_or_the_agenda(sqlite_url: str, name: str) -> None:
    tables = {"duly_agenda", "duly_deliveries", "a", "d"}
    for step in sqlite_steps(sqlite_url, name, batch="[]"):
        whole_table = step.startswith("SCAN") and step.split()[1] in tables
        assert not whole_table or "USING INDEX duly_agenda_open" in step, step


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "name", ["lay_missing", "drop_hollow", "lay_lines", "recall", "prune", "count_prunable"]
)
async def test_on_sqlite_a_slice_of_maintenance_reads_only_a_slice(
    sqlite_url: str, name: str
) -> None:
    steps = sqlite_steps(sqlite_url, f"maintenance.{name}")
    assert [each for each in steps if each.startswith("SCAN duly_")] == []
    open_ended = [each for each in steps if "id>?" in each and "id<?" not in each]
    assert open_ended == [], "it would read to the end of the index"


@pytest.mark.requirement("D5", "F11")
@pytest.mark.parametrize("name", [each for each in sorted(EXPECTED) if each.startswith("figures.")])
async def test_on_sqlite_counts_use_indexes(sqlite_url: str, name: str) -> None:
    tables = {"duly_agenda", "duly_deliveries", "duly_attempts", "a", "d"}
    steps = sqlite_steps(sqlite_url, name)
    scanned = [each for each in steps if each.startswith("SCAN") and each.split()[1] in tables]
    assert [each for each in scanned if "USING INDEX" not in each] == []
    assert any("duly_" in each and "INDEX" in each for each in steps)


@pytest.mark.requirement("D5")
async def test_statistics_of_an_empty_sqlite_file_are_removed(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    async with duly.App(sqlite_url):
        connection = apsw.Connection(path)
        connection.execute("create table theirs (a); create index theirs_a on theirs (a)")
        connection.execute("insert into theirs values (1); insert into duly_targets values (1,2,3)")
        connection.execute("analyze")
        connection.close()
    async with duly.App(sqlite_url):
        connection = apsw.Connection(path)
        left = {row[0] for row in connection.execute("select tbl from sqlite_stat1")}
        connection.close()
    assert left == {"theirs"}
