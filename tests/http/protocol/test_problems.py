"""Every refusal is problem+json with the field that is wrong, and stores nothing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import App
from duly.errors import BadSetting, StoreUnavailable
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S2")
UNKNOWN = "01980000-0000-7000-8000-000000000000"


BAD_BODIES: list[tuple[bytes, int, str | None]] = [
    (b"", 400, "body"),
    (b"{", 400, None),
    (b'{"target": "work", "payload": \xff}', 400, None),
    (b"[]", 422, "body"),
    (b"{}", 422, "body"),
    (b'{"target": "work", "pay": 1}', 422, "body"),
    (b'{"target": "nobody"}', 422, "target"),
    (b'{"target": "endpoint:none"}', 422, "target"),
    (b'{"target": {"endpoint": "none"}}', 422, "target"),
    (b'{"target": {}}', 422, "target"),
    (b'{"target": {"url": "ftp://example.org"}}', 422, "url"),
    (b'{"target": {"url": "http://127.0.0.1/"}}', 422, "url"),
    (b'{"target": {"endpoint": "a", "timeout": 3}}', 422, "target"),
    (b'{"target": "work", "priority": "5"}', 422, "priority"),
    (b'{"target": "work", "priority": 10}', 422, "priority"),
    (b'{"target": "work", "at": "2026-01-01T00:00:00"}', 422, "at"),
    (b'{"target": "work", "at": "10000-01-01T00:00:00Z"}', 422, "at"),
    (b'{"target": "work", "at": "2027-01-01T00:00:00Z", "after": 1}', 422, "at"),
    (b'{"target": "work", "after": 1e300}', 422, "after"),
    (b'{"target": "work", "key": ""}', 422, "key"),
    (b'{"target": "work", "key": "a\\u0000"}', 422, "key"),
    (b'{"target": "work", "tags": ["a", 1]}', 422, "tags[1]"),
    (b'{"target": "work", "on_failure": "block"}', 422, "on_failure"),
    (b'{"target": "work", "unique": "pending"}', 422, "unique"),
    (b'{"target": "work", "unique": "ever", "key": "k"}', 422, "unique"),
    (b'{"target": "work", "key": "k", "latest": 5}', 422, "latest"),
    (b'{"target": "work", "key": "k", "on_duplicate": "replace"}', 422, "on_duplicate"),
    (b'{"target": "work", "payload": %s}' % (b"[" * 100 + b"]" * 100), 422, "payload"),
    (b'{"target": "work", "payload": %s}' % (b"[" * 90_000 + b"]" * 90_000), 422, "body"),
    (b'{"target": "work", "payload": "%s"}' % (b"x" * 262_143), 422, "payload"),
    (b'{"target": "work", "payload": "%s"}' % (b"x" * 2_000_000), 413, None),
    (b'{"target": "work", "payload": NaN}', 400, None),
    (b'{"target": "work", "payload": "\\ud800"}', 400, None),
]


async def test_bad_bodies_are_refused_and_nothing_is_stored(app: App, client: Client) -> None:
    for body, status, field in BAD_BODIES:
        answer = await client.post("/v1/deliveries", content=body)
        assert_problem(answer, status)
        if field is not None:
            assert answer.json()["field"] == field, body[:100]
    assert await app.list() == []


ABSENT = [
    ("GET", "/v1/nothing", 404),
    ("GET", "/nothing", 404),
    ("PUT", "/v1/deliveries", 405),
    ("GET", f"/v1/deliveries/{UNKNOWN}", 404),
    ("GET", "/v1/deliveries/banana", 422),
    ("GET", f"/v1/deliveries/{UNKNOWN}?full=true", 422),
    ("GET", "/v1/deliveries/bulk", 405),
]


async def test_unknown_paths_and_names_are_problems(client: Client) -> None:
    for method, path, status in ABSENT:
        assert_problem(await client.request(method, path), status)


async def test_a_body_without_a_length_is_cut_off_at_the_limit(small_client: Client) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"target": "work", "payload": "'
        for _ in range(1000):
            sent += 1
            yield b"x" * 65_536

    assert_problem(await small_client.post("/v1/deliveries", content=endless()), 413)
    assert sent < 10
    keyed = await small_client.post(
        "/v1/deliveries", content=endless(), headers={"idempotency-key": "k"}
    )
    assert_problem(keyed, 413)


async def test_a_form_is_not_json(client: Client) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = await client.post("/v1/deliveries", data={"target": "work"}, headers=form)
    assert_problem(answer, 415)


async def test_an_unavailable_store_is_503_with_retry_after(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_id: str) -> None:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(app.store.deliveries, "get", away)
    answer = await client.get(f"/v1/deliveries/{UNKNOWN}")
    assert_problem(answer, 503)
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("error", [RuntimeError("a secret"), BadSetting("database", "a secret")])
async def test_an_internal_error_reveals_no_details(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def broken(_id: str) -> None:
        raise error

    monkeypatch.setattr(app.store.deliveries, "get", broken)
    answer = await client.get(f"/v1/deliveries/{UNKNOWN}")
    assert_problem(answer, 500)
    assert "secret" not in answer.text


def assert_problem(answer: Any, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (document["status"], document["type"]) == (status, "about:blank")
    assert document["title"]
    assert document["detail"]
