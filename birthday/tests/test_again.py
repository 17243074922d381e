"""A registration repeated with its Idempotency-Key: no person is added or greeted twice."""

import asyncio
from typing import Any

import pytest

from birthday.tests.people import ANN, Service

pytestmark = pytest.mark.requirement("S2", "B1")
KEY = {"idempotency-key": "only-ann"}
TWO = [ANN, ANN | {"firstName": "Bea"}, {"firstName": "invalid"}]
CASES = [("/user", ANN, ["Ann"]), ("/user/bulk", TWO, ["Ann", "Bea"])]


async def people(service: Service) -> list[str]:
    found: list[dict[str, Any]] = (await service.client.get("/user")).json()["items"]
    return [each["firstName"] for each in found]


@pytest.mark.parametrize(("path", "body", "names"), CASES)
async def test_a_repeated_request_gets_the_first_response(
    service: Service, path: str, body: Any, names: list[str]
) -> None:
    answers = [await service.client.post(path, json=body, headers=KEY) for _ in range(2)]
    assert all(each.is_success for each in answers), answers[0].text
    assert answers[0].content == answers[1].content
    assert await people(service) == names
    other = await service.client.post(path, json=type(body)(), headers=KEY)
    assert (other.status_code, other.json()["error"]["code"]) == (400, "VALIDATION_FAILED")
    assert other.json()["error"]["details"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize(("path", "body", "names"), CASES)
async def test_a_repeated_request_after_a_crash_adds_no_person_twice(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, names: list[str]
) -> None:
    async def crash(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as context:
        context.setattr(service.app.store.idempotency, "finish", crash)
        with pytest.raises(asyncio.CancelledError):
            await service.client.post(path, json=body, headers=KEY)
    assert await people(service) == names
    second = await service.client.post(path, json=body, headers=KEY)
    assert second.is_success, second.text
    assert await people(service) == names
    assert len(await service.app.schedules.list()) == len(names)
    answer = second.json()
    if path == "/user":
        shown = await service.show(answer["user"]["id"])
        assert shown == answer | {"lastBirthdayEvent": None}
    else:
        assert (answer["created"], len(answer["ids"]), len(answer["refused"])) == (2, 2, 1)


async def test_a_concurrent_repetition_is_a_conflict(
    small_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = small_service.app.store.idempotency
    begin, begun, proceed = requests.begin, asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        begun.set()
        await proceed.wait()
        return await begin(request)

    monkeypatch.setattr(requests, "begin", slow)
    first = asyncio.create_task(small_service.client.post("/user", json=ANN, headers=KEY))
    await begun.wait()
    second = await small_service.client.post("/user", json=ANN, headers=KEY)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "CONFLICT")
    proceed.set()
    assert (await first).status_code == 201
    assert await people(small_service) == ["Ann"]


async def test_without_a_key_each_request_adds_a_person(small_service: Service) -> None:
    for _ in range(2):
        assert (await small_service.client.post("/user", json=ANN)).status_code == 201
    assert await people(small_service) == ["Ann", "Ann"]
