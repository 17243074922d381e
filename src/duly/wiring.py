"""What an App is made of, from its settings."""

from __future__ import annotations

from typing import Any

from duly.domain.errors import BadSetting, InvalidInput
from duly.domain.signatures import secret_key
from duly.ports import Clock, Store
from duly.settings import Settings
from duly.stores import postgres
from duly.stores.store import store_at, store_on


def signing_keys(secrets: str) -> list[bytes]:
    """What plain URLs are signed with."""
    try:
        return [secret_key(each) for each in secrets.split()]
    except InvalidInput as error:
        raise BadSetting("webhook_secret", error.problem) from error


def store_of(
    settings: Settings, clock: Clock, pool: Any, connect: postgres.Connect | None
) -> Store:
    """The store at the address in the settings, or on the connections that a caller brought."""
    if pool is None and connect is None:
        return store_at(
            settings.database, namespace=settings.namespace, clock=clock, pooler=settings.pooler
        )
    connections = postgres.from_pool(pool) if connect is None else postgres.from_factory(connect)
    return store_on(
        *connections,
        namespace=settings.namespace,
        clock=clock,
        pooler=settings.pooler,
        one_loop=connect is None,
    )
