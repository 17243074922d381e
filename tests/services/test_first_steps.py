"""What new users type first works, or the error contains what to write instead."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.errors import BadSetting
from duly.testing import run_until_idle


@pytest.mark.requirement("D14")
@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///:memory:",
        "sqlite:///file::memory:?cache=shared",
        "sqlite:///x.db?mode=memory",
        "sqlite://:memory:",
        "sqlite://",
    ],
)
def test_a_database_in_memory_is_refused_with_a_remedy(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSetting, match=r"^database: .* write sqlite:///duly\.db"):
        App(url, environment={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("S6")
def test_a_file_can_have_an_unusual_name(tmp_path: Path) -> None:
    assert App(f"sqlite:///{tmp_path}/what?.db", environment={}).store is not None


@pytest.mark.requirement("S6")
def test_dir_lists_the_public_names() -> None:
    assert set(duly.__all__) <= set(dir(duly))
    assert all(hasattr(duly, name) for name in dir(duly))


@pytest.mark.requirement("S6")
async def test_payloads_are_shown_as_they_were_given(database_url: str) -> None:
    payload = {"team": 7, "names": ["å", None], "deep": {"rate": 1.5}}
    async with App(database_url, environment={}) as app:

        @app.handler("work")
        async def work(delivery: Delivery[Any]) -> None:
            async with delivery.step("read") as step:
                step.keep([delivery.payload["team"]])
            raise duly.ValidationFailure("no")

        accepted = await app.deliver("work", payload, stream="a")
        await app.deliver("work", None, key="later", after=3600)
        declared = await app.schedule("daily", duly.every("1d"), "work", payload)
        await app.schedule("bare", duly.every("1d"), "work")
        await run_until_idle(app)
        found = await app.get(accepted.id)
        assert found.payload == payload
        assert (
            bytes(found.payload_json) == b'{"team":7,"names":["\xc3\xa5",null],"deep":{"rate":1.5}}'
        )
        listed = {each.key: each.payload for each in await app.list(target="work")}
        assert (listed[None], listed["later"]) == (payload, None)
        assert [each.payload for each in (await app.page(stream="a")).items] == [payload]
        assert [each.payload for each in (await app.dead_letters.page()).items] == [payload]
        assert [each.result for each in await app.steps(accepted.id)] == [[7]]
        assert declared.payload == (await app.schedules.get("daily")).payload == payload
        assert (await app.schedules.get("bare")).payload is None


@pytest.mark.requirement("S6")
async def test_the_snippet_of_the_tour_runs_twice(database_url: str) -> None:
    tour = (Path(__file__).parents[2] / "docs" / "tour.md").read_text()
    snippet = tour.partition("## In Python")[2].partition("```python\n")[2].partition("```")[0]
    assert "await app.cancel(accepted.id)" in snippet
    lines = snippet.replace("100_000", "100").splitlines()
    body = "\n".join(f"    {line}" for line in lines if "app.run()" not in line)
    app = App(database_url, environment={})
    app.expect("report.weekly")
    scope: dict[str, Any] = {
        "app": app,
        "duly": duly,
        "contextlib": contextlib,
        "print": lambda *_: None,
    }
    exec(f"async def snippet():\n{body}", scope)
    for _ in range(2):
        await scope["snippet"]()
