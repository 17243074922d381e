"""The same registration again, with its Idempotency-Key: nobody is there, or greeted, twice."""

import asyncio
from typing import Any

import pytest

from tests.birthday.people import ANN, Service

pytestmark = pytest.mark.requirement("S2", "B1")
KEY = {"idempotency-key": "ann-and-nobody-else"}
TWO = [ANN, ANN | {"firstName": "Bea"}, {"firstName": "nobody"}]
CASES = [("/user", ANN, 201), ("/user/bulk", TWO, 200)]


async def people(service: Service) -> list[str]:
    found: list[dict[str, Any]] = (await service.client.get("/user")).json()["items"]
    return [each["firstName"] for each in found]


@pytest.mark.parametrize(("path", "body", "status"), CASES)
async def test_the_same_again_is_answered_as_the_first_time(
    service: Service, path: str, body: Any, status: int
) -> None:
    answers = [await service.client.post(path, json=body, headers=KEY) for _ in range(2)]
    assert [each.status_code for each in answers] == [status] * 2, answers[0].text
    assert answers[0].content == answers[1].content
    assert await people(service) == ["Ann", "Bea"][: len(await people(service))]
    other = await service.client.post(path, json=[] if status == 200 else {}, headers=KEY)
    assert (other.status_code, other.json()["error"]["code"]) == (400, "VALIDATION_FAILED")
    assert other.json()["error"]["details"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize(("path", "body", "status"), CASES)
async def test_whoever_takes_over_from_a_dead_one_adds_nobody_twice(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, status: int
) -> None:
    async def dies(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(service.app.store.requests, "finish", dies)
        with pytest.raises(asyncio.CancelledError):
            await service.client.post(path, json=body, headers=KEY)
    there = await people(service)
    again = await service.client.post(path, json=body, headers=KEY)
    assert again.status_code == status, again.text
    assert await people(service) == there == ["Ann", "Bea"][: len(there)]
    schedules = await service.app.schedules.list()
    assert len(schedules) == len(there)
    answer = again.json()
    if status == 201:
        shown = await service.show(answer["user"]["id"])
        assert shown == answer | {"lastBirthdayEvent": None}
    else:
        assert (answer["created"], len(answer["ids"]), len(answer["refused"])) == (2, 2, 1)


async def test_while_it_is_under_way_it_is_a_conflict(
    small_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = small_service.app.store.requests
    begin, begun, goes_on = requests.begin, asyncio.Event(), asyncio.Event()

    async def slow(asked: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await begin(asked)

    monkeypatch.setattr(requests, "begin", slow)
    first = asyncio.create_task(small_service.client.post("/user", json=ANN, headers=KEY))
    await begun.wait()
    second = await small_service.client.post("/user", json=ANN, headers=KEY)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "CONFLICT")
    goes_on.set()
    assert (await first).status_code == 201
    assert await people(small_service) == ["Ann"]


async def test_without_a_key_each_is_somebody_new(small_service: Service) -> None:
    for _ in range(2):
        assert (await small_service.client.post("/user", json=ANN)).status_code == 201
    assert await people(small_service) == ["Ann", "Ann"]
