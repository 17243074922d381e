"""Both SQL dialects have the same files, statements and parameters."""

from importlib.resources import files

import pytest

from duly.stores.statements import migrations, statements

PARAMETERS = {
    # PostgreSQL stores claims in a table; SQLite has an index on the token.
    "agenda.claim": ({"finished", "priority", "target", "floor_at", "quota"}, {"batch"}),
    "maintenance.free_orphans": ({"after", "until"}, set()),
    # SQLite gets all rows of a batch in one parameter, in the order of PostgreSQL's columns.
    "agenda.complete": (
        {"lane", "token", "started_us", "finished_us", "answer"},
        {"batch"},
    ),
    "ledger.accept": (
        {
            *("id", "target", "priority", "key", "address", "due_at", "after", "expires_at"),
            *("tags", "retry", "payload"),
        },
        {"batch"},
    ),
    "schedules.plan": (
        {
            *("schedule", "version", "fired", "fired_at", "made", "made_at", "made_id", "runs"),
            *("due_at", "occasion", "zone", "zone_hash", "zone_version"),
        },
        {"batch"},
    ),
    "rollups.add_parts": (
        {"namespace", "kind", "name", "minute_at", "completed", "failed", "dead", "cancelled"},
        {"batch"},
    ),
    "schedules.make": ({"schedule", "id", "occurrence", "due_at", "occasion"}, {"batch"}),
    "streams.advance": (
        {
            *("lane", "token", "delivery", "position", "started_us", "finished_us", "apart"),
            *("blocks", "follower", "follower_position", "more", "answer"),
        },
        {"batch"},
    ),
    "streams.accept": (
        {
            *("id", "target", "priority", "key", "address", "due_at", "after", "expires_at"),
            *("tags", "retry", "payload", "stream", "on_failure", "in_batch", "turn"),
        },
        {"batch"},
    ),
    "streams.finish": (
        {"lane", "token", "position", "started_us", "finished_us", "answer"},
        {"batch"},
    ),
    "turns.visit": ({"priority", "target", "after", "most"}, {"batch"}),
    "turns.claim": (
        {
            *("priority", "target", "turn", "many", "version", "in_flight", "at_once", "ahead_to"),
            *("paced_at", "interval", "finished"),
        },
        {"batch"},
    ),
    "batches.accept_new": (
        {
            *("id", "target", "priority", "address", "due_at", "after", "expires_at", "tags"),
            *("retry", "payload"),
        },
        {"batch"},
    ),
    "ledger.accept_new": (
        {
            *("id", "target", "priority", "address", "due_at", "after", "expires_at", "tags"),
            *("retry", "payload"),
        },
        {"batch"},
    ),
}
"""Parameters that only PostgreSQL's statement has, and only SQLite's."""


def folder(dialect: str) -> dict[str, set[str]]:
    root = files("duly.stores") / "sql" / dialect
    return {
        "statements": {each.name for each in root.iterdir() if each.name.endswith(".sql")},
        "migrations": {each.name for each in (root / "migrations").iterdir()},
    }


def test_both_dialects_have_the_same_files() -> None:
    assert folder("postgres") == folder("sqlite")
    assert folder("sqlite")["statements"]


def test_both_dialects_have_the_same_statements_in_the_same_order() -> None:
    assert list(statements("postgres")) == list(statements("sqlite"))


@pytest.mark.parametrize("name", list(statements("postgres")))
def test_both_dialects_have_the_same_parameters(name: str) -> None:
    postgres = set(statements("postgres")[name].parameters)
    sqlite = set(statements("sqlite")[name].parameters)
    only_postgres, only_sqlite = PARAMETERS.get(name, (set(), set()))
    assert postgres - sqlite == only_postgres
    assert sqlite - postgres == only_sqlite


def test_every_exception_names_an_existing_statement() -> None:
    assert PARAMETERS.keys() <= statements("postgres").keys()


def test_migrations_are_numbered_without_gaps_and_have_the_same_names() -> None:
    steps = {dialect: migrations(dialect) for dialect in ("postgres", "sqlite")}  # type: ignore[arg-type]
    names = [[(each.number, each.name) for each in found] for found in steps.values()]
    assert names[0] == names[1]
    assert [number for number, _ in names[0]] == list(range(1, len(names[0]) + 1))
