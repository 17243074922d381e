"""Importing beside what is there already: once, in order, and only what fits."""

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
from tests.services.conftest import noted
from tests.services.moving import exported, imported, things

pytestmark = pytest.mark.requirement("C10")


@pytest.fixture
async def source(tmp_path: Any, sqlite_schema: Any, clock: VirtualClock) -> AsyncIterator[App]:
    """From where it comes; what store that is does not matter here."""
    path = tmp_path / "source.db"
    path.write_bytes(sqlite_schema.read_bytes())
    async with App(f"sqlite:///{path}", clock=clock, environment={}) as found:
        found.expect("work")
        yield found


async def add(app: App, *payloads: Any, **options: Any) -> list[str]:
    app.expect("work")
    return [(await app.deliver("work", each, **options)).id for each in payloads]


async def test_one_that_breaks_off_leaves_whole_batches_and_goes_on_when_repeated(
    source: App, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.domain.transfer.reader.BATCH", 3)
    await add(source, *range(5), stream="s")
    await add(source, *range(5, 8))
    lines = await exported(source)
    for place, there in (("import.middle=raise@2", 3), ("import.after=raise@2", 6)):
        arm(place)
        with pytest.raises(FailpointRaised):
            await imported(app, lines)
        arm("")
        assert len(await app.list()) == there
    assert await imported(app, lines) == {"deliveries": (2, 6)}
    assert await imported(app, lines) == {"deliveries": (0, 8)}
    assert things(await exported(app)) == things(lines)
    seen = noted(app)
    await run_until_idle(app)
    assert [each for each in seen if each < 5] == [0, 1, 2, 3, 4]
    assert sorted(seen) == [*range(8)]


async def test_an_export_tells_one_moment_whatever_is_written_meanwhile(app: App) -> None:
    await add(app, *range(3), stream="s")
    (last,) = await add(app, "last")
    lines = [first := await anext(rest := app.exporting.lines())]
    await add(app, "later", stream="s")
    await app.cancel(last)
    lines += [each async for each in rest]
    assert first.kind is None
    told = [json.loads(each.line) for each in lines if each.kind]
    assert [each["payload"] for each in told] == [0, 1, 2, "last"]
    assert {each["state"] for each in told} == {"pending"}


async def test_keys_go_on_counting_if_all_is_exported(source: App, app: App) -> None:
    noted(source)
    (done,) = await add(source, 1, key="k")
    await run_until_idle(source)
    assert await imported(app, await exported(source)) == {}
    await imported(app, await exported(source, everything=True))
    app.expect("work")
    again = await app.deliver("work", 1, key="k")
    assert (again.id, again.known) == (done, True)
    assert noted(app) == []
    assert await run_until_idle(app) == 0


async def test_what_is_there_under_its_key_stays_and_another_is_refused(
    source: App, app: App
) -> None:
    await add(source, 1, key="same")
    await add(source, 2, key="other")
    await add(source, 3)
    await add(app, 1, key="same")
    (mine,) = await add(app, "mine", key="other")
    lines = await exported(source)
    with pytest.raises(Conflict, match=f"line 3: key 'other' already belongs to delivery {mine}"):
        await imported(app, lines)
    assert len(await app.list()) == 2
    heard: list[int] = []
    manner = ImportOptions(skip_bad=True)

    def hear(number: int, _: str) -> None:
        heard.append(number)

    survey = app.importing.survey(lines, manner, hear)
    brought = [each async for each in app.importing.write(lines, survey, manner, hear)]
    assert [(each.new, each.known, each.refused) for each in brought] == [(1, 1, 1)]
    assert heard == [3]


async def test_ids_are_unique_over_all_namespaces_of_a_store(app: App) -> None:
    await add(app, 1)
    lines = await exported(app)
    with pytest.raises(Conflict, match=r"line 2: .* in namespace default"):
        await imported(app.within("elsewhere"), lines)


async def test_who_comes_to_a_stream_in_use_goes_behind_it_in_order(source: App, app: App) -> None:
    await add(source, *"abc", stream="s")
    await add(app, *"xy", stream="s")
    assert await imported(app, await exported(source)) == {"deliveries": (3, 0)}
    await add(app, "z", stream="s")
    seen = noted(app)
    await run_until_idle(app)
    assert seen == [*"xyabcz"]


async def test_a_stream_keeps_its_place_behind_what_is_not_told(source: App, app: App) -> None:
    noted(source)
    await add(source, 1, 2, stream="s")
    await run_until_idle(source)
    (third,) = await add(source, 3, stream="s")
    await imported(app, await exported(source))
    assert (await app.get(third)).position == 3


async def test_beside_a_worker_it_is_refused_unless_wanted(source: App, app: App) -> None:
    await add(source, 1)
    lines = await exported(source)
    worker = await app.store.workers.register("host:7", 60.0, 1, ["work"])
    with pytest.raises(Conflict, match=f"worker {worker} .host:7. uses this store"):
        await imported(app, lines)
    assert await imported(app, lines, dry_run=True) == {"deliveries": (1, 0)}
    assert await app.list() == []
    assert await imported(app, lines, beside_workers=True) == {"deliveries": (1, 0)}


async def test_the_audit_trail_tells_who_brought_what(source: App, app: App) -> None:
    await source.schedule("hourly", duly.cron("0 * * * *"), "work")
    await source.endpoints.add("billing", "https://example.org/in")
    await source.streams.configure("s", on_failure="release")
    await imported(app.acting_as("cli"), await exported(source, with_secrets=True))
    entries = {(each.action, each.actor, each.subject) for each in await app.audit.list()}
    assert entries == {
        ("store.imported", "cli", "default"),
        ("schedule.imported", "cli", "hourly"),
        ("endpoint.imported", "cli", "billing"),
        ("stream.imported", "cli", "s"),
    }
    told = (await source.audit.list(limit=1))[0]
    assert (told.action, told.detail) == (
        "store.exported",
        {"secrets": True, "deliveries": "unfinished"},
    )
