"""Bad input: the field and the reason are reported, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from birthday.tests.conftest import serving
from birthday.tests.people import ANN, Service, reasons

pytestmark = pytest.mark.requirement("B3")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("firstName", "", "is empty"),
        ("firstName", "  \t ", "is empty"),
        ("lastName", "x" * 101, "has 101 characters"),
        ("lastName", "a\0b", "control character"),
        ("firstName", 7, "is not text"),
        ("firstName", None, "is not text"),
        ("lastName", ["Lee"], "is not text"),
        ("dateOfBirth", "2026-02-30", "does not exist"),
        ("dateOfBirth", "2023-02-29", "does not exist"),
        ("dateOfBirth", "19901115", "YYYY-MM-DD"),
        ("dateOfBirth", "1990-11-15T00:00:00", "YYYY-MM-DD"),
        ("dateOfBirth", "15.11.1990", "YYYY-MM-DD"),
        ("dateOfBirth", 19901115, "is not text"),
        ("dateOfBirth", "2026-08-02", "is in the future"),
        ("dateOfBirth", "1899-12-31", "is before 1900-01-01"),
        ("timezone", "localtime", "is not a time zone"),
        ("timezone", "Mars/Olympus", "is not a time zone"),
        ("timezone", "../etc/passwd", "is not a time zone"),
        ("timezone", "europe/oslo", "is not a time zone"),
        ("timezone", "", "is not a time zone"),
        ("feb29", "feb30", "is none of feb28, mar1, skip"),
        ("admin", True, "is not a field of a user"),
        ("id", "x", "is not a field of a user"),
    ],
)
async def test_a_wrong_field_is_named_with_its_reason(
    small_service: Service, field: str, value: Any, reason: str
) -> None:
    ((found, why),) = (await small_service.refused(**{field: value})).items()
    assert found == field
    assert reason in why
    assert await small_service.stored() == (0, 0, 0)


async def test_all_errors_are_reported_at_once(service: Service) -> None:
    answer = await service.client.post("/user", json={"firstName": "", "timezone": "x", "y": 1})
    assert set(reasons(answer)) == {"firstName", "lastName", "dateOfBirth", "timezone", "y"}
    id = (await service.register())["user"]["id"]
    before = await service.show(id)
    answer = await service.client.put(f"/user/{id}", json={"lastName": "Ng", "timezone": "x"})
    assert set(reasons(answer)) == {"timezone"}
    assert await service.show(id) == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"null", b'{"a":\xff}'])
async def test_a_body_that_is_no_object_is_refused(small_service: Service, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = await small_service.client.post("/user", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "VALIDATION_FAILED"
    assert await small_service.stored() == (0, 0, 0)


async def test_a_body_of_a_megabyte_is_refused(small_service: Service) -> None:
    answer = await small_service.client.post("/user", json=ANN | {"x": "y" * 1_000_000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
    answer = await small_service.client.post("/user", content=b"x=1")
    assert answer.status_code in (400, 415)


async def test_an_invalid_id_is_distinguished_from_an_unknown_one(service: Service) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body: dict[str, Any] = {"json": {"lastName": "Ng"}} if method == "PUT" else {}
        answer = await service.client.request(method, "/user/7", **body)
        assert reasons(answer) == {"id": "'7' is not a UUID"}
        unknown = "01980000-0000-7000-8000-000000000000"
        answer = await service.client.request(method, f"/user/{unknown}", **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "USER_NOT_FOUND")
    assert set(reasons(await service.client.get("/user?cursor=7"))) == {"cursor"}
    assert set(reasons(await service.client.get("/user?limit=0"))) == {"limit"}


async def test_authentication_applies_here_too(sqlite_url: str, clock: Any) -> None:
    async with serving(sqlite_url, clock, loopback_open=False) as service:
        answer = await service.client.post("/user", json=ANN)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        for namespace, scope, status in (
            ("default", "operate", 201),
            ("default", "read", 403),
            ("other", "admin", 403),
        ):
            keys = service.app.within(namespace).keys
            token = (await keys.create(f"{namespace}-{scope}", scope=scope)).token
            headers = {"authorization": f"Bearer {token}"}
            answer = await service.client.post("/user", json=ANN, headers=headers)
            assert answer.status_code == status, answer.text
        (created,) = [
            each for each in await service.app.audit.list() if each.action == "schedule.created"
        ]
        assert created.actor.startswith("key:")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("PATCH", "/user", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/user/01980000-0000-7000-8000-000000000000", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/user/bulk", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/user/bulk/more", 404, "NOT_FOUND"),
    ],
)
async def test_unknown_routes_have_errors_of_the_same_shape(
    small_service: Service, method: str, path: str, status: int, code: str
) -> None:
    answer = await small_service.client.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    other = await small_service.client.get("/users")
    assert other.headers["content-type"] == "application/problem+json"
