"""Opens, sets up and closes connections to PostgreSQL, and classifies its errors."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import msgspec

from duly.errors import BadSetting, StoreUnavailable

Connection = Any  # asyncpg's connection, or a pool's proxy for one
Connect = Callable[[], Awaitable[Connection]]
Discard = Callable[[Connection], Awaitable[None]]

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
SPARE_SLOTS = 8
"""Optional connections leave this many of the server's slots free, so that another process can
start."""
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
"""Errors that a parameter in the address can cause when a connection starts; those in AWAY are
excepted."""
REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (
        asyncpg.ReadOnlySQLTransactionError,
        "this server is a replica or read-only: name the primary, or several hosts with "
        "target_session_attrs=read-write in the address",
    ),
    (
        asyncpg.InsufficientPrivilegeError,
        "the role lacks privileges: let it own the schema, with "
        "`create schema duly authorization ROLE`, or grant it create on the database",
    ),
)
UNSUPPORTED = "unsupported startup parameter"


class NoSlot(StoreUnavailable):
    """The server, or the caller's pool, has no connection left for this process."""


@contextmanager
def clear_errors(source: object = None) -> Iterator[None]:
    """Raise StoreUnavailable, with its source, for errors that mean the database is unavailable."""
    try:
        yield
    except AWAY as error:
        raise away(error, source) from error
    except StoreUnavailable as error:
        error.source = error.source or source
        raise


def away(error: BaseException, source: object) -> StoreUnavailable:
    """A driver's error as StoreUnavailable, with what to do about it."""
    reason = str(error) or type(error).__name__
    remedy = next((f"; {text}" for kind, text in REMEDIES if isinstance(error, kind)), "")
    return StoreUnavailable(
        f"PostgreSQL cannot be reached or refused: {reason}{remedy}", source=source
    )


@contextmanager
def startup_errors(*, pooler: bool, verifies: bool, is_first: bool) -> Iterator[None]:
    """Raise BadSetting for the setting, or part of the address, that prevents a connection.

    Only until the first connection succeeds: that proves the settings, and later errors have other
    causes.
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
            "database", f"PostgreSQL refuses a parameter of the address, as in options: {error}"
        )
    return None


def _unverified(error: ssl.SSLCertVerificationError, verifies: bool) -> StoreUnavailable:
    name = "channel_binding=require and sslrootcert=system" if verifies else "sslmode=verify-full"
    return StoreUnavailable(
        f"the certificate of PostgreSQL cannot be verified: {error.verify_message or error}; name "
        f"the file of its authority with sslrootcert, and the host as the certificate does. {name} "
        "in the address requires this"
    )


def _refusal(problem: str, pooler: bool) -> str:
    """A pooler's refusal of a startup parameter, and what to do about it."""
    name = problem.rpartition(":")[2].strip() or "one"
    remedy = f"let it pass in pgbouncer.ini: ignore_startup_parameters = {name}"
    first = "declare the pooler: DULY_POOLER=true, or pgbouncer=true in the address"
    if pooler:
        first = "remove it from the address"
    return f"a pooler refuses the startup parameter {name}; {first}; or {remedy}"


class CallersError(Exception):
    """Wraps an error of a caller's code, so that it is not taken for one of the database."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def apart() -> Iterator[None]:
    """Wrap errors of a caller's code; statements raise StoreUnavailable by themselves.

    For example, an OSError in a generator of deliveries does not come from the database.
    """
    try:
        yield
    except AWAY as error:
        raise CallersError(error) from error


class Setup(msgspec.Struct, frozen=True):
    """SQL that applies settings of a session, and SQL that undoes them."""

    apply: str = ""
    undo: str = ""


BASE = Setup()
IDLE_LIMIT = "set idle_in_transaction_session_timeout = '15s'"
NO_IDLE_LIMIT = "reset idle_in_transaction_session_timeout"
# The store's own transactions wait only for the database. If one is idle, its process is frozen,
# and others need the rows that it has locked.
BRIEF = Setup(IDLE_LIMIT, NO_IDLE_LIMIT)


class Source:
    """Opens and closes connections."""

    def __init__(self, connect: Connect, discard: Discard, *, counts_slots: bool) -> None:
        self.connect = connect
        """Opens a connection; also the `source` of errors on its connections."""
        self._discard = discard
        self._counts_slots = counts_slots

    async def open(self, setup: Setup, *, extra: bool = False) -> Connection:
        """A new connection; NoSlot if the server has none left, or too few for an `extra` one."""
        with clear_errors(self.connect):
            try:
                connection = await self.connect()
            except asyncpg.TooManyConnectionsError as error:
                raise NoSlot(f"PostgreSQL has no connection left: {error}") from error
            try:
                if extra and self._counts_slots:
                    await _check_slots(connection)
                if setup.apply:
                    await connection.execute(setup.apply)
            except BaseException:
                await self.drop(connection)
                raise
            return connection

    async def drop(self, connection: Connection) -> None:
        """Close at once: the server may not respond any more."""
        connection.terminate()
        await self._discard(connection)

    async def close(self, connection: Connection) -> None:
        """Close properly, or at once if that takes too long."""
        try:
            await asyncio.wait_for(self._discard(connection), CONNECT_SECONDS)
        except AWAY:
            connection.terminate()


async def _check_slots(connection: Connection) -> None:
    if await connection.fetchval(FREE_SLOTS) < SPARE_SLOTS:
        raise NoSlot("PostgreSQL has hardly a connection left (max_connections)")


def is_usable(connection: Connection | None) -> bool:
    """Whether it is open and not in a transaction, which would not commit what we write."""
    if connection is None or connection.is_closed():
        return False
    return not connection.is_in_transaction()
