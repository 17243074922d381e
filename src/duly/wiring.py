"""What an App is made of, from its settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from duly.domain.errors import BadSetting, InvalidInput
from duly.domain.roles import Role
from duly.domain.signatures import secret_key
from duly.engine.analyst import Analyst
from duly.engine.loops import Emit
from duly.engine.supervisor import Engine
from duly.ports import Clock, Store
from duly.settings import Settings
from duly.stores import postgres
from duly.stores.store import store_at, store_on
from duly.transports.analytics import RedisAnalytics


def watched(engine: Engine, settings: Settings, emit: Emit) -> Engine:
    """The engine, with what it does counted if the settings say where."""
    if settings.analytics and Role.WORKER in settings.roles:
        keep = timedelta(seconds=settings.analytics_keep)
        analyst = Analyst(RedisAnalytics(settings.analytics, settings.namespace, keep), emit)
        analyst.foreign = engine.dispatcher.known.foreign
        engine.observe(analyst.note, analyst.close)
        engine.attach(analyst)
    return engine


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
