"""Filling a store with waiting deliveries, alone or in streams, with plain SQL."""

import duly
from duly.stores.database import Database
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite

POSTGRES = """
with made as (
    insert into duly.deliveries
        (id, target, priority, namespace, due_at, accepted_at, payload)
    select ('0190' || lpad(to_hex($4 + n), 12, '0') || substr(md5(n::text), 1, 16))::uuid,
           $2, 5, 'default', now() + $3 * interval '1 second', now(), '{"n":1}'
    from generate_series(1, $1) n
    returning id, target, priority, due_at
)
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from made
"""
SQLITE = """
insert into duly_deliveries
    (id, target, priority, namespace, due_at, accepted_at, payload)
with recursive n(n) as (select 1 union all select n + 1 from n where n < ?1)
select lower(hex(randomblob(16))), ?2, 5, 'default', ?3, ?3, cast('{"n":1}' as blob) from n
"""
POSTGRES_STREAMS = """
with stream as (
    insert into duly.streams (namespace, name, counter, used_at)
    select 'default', 's' || n, $4, now() from generate_series($2 + 1, $2 + $3) n
    returning lane, name
), made as (
    insert into duly.deliveries
        (id, target, priority, namespace, due_at, accepted_at, payload, stream, lane, position)
    select gen_random_uuid(), $1, 5, 'default', now() - interval '10 seconds', now(), '{"n":1}',
           name, lane, place
    from stream cross join generate_series(1, $4) place
    returning id, lane, position, due_at
)
insert into duly.agenda (lane, delivery, target, priority, due_at, position)
select lane, id, $1, 5, due_at, position from made where position = 1
"""
SQLITE_STREAMS = (
    """
insert into duly_streams (lane, namespace, name, counter, used_at)
with recursive n(n) as (select ?2 + 1 union all select n + 1 from n where n < ?2 + ?3)
select -n, 'default', 's' || n, ?4, ?5 from n
""",
    """
insert into duly_deliveries
    (id, target, priority, namespace, due_at, accepted_at, payload, stream, lane, position)
with recursive n(n) as (select ?2 + 1 union all select n + 1 from n where n < ?2 + ?3),
    place(place) as (select 1 union all select place + 1 from place where place < ?4)
select lower(hex(randomblob(16))), ?1, 5, 'default', ?5, ?5, cast('{"n":1}' as blob), 's' || n,
       -n, place
from n cross join place
""",
    """
insert into duly_agenda (lane, delivery, target, priority, due_at, position)
select d.lane, d.number, ?1, 5, ?5, 1 from duly_deliveries d
where d.position = 1 and d.lane >= -(?2 + ?3) and d.lane < -?2 and ?4
on conflict do update set delivery = excluded.delivery, position = 1
""",
)
CHUNK = 100_000


async def fill(app: duly.App, target: str, count: int, seconds_ahead: float = 0.0) -> None:
    """Store this many deliveries, due after this many seconds."""
    app.expect(target)
    number = (await app.store.targets.numbers([target], create=True))[target]
    database = app.store.database  # type: ignore[attr-defined]
    for done in range(0, count, CHUNK):
        size = min(CHUNK, count - done)
        if isinstance(database, Postgres):
            async with database.shared() as connection:
                first = await connection.fetchval("select count(*) from duly.agenda")
                await connection.execute(POSTGRES, size, number, seconds_ahead, first, timeout=300)
        else:
            await _fill_sqlite(app, database, size, number, seconds_ahead)
    await tidy(database)


async def fill_streams(app: duly.App, target: str, streams: int, each: int) -> None:
    """Store this many streams, each with this many deliveries, due ten seconds ago."""
    app.expect(target)
    number = (await app.store.targets.numbers([target], create=True))[target]
    database = app.store.database  # type: ignore[attr-defined]
    chunk = max(1, CHUNK // each)
    for done in range(0, streams, chunk):
        size = min(chunk, streams - done)
        if isinstance(database, Postgres):
            async with database.shared() as connection:
                await connection.execute(POSTGRES_STREAMS, number, done, size, each, timeout=300)
        else:
            due = round((app.clock.now().timestamp() - 10) * 1_000_000)
            for sql in SQLITE_STREAMS:
                await _write(database, sql, (number, done, size, each, due))
    await tidy(database)


Filling = tuple[str, tuple[int, ...]]
"""A statement and its parameters."""


async def run_sql(database: Database, postgres: Filling, sqlite: Filling) -> None:
    """Run the statement of this store."""
    if isinstance(database, Postgres):
        async with database.shared() as connection:
            await connection.execute(postgres[0], *postgres[1], timeout=300)
    else:
        await _write(database, *sqlite)


async def tidy(database: Database) -> None:
    """Vacuum now, so that the server does not do it during the measurement."""
    if isinstance(database, Postgres):
        async with database.shared() as connection:
            for table in ("deliveries", "agenda", "streams"):
                await connection.execute(f"vacuum analyze duly.{table}", timeout=600)


async def _fill_sqlite(
    app: duly.App, database: Sqlite, size: int, target: int, ahead: float
) -> None:
    due = round((app.clock.now().timestamp() + ahead) * 1_000_000)
    await _write(database, SQLITE, (size, target, due))


async def _write(database: Sqlite, sql: str, given: tuple[int, ...]) -> None:
    await database.write(lambda connection: connection.execute(sql, given).fetchall())
