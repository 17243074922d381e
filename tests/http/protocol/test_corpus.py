"""Hostile input: the same verdict on both stores, never a fault of ours, nothing stored."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Response

import duly
from duly.errors import DulyError
from tests.http.corpus import BODIES, MOMENTS, NUMBERS, TEXTS, TYPES, URLS, ZONES
from tests.http.stage import Stage, stage

pytestmark = [pytest.mark.requirement("S2"), pytest.mark.long]
WORK = {"target": "work"}
UNKNOWN = "01980000-0000-7000-8000-000000000000"


class Both:
    """A site on each store, asked the same."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def ask(self, method: str, path: str, **sent: Any) -> Response:
        """The answer, which is the same from both; and who is refused leaves nothing."""
        before = [] if method == "GET" else [each.rows() for each in self.stages]
        first, second = (each.ask(method, path, **sent) for each in self.stages)
        told = (method, path[:200], str(sent)[:300], first.text[:300], second.text[:300])
        assert first.status_code < 500, told
        assert verdict(first) == verdict(second), told
        if first.status_code >= 400:
            assert first.headers["content-type"] == "application/problem+json", told
            assert not before or [each.rows() for each in self.stages] == before, told
        return first

    def refuse(self, method: str, path: str, **sent: Any) -> None:
        """It is not taken."""
        answer = self.ask(method, path, **sent)
        assert answer.status_code >= 400, (method, path, str(sent)[:300])


def verdict(answer: Response) -> tuple[int, str | None, str | None]:
    if answer.status_code < 400:
        return answer.status_code, None, None
    problem = answer.json()
    return answer.status_code, problem.get("field"), problem["detail"]


@pytest.fixture
def both(sqlite_url: str, postgres_url: str) -> Iterator[Both]:
    with stage(sqlite_url) as small, stage(postgres_url) as large:
        yield Both(small, large)


def test_bodies_that_are_no_request_are_refused(both: Both) -> None:
    for body in BODIES.values():
        both.refuse("POST", "/v1/deliveries", content=body)
        both.refuse("POST", "/v1/deliveries/bulk?atomic=true", content=b"[%s]" % body)
        both.ask("POST", "/v1/deliveries/bulk", content=b"[%s]" % body)
        kind = {"content-type": "application/x-ndjson"}
        lines = body + b"\n{}"
        both.refuse("POST", "/v1/deliveries/bulk?atomic=true", content=lines, headers=kind)
        for path in ("/v1/schedules/explain", "/v1/endpoints", "/v1/dead-letters/retry"):
            both.refuse("POST", path, content=body)
        both.refuse("PUT", "/v1/schedules/other", content=body)
        both.refuse("PATCH", "/v1/endpoints/hook", content=body)


def test_values_of_the_wrong_kind_are_refused(both: Both) -> None:
    for field, values in TYPES.items():
        for value in values:
            both.refuse("POST", "/v1/deliveries", json=WORK | {field: value})


def test_texts_are_taken_alike_wherever_they_stand(both: Both) -> None:
    for text in TEXTS.values():
        for field in ("key", "stream"):
            both.ask("POST", "/v1/deliveries", json=WORK | {field: text})
        both.ask("POST", "/v1/deliveries", json=WORK | {"tags": [text]})
        both.refuse("POST", "/v1/deliveries", json={"target": text})
        both.ask("POST", "/v1/deliveries", json=WORK | {"payload": {text: text}})
        both.ask("POST", "/v1/keys", json={"name": text})
        both.ask("POST", "/v1/streams/line/pause", json={"reason": text})
        hook = {"name": "other", "url": "https://example.org/"}
        both.refuse("POST", "/v1/endpoints", json=hook | {"headers": {text: "x"}, "method": "GO"})
        both.refuse("POST", "/v1/endpoints", json=hook | {"secret": text})
        both.ask("PATCH", "/v1/endpoints/hook", json={"description": text})
        both.ask("PATCH", "/v1/endpoints/hook", json={"headers": {"x-a": text}})
        both.refuse("POST", "/v1/schedules/explain", json={"rule": {"cron": text}})


def test_texts_in_paths_and_queries_are_taken_alike(both: Both) -> None:
    for text in TEXTS.values():
        if len(text) > 10_000:
            continue
        name = quote(text, safe="")
        for kind in ("deliveries", "schedules", "endpoints", "streams", "keys"):
            both.ask("GET", f"/v1/{kind}/{name}")
        for kind in ("schedules", "endpoints"):
            both.ask("DELETE", f"/v1/{kind}/{name}")
        for move in ("pause", "resume"):
            for kind in ("schedules", "endpoints", "streams", "workers"):
                both.ask("POST", f"/v1/{kind}/{name}/{move}")
        both.ask("PATCH", f"/v1/streams/{name}", json={"on_failure": "release"})
        for field in ("state", "target", "stream", "schedule", "tag", "key", "reason", "text"):
            both.ask("GET", "/v1/deliveries", params={field: text})
            both.ask("GET", "/v1/dead-letters", params={field: text})
        for path in (
            "deliveries",
            "dead-letters",
            "schedules",
            "endpoints",
            "streams",
            "audit",
            "keys",
        ):
            both.ask("GET", f"/v1/{path}", params={"cursor": text})


def test_a_name_that_is_no_utf8_is_no_name(both: Both) -> None:
    for path in ("/v1/schedules/%FF", "/v1/streams/%C0%AF", "/v1/keys/%ED%A0%80"):
        both.refuse("GET", path)
        both.refuse("PATCH", path, json={"on_failure": "block"})
        both.refuse("PUT", path, json={"rule": {"every": "1h"}, "target": "work"})


def test_headers_that_say_nothing_sensible_are_refused(both: Both) -> None:
    for text in TEXTS.values():
        value = text.encode("latin-1", "replace").replace(b"\r\n", b" ").replace(b"\0", b"\x7f")
        sent = {"json": WORK, "headers": [(b"idempotency-key", value)]}
        both.ask("POST", "/v1/deliveries", **sent)
        both.ask("PATCH", "/v1/endpoints/hook", json={}, headers=[(b"if-match", value)])
        both.ask("POST", "/v1/deliveries", json=WORK, headers=[(b"content-type", value)])


def test_numbers_at_the_edges_are_refused_alike(both: Both) -> None:
    for number in NUMBERS:
        for field in ("priority", "after"):
            both.ask("POST", "/v1/deliveries", content=said(number, field, '"target": "work"'))
        for field in ("timeout", "rate", "in_flight"):
            both.ask("PATCH", "/v1/endpoints/hook", content=said(number, field))
        for field in ("window", "cap", "max_runs", "jitter", "expires_after", "priority"):
            both.ask("PATCH", "/v1/schedules/hourly", content=said(number, field))
        for field in ("base", "cap", "attempts", "jitter"):
            plan = said(number, field, '"type": "exponential"')
            both.ask("PATCH", "/v1/endpoints/hook", content=said(plan, "retry"))
        both.ask("POST", "/v1/dead-letters/retry", content=said(number, "rate", '"all": true'))
        both.ask("POST", "/v1/endpoints/hook/rotate", content=said(number, "overlap_seconds"))
        both.ask("POST", f"/v1/workers/{quote(number[:300], safe='')}/drain")
        for path in ("deliveries", "schedules/hourly/preview", "audit"):
            for field in ("limit", "n", "cursor"):
                both.ask("GET", f"/v1/{path}", params={field: number})


def said(number: str, field: str, *more: str) -> str:
    """A body with a number as it is spelled."""
    return "{" + ", ".join((f'"{field}": {number}', *more)) + "}"


def test_moments_at_the_edges_are_refused_alike(both: Both) -> None:
    for moment in MOMENTS:
        for field in ("at", "expires_at"):
            both.ask("POST", "/v1/deliveries", json=WORK | {field: moment})
        for field in ("since", "until"):
            both.ask("GET", "/v1/deliveries", params={field: moment})
            both.ask("GET", "/v1/deliveries", params={field: moment, "stream": "line"})
            both.ask("GET", "/v1/dead-letters", params={field: moment})
            both.ask("POST", "/v1/dead-letters/retry", json={"dry_run": True, field: moment})
        both.ask("GET", "/v1/dead-letters", params={"cursor": f"{moment}/{UNKNOWN}"})
        for field in ("start", "end"):
            both.ask("PATCH", "/v1/schedules/hourly", json={field: moment})
        backfill = {"start": moment, "end": "2026-07-01T00:00:00Z", "dry_run": True}
        both.ask("POST", "/v1/schedules/hourly/backfill", json=backfill)
        both.ask("POST", "/v1/endpoints/hook/recover", json={"since": moment, "dry_run": True})
        both.ask("POST", "/v1/keys", json={"name": "k", "expires_at": moment})
        for field in ("at", "anchor"):
            rule = {"every": "1h", "anchor": moment} if field == "anchor" else {"at": moment}
            both.ask("POST", "/v1/schedules/explain", json={"rule": rule})


def test_zones_and_urls_that_cannot_be_are_refused(both: Both) -> None:
    for zone in ZONES:
        both.refuse(
            "POST", "/v1/schedules/explain", json={"rule": {"cron": "0 9 * * *", "tz": zone}}
        )
    for url in URLS:
        both.refuse("POST", "/v1/deliveries", json={"target": {"url": url}})
        both.refuse("POST", "/v1/endpoints", json={"name": "other", "url": url})
        both.ask("GET", "/v1/deliveries", params={"target": url})


def test_what_another_encoding_says_is_refused(both: Both) -> None:
    body = json.dumps(WORK)
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded", "*/*", "a"):
        both.refuse("POST", "/v1/deliveries", content=body, headers={"content-type": kind})
    both.refuse("POST", "/v1/deliveries", content=body.encode("utf-16"))
    zipped = {"content-encoding": "gzip", "content-type": "application/json"}
    both.refuse("POST", "/v1/deliveries", content=b"\x1f\x8b\x08\x00", headers=zipped)


def test_the_python_face_has_the_same_verdict(both: Both) -> None:
    for text in (*TEXTS.values(), "\ud800", 1, None, b"x", [], 2**70):
        for call in CALLS:
            first, second = (attempted(each, call, text) for each in both.stages)
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


def attempted(on: Stage, call: Any, given: Any) -> tuple[str, str]:
    """What became of it: nothing but duly's own errors are raised."""
    before = on.rows()
    try:
        on.run(waited(call(on.app, given)))
    except DulyError as error:
        assert on.rows() == before, (call, given)
        return type(error).__name__, str(error)
    return "taken", ""


async def waited(call: Any) -> Any:
    return await call
