"""Schedules over HTTP."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from duly import App, every
from duly.records.schedule import ScheduleOptions
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.services.conftest import START

pytestmark = pytest.mark.requirement("S2")
SPEC: dict[str, Any] = {"rule": {"cron": "0 9 * * MON", "tz": "Europe/Oslo"}, "target": "work"}


async def test_a_schedule_is_put_shown_changed_and_removed(app: App, client: Client) -> None:
    created = await client.put("/v1/schedules/monday", json=SPEC | {"payload": {"a": 1}})
    assert created.status_code == 201, created.text
    assert (created.headers["etag"], created.json()["change"]) == ('"1"', "created")
    recreated = await client.put("/v1/schedules/monday", json=SPEC | {"payload": {"a": 1}})
    assert (recreated.status_code, recreated.json()["change"]) == (200, "unchanged")

    changed = await client.patch("/v1/schedules/monday", json={"priority": 9, "tags": ["x"]})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"'), changed.text
    shown = (await client.get("/v1/schedules/monday")).json()
    assert (shown["priority"], shown["tags"], shown["payload"]) == (9, ["x"], {"a": 1})
    assert shown["rule"] == {"cron": "0 9 * * MON", "tz": "Europe/Oslo", "dst_gap": "run"}
    assert datetime.fromisoformat(shown["next_at"]) == datetime(2026, 8, 3, 7, tzinfo=UTC)

    listed = (await client.get("/v1/schedules")).json()
    assert [each["name"] for each in listed["items"]] == ["monday"]
    assert (await client.delete("/v1/schedules/monday")).status_code == 204
    assert (await client.get("/v1/schedules/monday")).status_code == 404


async def test_a_shown_schedule_can_be_put(app: App, client: Client) -> None:
    rules: list[dict[str, str]] = [
        {"cron": "*/5 * * * *"},
        {"every": "90s", "anchor": "2026-01-01T00:00:00+00:00"},
        {"at": "2027-01-01T09:00", "tz": "Asia/Kathmandu"},
        {"yearly": "2-29", "time": "08:30", "tz": "Asia/Tokyo", "feb29": "mar1"},
    ]
    for number, rule in enumerate(rules):
        await client.put(f"/v1/schedules/s{number}", json=SPEC | {"rule": rule})
        shown = (await client.get(f"/v1/schedules/s{number}")).json()
        same = await client.put(f"/v1/schedules/s{number}", json=SPEC | {"rule": shown["rule"]})
        assert same.json()["change"] == "unchanged", same.text
        unchanged = await client.patch(f"/v1/schedules/s{number}", json={})
        assert unchanged.json()["change"] == "unchanged", unchanged.text


SET: dict[str, tuple[Any, Any]] = {
    "catch_up": ("all", "skip"),
    "window": (60.0, 0.5),
    "cap": (7, 8),
    "overlap": ("skip", "allow"),
    "start": ("2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"),
    "end": ("2029-01-01T00:00:00Z", "2029-02-01T00:00:00Z"),
    "max_runs": (3, 4),
    "jitter": (2.5, 0.0),
    "expires_after": (30.0, 60.0),
    "retry": ({"type": "none"}, {"type": "delays", "seconds": [1.0]}),
    "priority": (8, 1),
    "stream": ("team:7", "team:8"),
    "tags": (["red"], ["blue", "green"]),
}
"""Two values of each option."""


@pytest.mark.parametrize("field", ScheduleOptions.__struct_fields__)
async def test_a_change_keeps_absent_fields_and_accepts_null_as_a_value(
    app: App, client: Client, field: str
) -> None:
    first, second = SET[field]
    await client.put("/v1/schedules/s", json=SPEC | {field: first, "payload": {"a": 1}})

    async def changed(**body: Any) -> Any:
        return await client.patch("/v1/schedules/s", json=body)

    kept = (await changed()).json()
    assert (kept[field], kept["payload"], kept["change"]) == (first, {"a": 1}, "unchanged")
    assert (await changed(**{field: second})).json()[field] == second
    null = await changed(**{field: None})
    if getattr(ScheduleOptions(), field) is None:
        assert (null.status_code, null.json()[field]) == (200, None), null.text
    else:
        assert (null.status_code, null.json()["field"]) == (422, field), null.text


async def test_a_payload_of_null_is_not_the_same_as_no_payload(app: App, client: Client) -> None:
    await client.put("/v1/schedules/s", json=SPEC)
    assert (await app.store.schedules.get("s")).contents.payload is None
    assert (await client.patch("/v1/schedules/s", json={"cap": 7})).status_code == 200
    assert (await app.store.schedules.get("s")).contents.payload is None
    assert (await client.patch("/v1/schedules/s", json={"payload": None})).status_code == 200
    assert (await app.store.schedules.get("s")).contents.payload == b"null"


async def test_a_change_of_another_version_is_refused(app: App, client: Client) -> None:
    await client.put("/v1/schedules/s", json=SPEC)
    for call in (
        client.put("/v1/schedules/s", json=SPEC | {"priority": 1}, headers={"if-match": '"7"'}),
        client.patch("/v1/schedules/s", json={"priority": 1}, headers={"if-match": '"7"'}),
        client.delete("/v1/schedules/s", headers={"if-match": '"7"'}),
        client.put("/v1/schedules/new", json=SPEC, headers={"if-match": '"1"'}),
    ):
        refused = await call
        assert refused.status_code == 412, refused.text
    right = await client.patch("/v1/schedules/s", json={"priority": 1}, headers={"if-match": '"1"'})
    assert (right.status_code, right.headers["etag"]) == (200, '"2"')
    bad = await client.delete("/v1/schedules/s", headers={"if-match": "banana"})
    assert (bad.status_code, bad.json()["field"]) == (422, "If-Match")


NEW = {"if-none-match": "*"}


async def test_a_put_of_a_new_schedule_does_not_change_an_existing_one(
    app: App, client: Client
) -> None:
    other = SPEC | {"priority": 1}
    calls = [client.put("/v1/schedules/s", json=each, headers=NEW) for each in (SPEC, other) * 4]
    answers = await asyncio.gather(*calls)
    assert sorted(each.status_code for each in answers) == [201] + [412] * 7
    assert all("not new" in each.text for each in answers if each.status_code == 412)
    (created,) = [each.json()["priority"] for each in answers if each.status_code == 201]
    found = (await client.get("/v1/schedules/s")).json()
    assert (found["version"], found["priority"]) == (1, created)
    assert (await client.patch("/v1/schedules/s", json={}, headers=NEW)).status_code == 412
    assert (await client.delete("/v1/schedules/s", headers=NEW)).status_code == 412
    for headers in ({"if-none-match": '"1"'}, NEW | {"if-match": '"1"'}):
        bad = await client.put("/v1/schedules/s", json=other, headers=headers)
        assert (bad.status_code, bad.json()["field"]) == (422, "If-None-Match")
    assert len(await app.schedules.list()) == 1


async def test_a_schedule_is_paused_resumed_triggered_and_backfilled(
    app: App, client: Client, clock: VirtualClock
) -> None:
    await client.put("/v1/schedules/h", json=SPEC | {"rule": {"every": "1h"}})
    paused = await client.post("/v1/schedules/h/pause", json={"reason": "holiday"})
    assert (paused.json()["state"], paused.json()["pause_reason"]) == ("paused", "holiday")
    assert (await client.post("/v1/schedules/h/resume")).json()["state"] == "active"

    key = {"idempotency-key": "t"}
    first, second = [await client.post("/v1/schedules/h/trigger", headers=key) for _ in range(2)]
    assert (first.status_code, first.content) == (201, second.content)
    assert (await app.get(first.json()["id"])).schedule == "h"

    clock.advance(timedelta(hours=5))
    past = {"start": START.isoformat(), "end": (START + timedelta(hours=4)).isoformat()}
    dry = await client.post("/v1/schedules/h/backfill", json=past | {"dry_run": True})
    assert dry.json() == {"moments": 4, "made": 0, "finished": True}, dry.text
    done = await client.post("/v1/schedules/h/backfill", json=past)
    assert (done.json()["moments"], done.json()["made"] >= 3) == (4, True)
    preview = (await client.get("/v1/schedules/h/preview?n=3")).json()
    assert len(preview) == 3


async def test_a_rule_is_explained(small_client: Client) -> None:
    answer = await small_client.post(
        "/v1/schedules/explain", json={"rule": {"cron": "30 2 * * *", "tz": "Europe/Oslo"}, "n": 2}
    )
    document = answer.json()
    assert (document["kind"], len(document["next"])) == ("fixed-time", 2), answer.text
    assert "02:30" in document["rule"]


@pytest.mark.requirement("L5")
async def test_a_rule_in_words_is_explained_and_stored_as_cron(client: Client) -> None:
    rule = {"cron": "every weekday at 9am", "tz": "Europe/Oslo"}
    document = (await client.post("/v1/schedules/explain", json={"rule": rule})).json()
    assert (document["cron"], document["rule"]) == (
        "0 9 * * MON-FRI",
        "at 09:00 on Monday to Friday, Europe/Oslo",
    )
    stored = (await client.put("/v1/schedules/said", json=SPEC | {"rule": rule})).json()
    assert stored["rule"]["cron"] == "0 9 * * MON-FRI"
    several = {"any_of": [rule, {"cron": "30 17 * * SUN", "tz": "Europe/Oslo"}, {"every": "5h"}]}
    document = (await client.post("/v1/schedules/explain", json={"rule": several})).json()
    assert document["cron"] == "0 9 * * MON-FRI; 30 17 * * SUN; @every 18000s"
    stored = (await client.put("/v1/schedules/several", json=SPEC | {"rule": several})).json()
    assert [each.get("cron") for each in stored["rule"]["any_of"]][:2] == [
        "0 9 * * MON-FRI",
        "30 17 * * SUN",
    ]
    again = await client.put("/v1/schedules/several", json=SPEC | {"rule": stored["rule"]})
    assert again.json()["change"] == "unchanged"
    refused = await client.put(
        "/v1/schedules/unsaid", json=SPEC | {"rule": {"cron": "when it rains"}}
    )
    assert refused.status_code == 422
    assert "do you mean" in refused.text
    assert (await client.get("/v1/schedules/unsaid")).status_code == 404


async def test_a_name_may_have_any_characters(app: App, client: Client) -> None:
    for name in ("a/b", "ü & ?", "50% off"):
        path = f"/v1/schedules/{quote(name, safe='')}"
        assert (await client.put(path, json=SPEC)).status_code == 201
        assert (await client.post(f"{path}/pause")).json()["name"] == name
    assert (await app.schedules.get("a/b")).state == "paused"


async def test_invalid_schedules_are_refused(app: App, client: Client) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        (SPEC | {"rule": {}}, "rule"),
        (SPEC | {"rule": {"cron": "@daily", "every": "1h"}}, "rule"),
        (SPEC | {"rule": {"cron": "banana"}}, "expression"),
        (SPEC | {"rule": {"cron": "@daily", "tz": "localtime"}}, "tz"),
        (SPEC | {"target": "nobody"}, "target"),
        (SPEC | {"target": {"endpoint": "none"}}, "target"),
        (SPEC | {"cap": 0}, "cap"),
        (SPEC | {"colour": "red"}, "body"),
        ({"target": "work"}, "body"),
    ]
    for spec, field in bad:
        answer = await client.put("/v1/schedules/bad", json=spec)
        assert (answer.status_code, answer.json().get("field")) == (422, field), answer.text
    assert await app.schedules.list() == []


async def test_an_empty_target_is_refused(app: App, client: Client) -> None:
    await client.put("/v1/schedules/s", json=SPEC)
    answer = await client.patch("/v1/schedules/s", json={"target": ""})
    assert (answer.status_code, answer.json().get("field")) == (422, "target"), answer.text


async def test_a_schedule_removed_during_its_trigger_is_not_reported_as_triggered(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.put("/v1/schedules/s", json=SPEC)
    clock = app.store.plans.clock

    async def after_another(*, recreated: bool) -> Any:
        await app.schedules.remove("s")
        if recreated:
            await app.schedule("s", every("1h"), "work")
        return await clock()

    for recreated in (True, False):
        monkeypatch.setattr(app.store.plans, "clock", partial(after_another, recreated=recreated))
        answer = await client.post("/v1/schedules/s/trigger")
        assert answer.status_code == 404, answer.text


async def test_two_changes_at_once_are_both_kept_or_one_is_refused(
    app: App, client: Client
) -> None:
    await client.put("/v1/schedules/s", json=SPEC)
    first, second = await asyncio.gather(
        client.patch("/v1/schedules/s", json={"priority": 9}),
        client.patch("/v1/schedules/s", json={"tags": ["x"]}),
    )
    shown = (await client.get("/v1/schedules/s")).json()
    assert {first.status_code, second.status_code} <= {200, 412}
    assert (shown["priority"] == 9) == (first.status_code == 200)
    assert (shown["tags"] == ["x"]) == (second.status_code == 200)
