"""Edits: pending greetings change, running ones do not, and each year is greeted once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from birthday.tests.people import ANN, Service
from duly import State
from duly.domain.deliveries.outcomes import Completed, Failed, Outcome
from duly.records.reason import Reason

LA, TOKYO = "America/Los_Angeles", "Asia/Tokyo"
NINE_IN_LA = datetime(2026, 11, 15, 17, tzinfo=UTC)
NINE_IN_TOKYO = datetime(2026, 11, 15, 0, tzinfo=UTC)


async def years(service: Service, id: str) -> list[int]:
    """The local years in which a person was greeted, in order."""
    found = await service.app.list(schedule=f"birthday:{id}", state=State.COMPLETED)
    return sorted(each.scheduled_for.year for each in found if each.scheduled_for is not None)


@pytest.mark.requirement("B3")
async def test_a_user_is_shown_edited_in_part_and_removed(service: Service) -> None:
    registered = await service.register()
    id = registered["user"]["id"]
    service.app.clock.advance(60)  # type: ignore[attr-defined]
    edited = await service.edit(id, lastName=" Ng ")
    assert edited["user"] == registered["user"] | {
        "lastName": "Ng",
        "updatedAt": "2026-08-01T07:31:00Z",
    }
    assert await service.edit(id, lastName="Ng") == edited | {"skipped": 0}
    assert (await service.client.delete(f"/user/{id}")).status_code == 204
    for method in ("GET", "DELETE"):
        gone = await service.client.request(method, f"/user/{id}")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "USER_NOT_FOUND")
    (cancelled,) = await service.app.list()
    assert cancelled.state == State.CANCELLED
    assert await service.stored() == (0, 0, 1)


@pytest.mark.requirement("B3")
async def test_users_are_listed_in_pages(service: Service) -> None:
    ids = [(await service.register(firstName=f"A{n}"))["user"]["id"] for n in range(5)]
    found: list[str] = []
    cursor = None
    while True:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await service.client.get("/user", params=query)).json()
        found += [each["id"] for each in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert found == ids


@pytest.mark.requirement("B4")
async def test_an_edit_of_another_version_is_refused(service: Service) -> None:
    answer = await service.client.post("/user", json=ANN)
    id, etag = answer.json()["user"]["id"], answer.headers["etag"]
    edit: dict[str, Any] = {"json": {"lastName": "Ng"}, "headers": {"if-match": etag}}
    assert (await service.client.put(f"/user/{id}", **edit)).status_code == 200
    late = await service.client.put(f"/user/{id}", **edit)
    assert (late.status_code, late.json()["error"]["code"]) == (412, "USER_CHANGED")


@pytest.mark.requirement("B4")
async def test_a_new_date_or_zone_moves_the_pending_greeting_and_a_new_name_changes_its_text(
    service: Service,
) -> None:
    id = (await service.register())["user"]["id"]
    before = (await service.show(id))["nextBirthdayEvent"]
    renamed = await service.edit(id, firstName="Anna")
    assert (renamed["rescheduled"], renamed["skipped"]) == (0, 0)
    moved = await service.edit(id, timezone="Asia/Kathmandu", dateOfBirth="1990-11-16")
    assert (moved["rescheduled"], moved["skipped"], moved["skippedIds"]) == (1, 0, [])
    after = (await service.show(id))["nextBirthdayEvent"]
    assert (after["id"], after["dueAt"]) == (before["id"], "2026-11-16T03:15:00Z")
    service.go_to(datetime(2026, 11, 16, 3, 15, tzinfo=UTC))
    await service.run()
    assert await service.greetings() == ["Hey, Anna Lee it's your birthday"]
    trail = [each.action for each in await service.app.audit.list()]
    assert trail == ["schedule.changed", "schedule.changed", "schedule.created"]


@pytest.mark.requirement("B4", "B5")
async def test_a_greeting_that_is_being_sent_is_not_changed_and_reported(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    id = (await service.register())["user"]["id"]
    sending, edited = asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    async def send(text: str) -> Outcome:
        sending.set()
        await edited.wait()
        sent.append(text)
        return Completed()

    due = (await service.show(id))["nextBirthdayEvent"]
    service.go_to(datetime.fromisoformat(due["dueAt"]))
    running = asyncio.create_task(service.run(send))
    await asyncio.wait_for(sending.wait(), 10)
    answer = await service.edit(id, lastName="Ng", timezone=TOKYO)
    assert (answer["skipped"], answer["skippedIds"]) == (1, [due["id"]])
    logged = [each for each in caplog.records if each.name == "duly_birthday"]
    assert [each.facts["deliveries"] for each in logged] == [[due["id"]]]  # type: ignore[attr-defined]
    entry = (await service.app.audit.list())[0]
    assert (entry.action, entry.detail) == ("schedule.changed", {"unchanged": [due["id"]]})
    assert (await service.show(id))["nextBirthdayEvent"]["state"] == "processing"
    edited.set()
    await running
    service.go_to(datetime(2027, 11, 15, 0, tzinfo=UTC))
    await service.run(send)
    assert sent == ["Hey, Ann Lee it's your birthday", "Hey, Ann Ng it's your birthday"]
    assert await years(service, id) == [2026, 2027]


@pytest.mark.requirement("B3")
async def test_a_user_removed_while_being_greeted_is_not_greeted_again(
    service: Service,
) -> None:
    id = (await service.register())["user"]["id"]
    sending, removed = asyncio.Event(), asyncio.Event()

    async def send(_text: str) -> Outcome:
        sending.set()
        await removed.wait()
        return Completed()

    service.go_to(datetime(2026, 11, 15, 14, tzinfo=UTC))
    running = asyncio.create_task(service.run(send))
    await asyncio.wait_for(sending.wait(), 10)
    assert (await service.client.delete(f"/user/{id}")).status_code == 204
    removed.set()
    await running
    service.go_to(datetime(2028, 1, 1, tzinfo=UTC))
    await service.run()
    assert len(await service.greetings()) == 1
    assert not await service.app.list(state=State.PENDING)


@pytest.mark.requirement("B3", "B4")
async def test_a_waiting_retry_keeps_its_text_and_is_cancelled_with_its_user(
    service: Service,
) -> None:
    async def fail(_text: str) -> Outcome:
        return Failed(Reason.HANDLER_EXCEPTION, "later", after=3600)

    ann, bob = [(await service.register())["user"]["id"] for _ in range(2)]
    service.go_to(datetime(2026, 11, 15, 14, tzinfo=UTC))
    await service.run(fail)
    assert (await service.edit(ann, lastName="Ng"))["skipped"] == 1
    assert (await service.client.delete(f"/user/{bob}")).status_code == 204
    assert len(await service.greetings(State.PENDING)) == 3 - 1
    assert len(await service.greetings(State.CANCELLED)) == 2


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(("was", "becomes"), [(LA, TOKYO), (TOKYO, LA)])
@pytest.mark.parametrize("back", [False, True])
async def test_a_change_of_zone_around_the_birthday_neither_repeats_nor_loses_a_year(
    small_service: Service, was: str, becomes: str, back: bool
) -> None:
    """For every order of now, the old moment and the new one, also with a change back.

    A person who moves to a zone where the day is over, before the greeting, waits for next year.
    """
    service, offsets = small_service, (-1, 0, 1)
    moments = sorted(
        each + timedelta(seconds=offset)
        for each in (NINE_IN_TOKYO, NINE_IN_LA)
        for offset in offsets
    )
    people = {moment: (await service.register(timezone=was))["user"]["id"] for moment in moments}
    for moment, id in people.items():
        service.go_to(moment)
        await service.edit(id, timezone=becomes)
        if back:
            await service.edit(id, timezone=was)
        await service.run()
    service.go_to(datetime(2026, 12, 1, tzinfo=UTC))
    await service.run()
    greeted = {moment: [2026] for moment in moments}
    if becomes == TOKYO and not back:
        greeted[NINE_IN_LA - timedelta(seconds=1)] = []
    for moment, id in people.items():
        assert await years(service, id) == greeted[moment], moment
    service.go_to(datetime(2027, 12, 1, tzinfo=UTC))
    await service.run()
    for moment, id in people.items():
        assert await years(service, id) == [*greeted[moment], 2027], moment


@pytest.mark.requirement("B4", "B5")
@pytest.mark.parametrize(
    ("edit", "due"),
    [
        ({"feb29": "feb28"}, "2027-02-28"),
        ({"dateOfBirth": "2000-09-01"}, "2026-09-01"),
    ],
)
async def test_an_edit_can_end_the_wait_for_a_leap_year(
    service: Service, edit: dict[str, Any], due: str
) -> None:
    leap_day = {"dateOfBirth": "2000-02-29", "feb29": "skip", "timezone": "UTC"}
    id = (await service.register(**leap_day))["user"]["id"]
    assert (await service.show(id))["nextBirthdayEvent"]["localTime"][:10] == "2028-02-29"
    assert (await service.edit(id, **edit))["rescheduled"] == 1
    assert (await service.show(id))["nextBirthdayEvent"]["localTime"][:10] == due


@pytest.mark.requirement("B2", "B4")
async def test_an_edit_causes_no_greeting_for_the_day_of_birth(service: Service) -> None:
    id = (await service.register())["user"]["id"]
    await service.edit(id, dateOfBirth="2026-07-20", timezone="UTC")
    assert (await service.show(id))["nextBirthdayEvent"]["localTime"] == "2027-07-20T09:00:00"
    await service.run()
    assert await service.greetings() == []
