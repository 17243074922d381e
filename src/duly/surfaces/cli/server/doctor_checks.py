"""The checks of `duly doctor`: pure functions from facts to results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from duly.records.worker import Worker
from duly.stores.migrations import Status

OLDEST_SQLITE = (3, 51, 3)
SKEW_WARNING = timedelta(seconds=1)
SKEW_FAILURE = timedelta(seconds=60)
SHOWN_NAMES = 5
MEGABYTE = 2**20
LARGE = 32 * MEGABYTE
BLOATED = 10
"""Times the table that its indexes may have."""
NAPTIME = 10
"""Seconds between two vacuums on a server that is duly's alone."""
SYNCHRONOUS_NAMES = {0: "off", 1: "normal", 2: "full", 3: "extra"}


class CheckResult(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check: what was found, and what to do if it is not good."""

    name: str
    verdict: CheckResult
    found: str
    remedy: str = ""


def check(name: str, verdict: CheckResult, found: object, remedy: str = "") -> Check:
    """A check; the remedy is left out if the result is good."""
    return Check(name, verdict, str(found), "" if verdict is CheckResult.OK else remedy)


def postgres_checks(facts: Mapping[str, Any], skew: timedelta) -> list[Check]:
    """Checks of a PostgreSQL server."""
    return [
        check("postgresql", CheckResult.OK, facts["version"]),
        check(
            "writable",
            _good(not facts["read_only"]),
            "no" if facts["read_only"] else "yes",
            facts["read_only"] or "",
        ),
        _switch(facts, "fsync", CheckResult.FAILED, "a crash can lose or corrupt deliveries"),
        _switch(
            facts,
            "full_page_writes",
            CheckResult.WARNING,
            "a power failure can corrupt pages on most disks",
        ),
        _switch(
            facts, "synchronous_commit", CheckResult.FAILED, "a crash loses the last deliveries"
        ),
        clock_check(skew),
        *upkeep_checks(facts),
    ]


def upkeep_checks(facts: Mapping[str, Any]) -> list[Check]:
    """Whether the agenda, of which every delivery changes a row, is vacuumed often enough."""
    table, indexes = facts["agenda_bytes"], facts["agenda_index_bytes"]
    if table is None:
        return []  # before the first migration
    naptime, is_alone = facts["autovacuum_naptime"], facts["other_databases"] == 0
    is_bloated = indexes > LARGE and indexes > BLOATED * table
    is_rare = is_alone and naptime > NAPTIME and table > LARGE
    return [
        check(
            "agenda",
            CheckResult.WARNING if is_bloated else CheckResult.OK,
            f"{table / MEGABYTE:.1f} MB, its indexes {indexes / MEGABYTE:.1f} MB",
            "vacuum does not return the space of indexes; run "
            "`reindex table concurrently duly.agenda` in a quiet hour",
        ),
        check(
            "autovacuum_naptime",
            CheckResult.WARNING if is_rare else CheckResult.OK,
            f"{naptime} s",
            "between two vacuums the agenda grows by all that was delivered, and this server is "
            f"duly's alone; set autovacuum_naptime = {NAPTIME}s in postgresql.conf and reload",
        ),
    ]


def address_checks(ignored: Mapping[str, str]) -> list[Check]:
    """Parameters of the database URL that are ignored, each with the reason."""
    return [
        check("address", CheckResult.WARNING, f"{name} is ignored", f"{reason}; it can be left out")
        for name, reason in ignored.items()
    ]


def _switch(facts: Mapping[str, Any], name: str, bad: CheckResult, harm: str) -> Check:
    off = facts[name] == "off"
    remedy = f"{harm}; set {name} = on in postgresql.conf and reload"
    return check(name, bad if off else CheckResult.OK, facts[name], remedy)


def clock_check(skew: timedelta) -> Check:
    """Whether this machine and the database agree on the time."""
    verdict = CheckResult.OK
    if abs(skew) > SKEW_WARNING:
        verdict = CheckResult.FAILED if abs(skew) > SKEW_FAILURE else CheckResult.WARNING
    side = "behind" if skew > timedelta() else "ahead of"
    found = f"this machine is {abs(skew.total_seconds()):.3f} s {side} the database"
    if not skew:
        found = "this machine and the database agree"
    return check("clock", verdict, found, "synchronise both clocks, for example with chrony")


def sqlite_checks(facts: Mapping[str, Any]) -> list[Check]:
    """Checks of SQLite and its file."""
    synchronous = SYNCHRONOUS_NAMES.get(facts["synchronous"], str(facts["synchronous"]))
    full = facts["synchronous"] >= 2
    wal, whole = facts["journal_mode"] == "wal", facts["integrity"] == "ok"
    return [
        _sqlite_version(facts["version"]),
        check("file", CheckResult.OK, facts["path"]),
        check(
            "journal_mode",
            _good(wal),
            facts["journal_mode"],
            "wal is needed; is it a network disk? use a local one",
        ),
        check(
            "synchronous",
            _good(full),
            synchronous,
            "a power failure loses accepted deliveries; full is needed",
        ),
        check(
            "integrity",
            _good(whole),
            facts["integrity"],
            "the file is damaged: stop duly, and "
            "restore a backup or recover it with `sqlite3 FILE .recover`",
        ),
    ]


def _sqlite_version(version: str) -> Check:
    fresh = tuple(int(part) for part in version.split(".")[:3]) >= OLDEST_SQLITE
    oldest = ".".join(map(str, OLDEST_SQLITE))
    remedy = f"before {oldest} it can corrupt databases in WAL mode; pip install -U apsw"
    return check("sqlite", _good(fresh), version, remedy)


def _good(is_good: bool) -> CheckResult:
    return CheckResult.OK if is_good else CheckResult.FAILED


def rights_check(modes: Mapping[str, int]) -> Check:
    """Whether only their owner can read the files that contain secrets, by their modes."""
    open_to_others = [path for path, mode in modes.items() if mode & 0o077]
    return check(
        "file rights",
        CheckResult.WARNING if open_to_others else CheckResult.OK,
        f"{len(open_to_others)} files others can read{_some(open_to_others)}",
        f"they contain payloads and secrets; run `chmod 600 {' '.join(open_to_others)}`, unless "
        "others should read them",
    )


def schema_check(schema: Status) -> Check:
    """Whether all migrations are applied."""
    found = f"{schema.applied[-1]}" if schema.applied else "none"
    if schema.waiting:
        found += f", waiting: {', '.join(schema.waiting)}"
    return check("schema", _good(schema.current), found, "run `duly migrate up`")


def worker_checks(workers: Sequence[Worker]) -> list[Check]:
    """Whether a worker is alive, and whether dead workers still hold deliveries."""
    alive = sum(each.alive for each in workers)
    held = sum(each.holding for each in workers if not each.alive)
    return [
        check(
            "workers",
            CheckResult.OK if alive else CheckResult.WARNING,
            f"{alive} alive",
            "nothing is delivered until one runs: `duly serve` or `duly work module:app`",
        ),
        check(
            "dead workers",
            CheckResult.WARNING if held else CheckResult.OK,
            f"hold {held} deliveries",
            "start a worker; it reclaims them within seconds",
        ),
    ]


def secret_checks(
    plain: Sequence[str], unreadable: Mapping[str, str], *, has_key: bool
) -> list[Check]:
    """Whether the secrets of endpoints are sealed, and can be opened."""
    seal = "run `duly endpoints reseal --all`"
    if not has_key:
        seal = (
            "anyone who can read the database can sign as you; set DULY_SECRET_KEY to what "
            f"`openssl rand -base64 32` prints, for every process, and {seal}"
        )
    name, problem = next(iter(unreadable.items()), ("", ""))
    return [
        check(
            "plain secrets",
            CheckResult.WARNING if plain else CheckResult.OK,
            f"{len(plain)} endpoints{_some(plain)}",
            seal,
        ),
        check(
            "unreadable secrets",
            _good(not unreadable),
            f"{len(unreadable)} endpoints{_some(list(unreadable))}",
            f"their deliveries wait. {name}: {problem}",
        ),
    ]


def _some(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > SHOWN_NAMES else ""
    return f": {', '.join(names[:SHOWN_NAMES])}{more}" if names else ""
