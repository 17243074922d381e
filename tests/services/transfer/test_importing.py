"""Importing into a store that has data: once, in order, and only without conflicts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import duly
from duly import App
from duly.errors import Conflict
from duly.failpoints import FailpointRaised, arm
from duly.services.transfer.importing import ImportOptions
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import record_payloads
from tests.services.transfers import export_lines, import_lines, records

pytestmark = pytest.mark.requirement("C10")


@pytest.fixture
async def source(tmp_path: Any, sqlite_schema: Any, clock: VirtualClock) -> AsyncIterator[App]:
    """The source of the import, on any store."""
    path = tmp_path / "source.db"
    path.write_bytes(sqlite_schema.read_bytes())
    async with App(f"sqlite:///{path}", clock=clock, environment={}) as found:
        found.expect("work")
        yield found


async def add(app: App, *payloads: Any, **options: Any) -> list[str]:
    app.expect("work")
    return [(await app.deliver("work", each, **options)).id for each in payloads]


async def test_an_interrupted_import_leaves_whole_batches_and_can_be_repeated(
    source: App, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.domain.transfer.reader.BATCH", 3)
    await add(source, *range(5), stream="s")
    await add(source, *range(5, 8))
    lines = await export_lines(source)
    for place, expected in (("import.middle=raise@2", 3), ("import.after=raise@2", 6)):
        arm(place)
        with pytest.raises(FailpointRaised):
            await import_lines(app, lines)
        arm("")
        assert len(await app.list()) == expected
    assert await import_lines(app, lines) == {"deliveries": (2, 6)}
    assert await import_lines(app, lines) == {"deliveries": (0, 8)}
    assert records(await export_lines(app)) == records(lines)
    seen = record_payloads(app)
    await run_until_idle(app)
    assert [each for each in seen if each < 5] == [0, 1, 2, 3, 4]
    assert sorted(seen) == [*range(8)]


async def test_an_export_shows_one_moment_despite_concurrent_writes(app: App) -> None:
    await add(app, *range(3), stream="s")
    (last,) = await add(app, "last")
    lines = [first := await anext(rest := app.exporting.lines())]
    await add(app, "later", stream="s")
    await app.cancel(last)
    lines += [each async for each in rest]
    assert first.kind is None
    exported = [json.loads(each.line) for each in lines if each.kind]
    assert [each["payload"] for each in exported] == [0, 1, 2, "last"]
    assert {each["state"] for each in exported} == {"pending"}


async def test_keys_are_kept_if_everything_is_exported(source: App, app: App) -> None:
    record_payloads(source)
    (done,) = await add(source, 1, key="k")
    await run_until_idle(source)
    assert await import_lines(app, await export_lines(source)) == {}
    await import_lines(app, await export_lines(source, everything=True))
    app.expect("work")
    second = await app.deliver("work", 1, key="k")
    assert (second.id, second.known) == (done, True)
    assert record_payloads(app) == []
    assert await run_until_idle(app) == 0


async def test_an_existing_key_stays_and_a_different_delivery_is_refused(
    source: App, app: App
) -> None:
    await add(source, 1, key="same")
    await add(source, 2, key="other")
    await add(source, 3)
    await add(app, 1, key="same")
    (mine,) = await add(app, "mine", key="other")
    lines = await export_lines(source)
    with pytest.raises(Conflict, match=f"line 3: key 'other' already belongs to delivery {mine}"):
        await import_lines(app, lines)
    assert len(await app.list()) == 2
    refused: list[int] = []
    options = ImportOptions(skip_bad=True)

    def record(number: int, _: str) -> None:
        refused.append(number)

    survey = app.importing.survey(lines, options, record)
    results = [each async for each in app.importing.write(lines, survey, options, record)]
    assert [(each.new, each.known, each.refused) for each in results] == [(1, 1, 1)]
    assert refused == [3]


async def test_ids_are_unique_across_namespaces(app: App) -> None:
    await add(app, 1)
    lines = await export_lines(app)
    with pytest.raises(Conflict, match=r"line 2: .* in namespace default"):
        await import_lines(app.within("other"), lines)


async def test_deliveries_for_a_used_stream_are_added_behind_it_in_order(
    source: App, app: App
) -> None:
    await add(source, *"abc", stream="s")
    await add(app, *"xy", stream="s")
    assert await import_lines(app, await export_lines(source)) == {"deliveries": (3, 0)}
    await add(app, "z", stream="s")
    seen = record_payloads(app)
    await run_until_idle(app)
    assert seen == [*"xyabcz"]


async def test_a_stream_keeps_positions_of_deliveries_that_are_not_exported(
    source: App, app: App
) -> None:
    record_payloads(source)
    await add(source, 1, 2, stream="s")
    await run_until_idle(source)
    (third,) = await add(source, 3, stream="s")
    await import_lines(app, await export_lines(source))
    assert (await app.get(third)).position == 3


async def test_an_import_while_a_worker_runs_is_refused_unless_requested(
    source: App, app: App
) -> None:
    await add(source, 1)
    lines = await export_lines(source)
    worker = await app.store.workers.register("host:7", 60.0, 1, ["work"])
    with pytest.raises(Conflict, match=f"worker {worker} .host:7. uses this store"):
        await import_lines(app, lines)
    assert await import_lines(app, lines, dry_run=True) == {"deliveries": (1, 0)}
    assert await app.list() == []
    assert await import_lines(app, lines, beside_workers=True) == {"deliveries": (1, 0)}


async def test_the_audit_trail_shows_who_imported_what(source: App, app: App) -> None:
    await source.schedule("hourly", duly.cron("0 * * * *"), "work")
    await source.endpoints.add("billing", "https://example.org/in")
    await source.streams.configure("s", on_failure="release")
    await import_lines(app.acting_as("cli"), await export_lines(source, with_secrets=True))
    entries = {(each.action, each.actor, each.subject) for each in await app.audit.list()}
    assert entries == {
        ("store.imported", "cli", "default"),
        ("schedule.imported", "cli", "hourly"),
        ("endpoint.imported", "cli", "billing"),
        ("stream.imported", "cli", "s"),
    }
    entry = (await source.audit.list(limit=1))[0]
    assert (entry.action, entry.detail) == (
        "store.exported",
        {"secrets": True, "deliveries": "unfinished"},
    )
