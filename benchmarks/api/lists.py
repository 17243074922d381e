"""The first page of every list of a large ledger, requested without a network."""

import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from httpx import ASGITransport, AsyncClient

import duly
from benchmarks.filling import run_sql, tidy
from benchmarks.places import folder, fresh, server
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth

TIMES = 15
WANTED_MS = 50
CHUNK = 250_000
POSTGRES = """
with made as (
    insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload,
        state, key, stream, lane, position, tags, reason, error, fingerprint, dead_at, attempt)
    select ('0190' || lpad(to_hex(n), 12, '0') || substr(md5(n::text), 1, 16))::uuid, $3, 5,
           'default', now(), now(), convert_to('{"n":' || n || '}', 'UTF8'),
           case when n % 100 = 7 then 'dead' when n % 20 = 0 then 'pending' else 'completed' end,
           case when n % 10 = 1 then 'k' || n end,
           case when n % 10 = 2 then 's' || n % 1000 end,
           case when n % 10 = 2 then (select lane from duly.streams
                                      where namespace = 'default' and name = 's' || n % 1000) end,
           case when n % 10 = 2 then n end,
           case when n % 10 = 3 then '["red"]'::jsonb end,
           case when n % 100 = 7 then 'dependency_failure' end,
           case when n % 100 = 7 then 'it answered 500' end,
           case when n % 100 = 7 then md5((n % 5)::text) end,
           case when n % 100 = 7 then now() - n * interval '1 millisecond' end, 1
    from generate_series($1::bigint, $2::bigint) n
    returning id, target, priority, due_at, state
)
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from made where state = 'pending'
"""
POSTGRES_STREAMS = """
insert into duly.streams (namespace, name, counter, used_at)
select 'default', 's' || n, 1, now() from generate_series(0, 999) n
"""
SQLITE = """
insert into duly_deliveries (id, target, priority, namespace, due_at, accepted_at, payload,
    state, key, stream, lane, position, tags, reason, error, fingerprint, dead_at, attempt)
with recursive n(n) as (select ?1 union all select n + 1 from n where n < ?2)
select printf('0190%04x-%04x-%04x-8000-%012x', n >> 32, n >> 16 & 65535, n & 65535, n), ?3, 5,
       'default', ?4, ?4, cast('{"n":' || n || '}' as blob),
       case when n % 100 = 7 then 'dead' when n % 20 = 0 then 'pending' else 'completed' end,
       case when n % 10 = 1 then 'k' || n end,
       case when n % 10 = 2 then 's' || n % 1000 end,
       case when n % 10 = 2 then -1 - n % 1000 end,
       case when n % 10 = 2 then n end,
       case when n % 10 = 3 then '["red"]' end,
       case when n % 100 = 7 then 'dependency_failure' end,
       case when n % 100 = 7 then 'it answered 500' end,
       case when n % 100 = 7 then 'f' || n % 5 end,
       case when n % 100 = 7 then ?4 - n * 1000 end, 1
from n
"""
SQLITE_STREAMS = """
insert into duly_streams (lane, namespace, name, counter, used_at)
with recursive n(n) as (select 0 union all select n + 1 from n where n < 999)
select -1 - n, 'default', 's' || n, 1, ?1 from n
"""
PAGES = (
    *("deliveries", "deliveries?state=pending", "deliveries?state=processing"),
    *("deliveries?state=dead", "deliveries?state=completed", "deliveries?state=cancelled"),
    *("deliveries?target=noop", "deliveries?target=nobody", "deliveries?tag=red"),
    *("deliveries?tag=none", "deliveries?text=none", "deliveries?reason=poison_message"),
    *("deliveries?since=2020-01-01T00:00:00Z", "deliveries?until=2020-01-01T00:00:00Z"),
    *("deliveries?stream=s2", "deliveries?stream=s2&state=dead", "deliveries?schedule=none"),
    *("deliveries?key=k1", "dead-letters", "dead-letters?reason=dependency_failure"),
    *("dead-letters?reason=none", "dead-letters?tag=none", "dead-letters?text=none"),
    *("dead-letters/groups", "streams", "streams?state=blocked", "streams/s2"),
    *("dead-letters/groups?reason=dependency_failure", "dead-letters/groups?tag=none"),
    *("schedules", "endpoints", "audit", "workers", "keys", "alerts"),
    *("stats", "stats/series", "stats/failures", "stats/top"),
)
WANTED_OF_STATS_MS = 20


async def lists(kind: str, rows: int) -> None:
    """Print how long each page takes on one store, the slowest first."""
    with server() as postgres, folder() as place:
        async with duly.App(await fresh(kind, postgres, place), environment={}) as app:
            await fill_ledger(app, rows)
            transport = ASGITransport(site(app, ProcessHealth(app, app.engine())))
            async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                took = {
                    page: [await _request(client, page) for _ in range(TIMES)] for page in PAGES
                }
            # An empty namespace in the same store.
            empty = app.within("empty")
            took["deliveries of an empty namespace"] = [
                await _timed(empty.page()) for _ in range(TIMES)
            ]
    for page, times in sorted(took.items(), key=lambda each: -median(each[1])):
        wanted = WANTED_OF_STATS_MS if page.startswith("stats") else WANTED_MS
        slow = "  SLOW" if median(times) * 1000 > wanted else ""
        print(
            f"{kind}: {page}: {median(times) * 1000:.1f} ms, first {times[0] * 1000:.1f} ms{slow}"
        )
    print(
        f"{kind}: {rows:,} deliveries; wanted of every page: {WANTED_MS} ms, "
        f"of stats {WANTED_OF_STATS_MS} ms",
        flush=True,
    )


async def _request(client: AsyncClient, page: str) -> float:
    call = client.get(f"/v1/{page}")
    return await _timed(call, lambda answer: answer.status_code == 200)


async def _timed(call: Awaitable[Any], check: Callable[[Any], bool] = bool) -> float:
    begun = time.perf_counter()
    found = await call
    assert check(found), found
    return time.perf_counter() - begun


async def fill_ledger(app: duly.App, rows: int) -> None:
    """Fill the ledger with every kind of delivery."""
    app.expect("noop")
    number = (await app.store.targets.numbers(["noop"], create=True))["noop"]
    database = app.store.database  # type: ignore[attr-defined]
    now = round(app.clock.now().timestamp() * 1_000_000)
    await run_sql(database, (POSTGRES_STREAMS, ()), (SQLITE_STREAMS, (now,)))
    for first in range(1, rows + 1, CHUNK):
        last = min(rows, first + CHUNK - 1)
        await run_sql(
            database, (POSTGRES, (first, last, number)), (SQLITE, (first, last, number, now))
        )
    await tidy(database)
