"""`duly doctor`: checks the installation and the store, and shows how to fix problems."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from duly.app import App
from duly.domain.endpoints.sealed_headers import key_ids
from duly.domain.time.zones import zone_data_version
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.settings import ADDRESSES, SECRETS
from duly.stores.postgres.address import ignored_parameters
from duly.stores.sqlite.database import Sqlite
from duly.surfaces.cli.endpoints.rotation import every_endpoint
from duly.surfaces.cli.server.doctor_checks import (
    Check,
    CheckResult,
    address_checks,
    check,
    postgres_checks,
    rights_check,
    schema_check,
    secret_checks,
    sqlite_checks,
    worker_checks,
)
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import (
    COMMON,
    Common,
    database_of,
    require_database,
    store_app,
)
from duly.surfaces.cli.terminal.output import answer, table
from duly.version import __version__

PACKAGES = ("apsw", "asyncpg")


async def doctor(*, common: Common = COMMON) -> int:
    """Check versions, schema, clocks, durability, workers and secrets; exit 1 if a check fails."""
    app, checks = store_app(common), version_checks()
    try:
        checks += await _store_checks(app)
    except StoreUnavailable as error:
        checks.append(check("store", CheckResult.FAILED, "cannot be reached", str(error)))
        _print(common, checks)
        raise
    finally:
        await app.close()
    _print(common, checks)
    return FAILED if any(each.verdict is CheckResult.FAILED for each in checks) else 0


def version_checks() -> list[Check]:
    """The installed versions."""
    found = {"duly": __version__, "python": platform.python_version()}
    found |= {name: version(name) for name in PACKAGES} | {"tzdata": zone_data_version()}
    return [check(name, CheckResult.OK, number) for name, number in found.items()]


async def _store_checks(app: App) -> list[Check]:
    require_database(app)
    database = database_of(app)
    if isinstance(database, Sqlite):
        await database.open()
    try:
        facts, skew = await _facts(app)
    except SchemaMismatch as error:
        return [check("schema", CheckResult.FAILED, "from a newer version of duly", str(error))]
    checks = sqlite_checks(facts) if app.store.single_owner else postgres_checks(facts, skew)
    checks += address_checks(ignored_parameters(app.settings.database))
    checks.append(schema_check(facts["schema"]))
    checks.append(rights_check(_modes(app)))
    if facts["schema"].current:
        checks += worker_checks(await app.store.workers.all())
        checks += await _secret_checks(app)
    return checks


def _modes(app: App) -> dict[str, int]:
    database, paths = database_of(app), []
    if isinstance(database, Sqlite):
        paths = [Path(f"{database.path}{end}") for end in ("", "-wal", "-shm")]
    if any(app.settings.origins[name] == "duly.toml" for name in SECRETS | ADDRESSES):
        paths.append(Path("duly.toml"))
    return {str(path): path.stat().st_mode for path in paths if path.exists()}


async def _secret_checks(app: App) -> list[Check]:
    """Whether the secrets of endpoints are sealed, and can be opened with these settings."""
    found = [each async for each in every_endpoint(app.store.endpoints.page)]
    plain = [each.name for each in found if None in key_ids(each)]
    problems = {each.name: app.endpoints.problem(each) for each in found}
    unreadable = {name: problem for name, problem in problems.items() if problem is not None}
    return secret_checks(plain, unreadable, has_key=bool(app.settings.secret_key))


async def _facts(app: App) -> tuple[dict[str, Any], timedelta]:
    """The store's facts, and the least difference of its clock to this machine's."""
    asked_at = app.clock.now()
    facts = await app.store.facts()
    clock = facts.get("clock", asked_at)
    ahead, behind = clock - app.clock.now(), clock - asked_at
    return facts, max(ahead, timedelta()) + min(behind, timedelta())


def _print(common: Common, checks: Sequence[Check]) -> None:
    document = {
        "ok": all(each.verdict is not CheckResult.FAILED for each in checks),
        "checks": checks,
    }
    answer(
        common.json,
        document,
        lambda: table(
            ("check", "verdict", "found", "what to do"),
            ((each.name, each.verdict, each.found, each.remedy) for each in checks),
            folds=("found", "what to do"),
        ),
    )
