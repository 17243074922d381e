"""How connections to PostgreSQL are opened, set up and closed, and which errors mean it is away."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import msgspec

from duly.errors import BadSetting, StoreUnavailable

Connection = Any  # asyncpg's connection, or a pool's stand-in for one
Connect = Callable[[], Awaitable[Connection]]
Discard = Callable[[Connection], Awaitable[None]]

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
SPARE_SLOTS = 8
"""Connections beyond the necessary leave this many of the server's slots free, so that another
process finds enough to start with."""
FREE_SLOTS = """
select current_setting('max_connections')::integer
     - current_setting('superuser_reserved_connections')::integer
     - coalesce(nullif(current_setting('reserved_connections', true), '')::integer, 0)
     - (select count(*) from pg_stat_get_activity(null) where datid is not null)::integer
"""

AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.InternalClientError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
)
OF_THE_ADDRESS = (
    asyncpg.DataError,
    asyncpg.SyntaxOrAccessError,
    asyncpg.CantChangeRuntimeParamError,
)
"""What a parameter in the address can cause at the start of a connection, unless it is in AWAY."""
REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (
        asyncpg.ReadOnlySQLTransactionError,
        "this server is a replica or read-only: name the primary, or several hosts with "
        "target_session_attrs=read-write in the address",
    ),
    (
        asyncpg.InsufficientPrivilegeError,
        "the role may use only what it owns or was granted: let it own the schema, with "
        "`create schema duly authorization ROLE`, or grant it create on the database",
    ),
)
UNSUPPORTED = "unsupported startup parameter"


class NoSlot(StoreUnavailable):
    """The server, or the caller's pool, has no connection left for this process."""


@contextmanager
def clear_errors(source: object = None) -> Iterator[None]:
    """Tell a database that is away, and which one, from a fault of ours."""
    try:
        yield
    except AWAY as error:
        raise away(error, source) from error
    except StoreUnavailable as error:
        error.source = error.source or source
        raise


def away(error: BaseException, source: object) -> StoreUnavailable:
    """What a driver's error means when it says that the database cannot be used."""
    reason = str(error) or type(error).__name__
    remedy = next((f"; {text}" for kind, text in REMEDIES if isinstance(error, kind)), "")
    return StoreUnavailable(
        f"PostgreSQL cannot be reached or refused: {reason}{remedy}", source=source
    )


@contextmanager
def startup_errors(*, pooler: bool, verifies: bool, is_first: bool) -> Iterator[None]:
    """Name the setting, or the part of the address, for which no connection can be had.

    Only until the first connection: it proves the settings, and later refusals have other causes.
    """
    try:
        yield
    except ssl.SSLCertVerificationError as error:  # a ValueError as well
        raise _unverified(error, verifies) from error
    except (ValueError, asyncpg.PostgresError) as error:
        if is_first and (bad := _bad_setting(error, pooler)) is not None:
            raise bad from error
        if isinstance(error, AWAY):
            raise
        raise away(error, None) from error


def _bad_setting(error: Exception, pooler: bool) -> BadSetting | None:
    """The setting that caused the error; None if another cause is possible."""
    if isinstance(error, ValueError):
        return BadSetting(
            "database", f"the address cannot be used: {error}; see postgresql://user@host/name"
        )
    if UNSUPPORTED in str(error):
        return BadSetting("pooler", _refusal(str(error), pooler))
    if isinstance(error, OF_THE_ADDRESS) and not isinstance(error, AWAY):
        return BadSetting(
            "database", f"PostgreSQL refuses what the address asks for, as in options: {error}"
        )
    return None


def _unverified(error: ssl.SSLCertVerificationError, verifies: bool) -> StoreUnavailable:
    name = "channel_binding=require and sslrootcert=system" if verifies else "sslmode=verify-full"
    return StoreUnavailable(
        f"the certificate of PostgreSQL cannot be verified: {error.verify_message or error}; name "
        f"the file of its authority with sslrootcert, and the host as the certificate does. {name} "
        "in the address asks for this"
    )


def _refusal(problem: str, pooler: bool) -> str:
    """A pooler's refusal of a startup parameter, and what to do about it."""
    name = problem.rpartition(":")[2].strip() or "one"
    remedy = f"let it pass in pgbouncer.ini: ignore_startup_parameters = {name}"
    first = "say that a pooler is there: DULY_POOLER=true, or pgbouncer=true in the address"
    if pooler:
        first = "take it out of the address"
    return f"a pooler refuses the startup parameter {name}; {first}; or {remedy}"


class CallersError(Exception):
    """Carries what a caller's code raised past those who would take it for the database's."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def apart() -> Iterator[None]:
    """Keep errors of a caller's code apart; statements tell by themselves that the store is away.

    An OSError of a generator that names deliveries says nothing about the database.
    """
    try:
        yield
    except AWAY as error:
        raise CallersError(error) from error


class Setup(msgspec.Struct, frozen=True):
    """Settings of a session, and how to take them back."""

    apply: str = ""
    undo: str = ""


BASE = Setup()
IDLE_LIMIT = "set idle_in_transaction_session_timeout = '15s'"
NO_IDLE_LIMIT = "reset idle_in_transaction_session_timeout"
# The store's own transactions wait for nothing but the database. One that stands still is a
# process that does, and the rows that it locked are needed by others.
BRIEF = Setup(IDLE_LIMIT, NO_IDLE_LIMIT)


class Source:
    """Opens connections and lets go of them."""

    def __init__(self, connect: Connect, discard: Discard, *, counts_slots: bool) -> None:
        self.connect = connect
        """Also what the errors of its connections name as their source."""
        self._discard = discard
        self._counts_slots = counts_slots

    async def open(self, setup: Setup, *, extra: bool = False) -> Connection:
        """A new connection; NoSlot if there is none, or too few remain for an `extra` one."""
        with clear_errors(self.connect):
            try:
                connection = await self.connect()
            except asyncpg.TooManyConnectionsError as error:
                raise NoSlot(f"PostgreSQL has no connection left: {error}") from error
            try:
                if extra and self._counts_slots:
                    await _leave_some(connection)
                if setup.apply:
                    await connection.execute(setup.apply)
            except BaseException:
                await self.drop(connection)
                raise
            return connection

    async def drop(self, connection: Connection) -> None:
        """Close without ceremony: the other side may not be there to say goodbye to."""
        connection.terminate()
        await self._discard(connection)

    async def close(self, connection: Connection) -> None:
        """Close politely, within reason."""
        try:
            await asyncio.wait_for(self._discard(connection), CONNECT_SECONDS)
        except AWAY:
            connection.terminate()


async def _leave_some(connection: Connection) -> None:
    if await connection.fetchval(FREE_SLOTS) < SPARE_SLOTS:
        raise NoSlot("PostgreSQL has hardly a connection left (max_connections)")


def is_usable(connection: Connection | None) -> bool:
    """Whether it is open, and nobody left it in a transaction: what we write would hang on it."""
    if connection is None or connection.is_closed():
        return False
    return not connection.is_in_transaction()
