"""Filling a store with waiting deliveries faster than through the front door."""

import duly
from duly.stores.postgres import Postgres
from duly.stores.sqlite import Sqlite

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
CHUNK = 100_000


async def fill(app: duly.App, target: str, count: int, seconds_ahead: float = 0.0) -> None:
    """Put that many deliveries on the books, due that far ahead."""
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
    if isinstance(database, Postgres):
        async with database.shared() as connection:
            await connection.execute("vacuum analyze duly.deliveries", timeout=600)
            await connection.execute("vacuum analyze duly.agenda", timeout=600)


async def _fill_sqlite(
    app: duly.App, database: Sqlite, size: int, target: int, ahead: float
) -> None:
    due = round((app.clock.now().timestamp() + ahead) * 1_000_000)
    await database.write(
        lambda connection: connection.execute(SQLITE, (size, target, due)).fetchall()
    )
