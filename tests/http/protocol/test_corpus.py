"""Hostile input: the same answer on both stores, never a 500, and nothing stored."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Response

import duly
from duly.errors import DulyError
from tests.http.corpus import BODIES, MOMENTS, NUMBERS, TEXTS, TYPES, URLS, ZONES
from tests.http.filled_site import FilledSite, filled_site

pytestmark = [pytest.mark.requirement("S2"), pytest.mark.long]
WORK = {"target": "work"}
UNKNOWN = "01980000-0000-7000-8000-000000000000"


class Both:
    """A site on each store, with the same requests."""

    def __init__(self, *stages: FilledSite) -> None:
        self.sites = stages

    def request(self, method: str, path: str, **sent: Any) -> Response:
        """The answer, which has to be the same from both; a refused request stores nothing."""
        before = [] if method == "GET" else [each.rows() for each in self.sites]
        first, second = (each.request(method, path, **sent) for each in self.sites)
        details = (method, path[:200], str(sent)[:300], first.text[:300], second.text[:300])
        assert first.status_code < 500, details
        assert verdict(first) == verdict(second), details
        if first.status_code >= 400:
            assert first.headers["content-type"] == "application/problem+json", details
            assert not before or [each.rows() for each in self.sites] == before, details
        return first

    def refuse(self, method: str, path: str, **sent: Any) -> None:
        """Send a request that has to be refused."""
        answer = self.request(method, path, **sent)
        assert answer.status_code >= 400, (method, path, str(sent)[:300])


def verdict(answer: Response) -> tuple[int, str | None, str | None]:
    if answer.status_code < 400:
        return answer.status_code, None, None
    problem = answer.json()
    return answer.status_code, problem.get("field"), problem["detail"]


@pytest.fixture
def both(sqlite_url: str, postgres_url: str) -> Iterator[Both]:
    with filled_site(sqlite_url) as small, filled_site(postgres_url) as large:
        yield Both(small, large)


def test_invalid_bodies_are_refused(both: Both) -> None:
    for body in BODIES.values():
        both.refuse("POST", "/v1/deliveries", content=body)
        both.refuse("POST", "/v1/deliveries/bulk?atomic=true", content=b"[%s]" % body)
        both.request("POST", "/v1/deliveries/bulk", content=b"[%s]" % body)
        kind = {"content-type": "application/x-ndjson"}
        lines = body + b"\n{}"
        both.refuse("POST", "/v1/deliveries/bulk?atomic=true", content=lines, headers=kind)
        for path in ("/v1/schedules/explain", "/v1/endpoints", "/v1/dead-letters/retry"):
            both.refuse("POST", path, content=body)
        both.refuse("PUT", "/v1/schedules/other", content=body)
        both.refuse("PATCH", "/v1/endpoints/hook", content=body)


def test_values_of_the_wrong_type_are_refused(both: Both) -> None:
    for field, values in TYPES.items():
        for value in values:
            both.refuse("POST", "/v1/deliveries", json=WORK | {field: value})


def test_texts_in_bodies_have_the_same_answer(both: Both) -> None:
    for text in TEXTS.values():
        for field in ("key", "stream"):
            both.request("POST", "/v1/deliveries", json=WORK | {field: text})
        both.request("POST", "/v1/deliveries", json=WORK | {"tags": [text]})
        both.refuse("POST", "/v1/deliveries", json={"target": text})
        both.request("POST", "/v1/deliveries", json=WORK | {"payload": {text: text}})
        both.request("POST", "/v1/keys", json={"name": text})
        both.request("POST", "/v1/streams/line/pause", json={"reason": text})
        hook = {"name": "other", "url": "https://example.org/"}
        both.refuse("POST", "/v1/endpoints", json=hook | {"headers": {text: "x"}, "method": "GO"})
        both.refuse("POST", "/v1/endpoints", json=hook | {"secret": text})
        both.request("PATCH", "/v1/endpoints/hook", json={"description": text})
        both.request("PATCH", "/v1/endpoints/hook", json={"headers": {"x-a": text}})
        both.refuse("POST", "/v1/schedules/explain", json={"rule": {"cron": text}})


def test_texts_in_paths_and_queries_have_the_same_answer(both: Both) -> None:
    for text in TEXTS.values():
        if len(text) > 10_000:
            continue
        name = quote(text, safe="")
        for kind in ("deliveries", "schedules", "endpoints", "streams", "keys"):
            both.request("GET", f"/v1/{kind}/{name}")
        for kind in ("schedules", "endpoints"):
            both.request("DELETE", f"/v1/{kind}/{name}")
        for move in ("pause", "resume"):
            for kind in ("schedules", "endpoints", "streams", "workers"):
                both.request("POST", f"/v1/{kind}/{name}/{move}")
        both.request("PATCH", f"/v1/streams/{name}", json={"on_failure": "release"})
        for field in ("state", "target", "stream", "schedule", "tag", "key", "reason", "text"):
            both.request("GET", "/v1/deliveries", params={field: text})
            both.request("GET", "/v1/dead-letters", params={field: text})
        for path in (
            "deliveries",
            "dead-letters",
            "schedules",
            "endpoints",
            "streams",
            "audit",
            "keys",
        ):
            both.request("GET", f"/v1/{path}", params={"cursor": text})


def test_a_name_that_is_not_utf8_is_unknown(both: Both) -> None:
    for path in ("/v1/schedules/%FF", "/v1/streams/%C0%AF", "/v1/keys/%ED%A0%80"):
        both.refuse("GET", path)
        both.refuse("PATCH", path, json={"on_failure": "block"})
        both.refuse("PUT", path, json={"rule": {"every": "1h"}, "target": "work"})


def test_invalid_headers_are_refused(both: Both) -> None:
    for text in TEXTS.values():
        value = text.encode("latin-1", "replace").replace(b"\r\n", b" ").replace(b"\0", b"\x7f")
        sent = {"json": WORK, "headers": [(b"idempotency-key", value)]}
        both.request("POST", "/v1/deliveries", **sent)
        both.request("PATCH", "/v1/endpoints/hook", json={}, headers=[(b"if-match", value)])
        both.request("POST", "/v1/deliveries", json=WORK, headers=[(b"content-type", value)])


def test_extreme_numbers_have_the_same_answer(both: Both) -> None:
    for number in NUMBERS:
        for field in ("priority", "after"):
            both.request(
                "POST", "/v1/deliveries", content=body_with(number, field, '"target": "work"')
            )
        for field in ("timeout", "rate", "in_flight"):
            both.request("PATCH", "/v1/endpoints/hook", content=body_with(number, field))
        for field in ("window", "cap", "max_runs", "jitter", "expires_after", "priority"):
            both.request("PATCH", "/v1/schedules/hourly", content=body_with(number, field))
        for field in ("base", "cap", "attempts", "jitter"):
            plan = body_with(number, field, '"type": "exponential"')
            both.request("PATCH", "/v1/endpoints/hook", content=body_with(plan, "retry"))
        both.request(
            "POST", "/v1/dead-letters/retry", content=body_with(number, "rate", '"all": true')
        )
        both.request(
            "POST", "/v1/endpoints/hook/rotate", content=body_with(number, "overlap_seconds")
        )
        both.request("POST", f"/v1/workers/{quote(number[:300], safe='')}/drain")
        for path in ("deliveries", "schedules/hourly/preview", "audit"):
            for field in ("limit", "n", "cursor"):
                both.request("GET", f"/v1/{path}", params={field: number})


def body_with(number: str, field: str, *more: str) -> str:
    """A body with the number written as given."""
    return "{" + ", ".join((f'"{field}": {number}', *more)) + "}"


def test_extreme_moments_have_the_same_answer(both: Both) -> None:
    for moment in MOMENTS:
        for field in ("at", "expires_at"):
            both.request("POST", "/v1/deliveries", json=WORK | {field: moment})
        for field in ("since", "until"):
            both.request("GET", "/v1/deliveries", params={field: moment})
            both.request("GET", "/v1/deliveries", params={field: moment, "stream": "line"})
            both.request("GET", "/v1/dead-letters", params={field: moment})
            both.request("POST", "/v1/dead-letters/retry", json={"dry_run": True, field: moment})
        both.request("GET", "/v1/dead-letters", params={"cursor": f"{moment}/{UNKNOWN}"})
        for field in ("start", "end"):
            both.request("PATCH", "/v1/schedules/hourly", json={field: moment})
        backfill = {"start": moment, "end": "2026-07-01T00:00:00Z", "dry_run": True}
        both.request("POST", "/v1/schedules/hourly/backfill", json=backfill)
        both.request("POST", "/v1/endpoints/hook/recover", json={"since": moment, "dry_run": True})
        both.request("POST", "/v1/keys", json={"name": "k", "expires_at": moment})
        for field in ("at", "anchor"):
            rule = {"every": "1h", "anchor": moment} if field == "anchor" else {"at": moment}
            both.request("POST", "/v1/schedules/explain", json={"rule": rule})


def test_invalid_zones_and_urls_are_refused(both: Both) -> None:
    for zone in ZONES:
        both.refuse(
            "POST", "/v1/schedules/explain", json={"rule": {"cron": "0 9 * * *", "tz": zone}}
        )
    for url in URLS:
        both.refuse("POST", "/v1/deliveries", json={"target": {"url": url}})
        both.refuse("POST", "/v1/endpoints", json={"name": "other", "url": url})
        both.request("GET", "/v1/deliveries", params={"target": url})


def test_other_encodings_are_refused(both: Both) -> None:
    body = json.dumps(WORK)
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded", "*/*", "a"):
        both.refuse("POST", "/v1/deliveries", content=body, headers={"content-type": kind})
    both.refuse("POST", "/v1/deliveries", content=body.encode("utf-16"))
    zipped = {"content-encoding": "gzip", "content-type": "application/json"}
    both.refuse("POST", "/v1/deliveries", content=b"\x1f\x8b\x08\x00", headers=zipped)


def test_python_calls_have_the_same_result(both: Both) -> None:
    for text in (*TEXTS.values(), "\ud800", 1, None, b"x", [], 2**70):
        for call in CALLS:
            first, second = (attempted(each, call, text) for each in both.sites)
            assert first == second, (call, text)


CALLS: tuple[Any, ...] = (
    lambda app, it: app.deliver("work", None, key=it),
    lambda app, it: app.deliver("work", None, stream=it),
    lambda app, it: app.deliver("work", None, tags=[it]),
    lambda app, it: app.deliver("work", {"a": it}),
    lambda app, it: app.deliver(it),
    lambda app, it: app.get(it),
    lambda app, it: app.list(text=it),
    lambda app, it: app.list(before=it),
    lambda app, it: app.schedules.get(it),
    lambda app, it: app.schedules.list(after=it),
    lambda app, it: app.schedules.pause(it),
    lambda app, it: app.schedules.pause("hourly", it),
    lambda app, it: app.schedules.declare(it, duly.every("1h"), "work"),
    lambda app, it: app.endpoints.get(it),
    lambda app, it: app.endpoints.list(after=it),
    lambda app, it: app.endpoints.edit("hook", description=it),
    lambda app, it: app.endpoints.add(it, "https://example.org/"),
    lambda app, it: app.streams.get(it),
    lambda app, it: app.streams.list(after=it),
    lambda app, it: app.streams.pause(it),
    lambda app, it: app.keys.get(it),
    lambda app, it: app.keys.list(after=it),
    lambda app, it: app.keys.create(it),
    lambda app, it: app.workers.drain(it),
    lambda app, it: app.audit.list(before=it),
)


def attempted(on: FilledSite, call: Any, given: Any) -> tuple[str, str]:
    """The result of a call: only errors of duly are raised."""
    before = on.rows()
    try:
        on.run(waited(call(on.app, given)))
    except DulyError as error:
        assert on.rows() == before, (call, given)
        return type(error).__name__, str(error)
    return "taken", ""


async def waited(call: Any) -> Any:
    return await call
