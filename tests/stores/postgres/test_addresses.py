"""PostgreSQL URLs: each parameter is used, ignored with a reason, or refused.

A tiny server answers the startup like poolers and hosts do, so that none of them is needed here.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
import pytest

from duly.domain.database_urls import PARAMETERS
from duly.errors import BadSetting, StoreUnavailable
from duly.stores.postgres.address import (
    DRIVERS,
    IGNORED,
    OURS,
    REFUSED,
    SERVERS,
    ignored_parameters,
    place,
)
from duly.stores.postgres.connections import BASE, CONNECT_SECONDS, Source
from duly.stores.postgres.database import from_place
from duly.stores.store import SqlStore, store_at
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("S1")
CERTIFICATE = Path(__file__).parents[2] / "data" / "self_signed.pem"
SSL_REQUEST = 80877103


def store(url: str) -> SqlStore:
    return store_at(url, namespace="default", clock=VirtualClock())


class Pooler:
    """Refuses every startup after the first `accepted`, over TLS if requested.

    The default error is an unsupported parameter.
    """

    def __init__(self, refused: str = "jit", *, code: str = "08P01", accepted: int = 0) -> None:
        self.refused = refused
        self.code = code
        self.accepted = accepted
        self.parameters: dict[str, str] = {}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"me@localhost:{server.sockets[0].getsockname()[1]}/name"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(size - 4)
            if struct.unpack("!i", body[:4]) == (SSL_REQUEST,):
                writer.write(b"S")
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(CERTIFICATE)
                await writer.start_tls(context)
                (size,) = struct.unpack("!i", await reader.readexactly(4))
                body = await reader.readexactly(size - 4)
            words = body[4:].decode().split("\0")
            self.parameters = dict(zip(words[:-2:2], words[1:-2:2], strict=True))
            if self.accepted:
                self.accepted -= 1
                version = _message(b"S", b"server_version\x0016.0\0")
                writer.write(_message(b"R", bytes(4)) + version + _message(b"Z", b"I"))
                await reader.read()
            unsupported = f"unsupported startup parameter: {self.refused}"
            message = unsupported if self.code == "08P01" else "refused"
            writer.write(_message(b"E", f"SFATAL\0VFATAL\0C{self.code}\0M{message}\0\0".encode()))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client rejected the certificate
        finally:
            writer.close()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


async def refused(url: str) -> Exception:
    """The error of opening the store at a URL."""
    found = store(url)
    try:
        with pytest.raises((BadSetting, StoreUnavailable)) as raised:
            await found.open()
    finally:
        await found.close()
    return raised.value


def test_each_known_parameter_has_one_meaning() -> None:
    kinds = (DRIVERS, SERVERS, OURS, frozenset(IGNORED), frozenset(REFUSED))
    assert sorted(name for kind in kinds for name in kind) == sorted(PARAMETERS)


async def test_every_bad_parameter_is_a_clear_error() -> None:
    for name in sorted(PARAMETERS | {"frobnicate", "search_path"}):
        await _is_clear(name)


async def _is_clear(name: str) -> None:
    """With a value that may be invalid; only parameters for the server reach it."""
    given = {name: "prefer", "connect_timeout": "60"}  # a slow machine must not time out
    pooler = Pooler()
    async with pooler.listening() as where:
        url = f"postgresql://{where}?{urlencode(given)}"
        try:
            error = await refused(url)
        except BadSetting as raised:
            error = raised
    assert "jit" in str(error) or name in str(error), (name, error)
    assert pooler.parameters.keys() <= {
        *("user", "database", "client_encoding", "application_name", "options"),
        *("default_transaction_isolation", "jit"),
    }, name


@pytest.mark.parametrize(
    ("parameter", "named"),
    [
        ("frobnicate=1", "frobnicate"),
        ("search_path=mine", "options"),
        ("hostaddr=127.0.0.1", "hostaddr"),
        ("gssencmode=require", "gssencmode"),
        ("require_auth=scram-sha-256", "require_auth"),
        ("connect_timeout=soon", "connect_timeout"),
        ("connect_timeout=601", "600"),
        ("pgbouncer=maybe", "pgbouncer"),
        ("channel_binding=require&sslmode=disable", "sslmode=disable"),
        ("channel_binding=always", "channel_binding"),
        ("sslmode=verify-full&sslrootcert=/none/such.pem", "/none/such.pem"),
    ],
)
def test_an_unsupported_parameter_is_named(parameter: str, named: str) -> None:
    with pytest.raises(BadSetting, match=named) as raised:
        store(f"postgresql://me:hush@host/name?{parameter}")
    assert raised.value.field == "database"
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@host:hush/name",
        "postgresql://me:hush@host:99999/name",
        "postgresql://me:hush@[::1/name",
        "postgresql://me:hush@a,,hush/name",
        "postgresql://hush/a@b",
        "host=here password=hush",
        "//me:hush@host/name",
        "mysql://me:hush@host/name",
        "psql 'postgresql://me:hush@host/name'",
    ],
)
def test_an_invalid_url_is_an_error_without_its_secrets(url: str) -> None:
    with pytest.raises(BadSetting) as raised:
        store(url)
    assert raised.value.field == "database"
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@db.internal/duly?aplication_name=me@corp.example",
        "postgresql://me:hush@db.internal?aplication_name=me@corp.example",
        "postgresql://me@db.internal/duly?aplication_name=hush@corp.example",
        "postgresql://db.internal:5432/duly?aplication_name=hush@corp.example",
    ],
)
def test_a_mistyped_parameter_with_an_at_sign_does_not_change_the_host(url: str) -> None:
    with pytest.raises(BadSetting, match=r"%40 .* %3F") as raised:
        store(url)
    assert raised.value.field == "database"
    assert "hush" not in str(raised.value)
    escaped = place("postgresql://me:a%40b%2Fc%3Fd=e@host/name").dsn
    assert escaped == "postgresql://me:a%40b%2Fc%3Fd%3De@host/name"


def test_parameters_are_used_as_documented() -> None:
    found = place(
        "postgres://me:p/w@host/name?connect_timeout=7&application_name=mine&pgbouncer=true"
        "&options=-c%20geqo%3Doff&ssl=true&keepalives=1&keepalives_idle=30&schema=public"
        "&target_session_attrs=read-write&channel_binding=prefer&gssencmode=disable"
    )
    assert found.dsn == (
        "postgresql://me:p%2Fw@host/name?target_session_attrs=read-write&sslmode=require"
    )
    assert found.settings == {"application_name": "mine", "options": "-c geqo=off"}
    assert (found.connect_seconds, found.pooler, found.verified) == (7.0, True, None)
    assert sorted(found.ignored) == ["keepalives", "keepalives_idle", "schema"]
    assert "p/w" not in repr(found)
    assert "p%2Fw" not in repr(found)
    assert ignored_parameters("sqlite:///a?schema=b") == {}
    assert place("postgresql://h/n?fallback_application_name=x").settings == {
        "application_name": "x"
    }
    assert place("postgresql://h/n?connect_timeout=0").connect_seconds is None


@pytest.mark.parametrize(
    ("parameters", "timeout", "cached"),
    [
        ("", CONNECT_SECONDS, 200),
        ("?connect_timeout=7", 7, 200),
        ("?pgbouncer=true", CONNECT_SECONDS, 0),
    ],
)
async def test_the_driver_gets_the_parameters(
    monkeypatch: pytest.MonkeyPatch, parameters: str, timeout: float, cached: int
) -> None:
    given: dict[str, Any] = {}

    async def connect(_dsn: str, **options: Any) -> None:
        given.update(options)

    monkeypatch.setattr(asyncpg, "connect", connect)
    found = place(f"postgresql://host/name{parameters}")
    await from_place(found, pooler=found.pooler)[0]()
    assert (given["timeout"], given["statement_cache_size"]) == (timeout, cached)


@pytest.mark.parametrize(
    "url", ["postgres://{}", "postgresql+asyncpg://{}", "postgresql+psycopg://{}", " {full}\n"]
)
async def test_common_schemes_are_accepted(postgres_url: str, url: str) -> None:
    rest = postgres_url.partition("://")[2]
    found = store(url.format(rest, full=postgres_url))
    try:
        await found.open()
    finally:
        await found.close()


async def test_an_option_unknown_to_the_server_is_an_error_without_a_traceback(
    postgres_url: str,
) -> None:
    mark = "&" if "?" in postgres_url else "?"
    error = await refused(f"{postgres_url}{mark}options=-c%20frobnicate%3D1")
    assert isinstance(error, BadSetting)
    assert "frobnicate" in error.problem


async def test_a_refused_startup_parameter_names_the_setting() -> None:
    pooler = Pooler("default_transaction_isolation")
    async with pooler.listening() as where:
        error = await refused(f"postgresql://{where}")
        assert isinstance(error, BadSetting)
        assert error.field == "pooler"
        for word in ("DULY_POOLER=true", "ignore_startup_parameters", pooler.refused):
            assert word in error.problem
        assert pooler.refused in pooler.parameters
        second = await refused(f"postgresql://{where}?pgbouncer=true&options=-cgeqo%3Doff")
    assert "remove it from the address" in str(second)
    assert pooler.parameters.keys() == {"user", "database", "client_encoding", "options"}


@pytest.mark.parametrize("code", ["22023", "42704", "42602", "42601", "55P02"])
async def test_a_refusal_caused_by_the_url_names_the_setting(code: str) -> None:
    async with Pooler(code=code).listening() as where:
        error = await refused(f"postgresql://{where}")
    assert isinstance(error, BadSetting)
    assert error.field == "database"


@pytest.mark.parametrize("code", ["55000", "XX000", "58000", "28P01", "3D000", "0A000", "57P03"])
async def test_any_other_refusal_means_that_the_store_is_unavailable(code: str) -> None:
    """For example when a database accepts no connections for a while, or a pooler has a fault."""
    async with Pooler(code=code).listening() as where:
        assert isinstance(await refused(f"postgresql://{where}"), StoreUnavailable)


@pytest.mark.parametrize("code", ["08P01", "22023", "42704", "55000", "XX000"])
async def test_after_the_first_connection_no_refusal_blames_the_url(code: str) -> None:
    async with Pooler(code=code, accepted=1).listening() as where:
        connect, discard = from_place(place(f"postgresql://{where}"), pooler=False)
        source = Source(connect, discard, counts_slots=False)
        await source.drop(await source.open(BASE))
        with pytest.raises(StoreUnavailable):
            await source.open(BASE)


async def test_channel_binding_requires_a_certificate_that_can_be_verified() -> None:
    """The URL of a host that hands out `channel_binding=require` works, and is verified."""
    pooler = Pooler("jit")
    async with pooler.listening() as where:
        url = f"postgresql://{where}?sslmode=require"
        assert "startup parameter jit" in str(await refused(url))
        bound = await refused(f"{url}&channel_binding=require")
        assert isinstance(bound, StoreUnavailable)
        assert "cannot be verified" in str(bound)
        assert "sslrootcert" in str(bound)
        assert "cannot be verified" in str(await refused(f"{url}&sslrootcert=system"))
        missing = await refused(f"{url}&channel_binding=require&sslrootcert={__file__}")
        assert isinstance(missing, BadSetting)
        known = f"{url}&channel_binding=require&sslrootcert={CERTIFICATE}"
        assert "startup parameter jit" in str(await refused(known))
