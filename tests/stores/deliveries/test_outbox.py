"""`select duly.deliver(...)`: delivering from any language, by the rules of App.deliver."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

import duly
from duly import App
from duly.records.delivery import Delivery
from duly.safe_text import shown_url
from tests.services.conftest import record_payloads

pytestmark = pytest.mark.requirement("F10")
Connection = Any
HOOK = 'https://Example.org:443/in?a=1&b="\\'

GRANTS = (
    "usage on schema duly",
    "select, insert on duly.deliveries, duly.agenda, duly.targets",
    "select, insert, update on duly.streams",
    "select on duly.endpoints",
)
"""The grants in docs/outbox.md."""
FOR_UNIQUE_KEYS = (
    "select, insert, update on duly.unique_keys",
    "update on duly.deliveries, duly.agenda",
    "select, delete on duly.steps",
    "insert on duly.attempts",
)


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[App]:
    async with App(postgres_url, environment={}) as found:
        record_payloads(found)
        await found.deliver("work", "first")
        await found.endpoints.add("billing", "https://example.org/billing")
        yield found


@pytest.fixture
async def connection(app: App, postgres_url: str) -> AsyncIterator[Connection]:
    """A client that uses only SQL."""
    found = await asyncpg.connect(postgres_url)
    yield found
    await found.close()


async def delivered(app: App, connection: Connection, arguments: str) -> Delivery:
    id = await connection.fetchval(f"select duly.deliver({arguments})")
    return await app.get(str(id))


async def test_only_the_target_is_required(app: App, connection: Connection) -> None:
    before = datetime.now(UTC)
    delivery = await delivered(app, connection, "'work'")
    assert (delivery.state, delivery.target, bytes(delivery.payload_json)) == (
        "pending",
        "work",
        b"null",
    )
    assert (delivery.priority, delivery.tags, delivery.stream, delivery.key) == (5, [], None, None)
    assert before - timedelta(seconds=5) < delivery.due_at == delivery.accepted_at
    made = uuid.UUID(delivery.id)
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert abs((made.int >> 80) / 1000 - before.timestamp()) < 60
    assert (await app.list())[0].id == delivery.id


async def test_every_argument_is_stored(app: App, connection: Connection) -> None:
    delivery = await delivered(
        app,
        connection,
        "'work', '{\"b\": [1, \"ø\"]}', at => '2030-01-02 03:04Z', key => 'k', priority => 9, "
        "expires_at => '2030-02-01Z', tags => array['b', 'a', 'b'], stream => 's', "
        "on_failure => 'release'",
    )
    assert bytes(delivery.payload_json) == '{"b": [1, "ø"]}'.encode()
    assert delivery.due_at == datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    assert delivery.expires_at == datetime(2030, 2, 1, tzinfo=UTC)
    assert (delivery.key, delivery.priority, delivery.tags) == ("k", 9, ["b", "a"])
    assert (delivery.stream, delivery.position) == ("s", 1)
    later = await delivered(app, connection, "'work', after => interval '1 month'")
    assert timedelta(days=28) <= later.due_at - later.accepted_at <= timedelta(days=32)


async def test_namespaces_are_separate(app: App, connection: Connection, postgres_url: str) -> None:
    async with App(postgres_url, environment={}, namespace="other") as other:
        record_payloads(other)
        await other.deliver("work", after=3600)
        id = await connection.fetchval("select duly.deliver('work', namespace => 'other')")
        assert (await other.get(str(id))).namespace == "other"
    with pytest.raises(duly.NotFound):
        await app.get(str(id))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (HOOK, "https://example.org"),
        ("http://EXAMPLE.org:8080", "http://example.org:8080"),
        ("HTTP://example.org:80/x", "http://example.org"),
        ("https://[2606:4700::1111]:443/x", "https://[2606:4700::1111]"),
        ("https://example.org?q", "https://example.org"),
    ],
)
async def test_a_url_is_the_same_target_as_in_python(
    app: App, connection: Connection, url: str, origin: str
) -> None:
    first = await app.deliver(duly.webhook(url), {"a": 1}, key="k", after=60)
    id = await connection.fetchval("select duly.deliver($1, '{}')", url)
    delivery = await app.get(str(id))
    assert (delivery.target, delivery.url) == (origin, shown_url(url))
    rows = await connection.fetch("select distinct target, address from duly.deliveries")
    assert len(rows) == 2  # one of the fixture, and one for both of these
    assert (await app.get(first.id)).target == origin


async def test_an_endpoint_is_addressed_by_its_name(app: App, connection: Connection) -> None:
    delivery = await delivered(app, connection, "'endpoint:billing', '1'")
    assert delivery.target == "endpoint:billing"


async def test_the_same_key_is_the_same_delivery(app: App, connection: Connection) -> None:
    first = await delivered(app, connection, "'work', '{\"a\": 1}', key => 'k'")
    second = await delivered(app, connection, "'work', '{\"a\":1}', key => 'k'")
    assert second.id == first.id
    with pytest.raises(asyncpg.UniqueViolationError, match=first.id) as caught:
        await connection.fetch("select duly.deliver('work', '2', key => 'k')")
    assert caught.value.hint == "Take another key."


NAME = "at most 200"
BAD = {
    "'nowhere'": ("target: no handler 'nowhere' is known", "Known are: work."),
    "'endpoint:none'": ("target: no endpoint 'none'", "duly endpoints list"),
    "''": ("target: '' is not a name", "a URL"),
    "null": ("target: NULL is not a name", "a URL"),
    "'a b'": ("target: 'a b' is not a name", "a URL"),
    "'https://'": ("target: the URL names no host", "Give a name or an address"),
    "'https:/x'": ("target: the URL cannot be read", "Give http://"),
    "'https://a/#b'": ("target: the URL cannot be read", "no fragment"),
    "'https://a/ b'": ("target: it has characters that must be escaped", "Escape"),
    "'https://a/ø'": ("target: it has characters that must be escaped", "Escape"),
    "'https://u:p@a/'": ("target: the URL carries a user or a password", "endpoint"),
    "'https://a:0/'": ("target: the URL names no host", "a port from 1 to 65535"),
    "'https://a:65536/'": ("target: the URL names no host", "a port from 1 to 65535"),
    "'https://a:x/'": ("target: the URL names no host", "a port from 1 to 65535"),
    "'https://a%2f/'": ("target: the URL names no host", "Give a name or an address"),
    "'https://a/' || repeat('x', 2000)": ("target: 2010 characters are too long", "at most 2000"),
    "'work', to_jsonb(repeat('x', 262143))": ("payload: 262145 bytes are more", "a reference"),
    "'work', (repeat('[', 65) || repeat(']', 65))::jsonb": ("payload: it is nested deeper", "flat"),
    "'work', at => '1969-12-31Z'": ("at: 1969-12-31 .* is not between 1970 and 9000", "in between"),
    "'work', at => 'infinity'": ("at: infinity is not between", "in between"),
    "'work', at => now(), after => '1 s'": ("at: both at and after are given", "one of them"),
    "'work', after => '-1 s'": ("after: -00:00:01 is not from 0", "interval '5 minutes'"),
    "'work', after => '101 years'": ("after: 101 years is not from 0", "interval '5 minutes'"),
    "'work', key => ''": ("key: it has 0 bytes", "1 to 255"),
    "'work', key => repeat('ø', 128)": ("key: it has 256 bytes", "1 to 255"),
    "'work', key => E'a\\nb'": ("key: it holds characters that cannot be printed", "Remove"),
    "'work', stream => 'duly:schedule:x'": ("stream: names that begin with duly:schedule:", "Take"),
    "'work', key => E'a\\u2028b'": ("key: it holds characters that cannot be printed", "Remove"),
    "'work', priority => 0": ("priority: 0 is not from 1 to 9", "9 goes first"),
    "'work', priority => 10": ("priority: 10 is not from 1 to 9", "9 goes first"),
    "'work', priority => null": ("priority: null is not from 1 to 9", "9 goes first"),
    "'work', expires_at => '9000-01-01Z'": ("expires_at: 9000-01-01 .* is not between", "in betw"),
    "'work', tags => array['']": ("tags: it has 0 bytes", "1 to 100"),
    "'work', tags => array[null]": ("tags: it has 0 bytes", "1 to 100"),
    "'work', tags => array(select n::text from generate_series(1, 21) n)": ("tags: 21 ", "fewer"),
    "'work', stream => ''": ("stream: it has 0 bytes", "1 to 255"),
    "'work', on_failure => 'block'": ("on_failure: only a delivery in a stream", "a stream too"),
    "'work', stream => 's', on_failure => 'x'": ("on_failure: 'x' is no policy", "block or r"),
    "'work', namespace => 'a b'": ("namespace: 'a b' is not a name", NAME),
    "'work', namespace => null": ("namespace: NULL is not a name", NAME),
    "'work', namespace => 'empty'": ("target: no handler 'work' is known", "Known are: none."),
}


async def error_of(connection: Connection, arguments: str) -> asyncpg.PostgresError:
    try:
        await connection.fetch(f"select duly.deliver({arguments})")
    except asyncpg.PostgresError as error:
        return error
    raise AssertionError(f"{arguments} was accepted")


async def test_bad_input_names_the_problem_and_a_hint(app: App, connection: Connection) -> None:
    await connection.execute("set timezone = 'UTC'; set datestyle = 'ISO'")
    for arguments, (problem, hint) in BAD.items():
        found = await error_of(connection, arguments)
        assert re.match(problem, str(found)), (arguments, str(found))
        assert hint in str(found.hint), arguments
    assert len(await app.list()) == 1
    assert await connection.fetchval("select count(*) from duly.targets") == 2


async def test_the_deepest_and_largest_allowed_payloads_are_accepted(
    app: App, connection: Connection
) -> None:
    for payload in (
        "(repeat('[', 64) || repeat(']', 64))::jsonb",
        "to_jsonb(repeat('[', 1000) || '\"' || repeat('{', 1000))",
        "(select jsonb_agg('[{}]'::jsonb) from generate_series(1, 100))",
        "to_jsonb(repeat('x', 262142))",
    ):
        await delivered(app, connection, f"'work', {payload}")


async def test_notifications_are_sent_on_commit_and_only_for_deliveries_due_soon(
    app: App, connection: Connection, postgres_url: str
) -> None:
    notified: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(postgres_url)
    await listener.add_listener("duly", lambda *arguments: notified.put_nowait(arguments[3]))
    async with connection.transaction():
        await connection.execute("select duly.deliver('work'), duly.deliver('work')")
        await listener.execute("select 1")
        assert notified.empty()
    assert await asyncio.wait_for(notified.get(), 20) == "default"
    await connection.execute("select duly.deliver('work', after => '2 minutes')")
    await connection.execute("set duly.notify = 'off'; select duly.deliver('work')")
    await connection.execute("select pg_notify('duly', 'last')")
    assert await asyncio.wait_for(notified.get(), 20) == "last"
    await listener.close()


async def test_a_trigger_can_deliver(app: App, connection: Connection) -> None:
    await connection.execute(
        """
        create table orders (number integer primary key);
        create function announce() returns trigger language plpgsql as $$
        begin
            perform duly.deliver('work', to_jsonb(new), key => 'order:' || new.number);
            return new;
        end $$;
        create trigger announced after insert on orders for each row execute function announce();
        insert into orders select generate_series(1, 3);
        """
    )
    assert {each.key for each in await app.list()} == {None, "order:1", "order:2", "order:3"}


async def test_a_role_needs_no_more_than_these_grants(app: App, connection: Connection) -> None:
    role = f"duly_{uuid.uuid4().hex}"
    await connection.execute(f"create role {role}")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"set role {role}; select duly.deliver('work')")
        await connection.execute("reset role")
        for grant in GRANTS:
            await connection.execute(f"grant {grant} to {role}")
        await connection.execute(f"set role {role}")
        await connection.execute("select duly.deliver('work', '1', key => 'k', stream => 's')")
        await connection.execute("select duly.deliver('https://new.example/', '1')")
        await connection.execute("select duly.deliver('endpoint:billing', '1')")
        await connection.execute("reset role")
        for grant in FOR_UNIQUE_KEYS:
            await connection.execute(f"grant {grant} to {role}")
        await connection.execute(f"set role {role}")
        for policy in ("keep", "keep", "replace", "postpone"):
            how = {"key": "u", "unique": "pending", "on_duplicate": policy}
            await app.deliver("work", policy, connection=connection, **how)  # type: ignore[arg-type]
        await connection.execute("reset role")
    finally:
        await connection.execute(f"reset role; drop owned by {role}; drop role {role}")
    assert len(await app.list()) == 5


async def test_concurrent_transactions_agree_on_a_key_and_a_new_host(
    app: App, connection: Connection, postgres_url: str
) -> None:
    other = await asyncpg.connect(postgres_url)
    sql = "select duly.deliver('https://new.example/', '1', key => 'k', stream => 's')"
    transaction = connection.transaction()
    await transaction.start()
    first = await connection.fetchval(sql)
    waiting = asyncio.create_task(other.fetchval(sql))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    await transaction.commit()
    assert await asyncio.wait_for(waiting, 20) == first
    await other.close()
    (stream,) = await app.streams.list()
    assert stream.name == "s"
