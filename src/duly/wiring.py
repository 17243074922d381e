"""What an App is made of, from its settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from duly.domain.endpoints.signatures import secret_key
from duly.domain.events import ConnectionsShort, DeliveryCompleted
from duly.domain.roles import Role
from duly.engine.execution.completions import emit_completions
from duly.engine.execution.settler import Observer
from duly.engine.monitoring.analytics_exporter import AnalyticsExporter
from duly.errors import BadSetting, InvalidInput
from duly.ports import Clock, Emit, Store
from duly.settings import Settings
from duly.stores.postgres import database as postgres
from duly.stores.postgres.connections import Connect
from duly.stores.store import store_at, store_on
from duly.telemetry import Telemetry
from duly.transports.redis_analytics import RedisAnalytics

TELL_SECONDS = 60.0


def exporter_of(settings: Settings, emit: Emit) -> AnalyticsExporter | None:
    """What counts for others to look at, if the settings say where."""
    if not settings.analytics or Role.WORKER not in settings.roles:
        return None
    keep = timedelta(seconds=settings.analytics_keep)
    return AnalyticsExporter(RedisAnalytics(settings.analytics, settings.namespace, keep), emit)


def observers_of(exporter: AnalyticsExporter | None, telemetry: Telemetry) -> list[Observer]:
    """What is called with settlements that were written: the exporter, and the log if it wants."""
    observers: list[Observer] = [] if exporter is None else [exporter.note]
    # Asked once: without it a completion costs nothing for being logged.
    if telemetry.logs(DeliveryCompleted):
        observers.append(emit_completions(telemetry.emit))
    return observers


def signing_keys(secrets: str) -> list[bytes]:
    """What plain URLs are signed with."""
    try:
        return [secret_key(each) for each in secrets.split()]
    except InvalidInput as error:
        raise BadSetting("webhook_secret", error.problem) from error


def store_of(
    settings: Settings, clock: Clock, pool: Any, connect: Connect | None, emit: Emit
) -> Store:
    """The store at the address in the settings, or on the connections that a caller brought."""
    most = settings.connections if pool is None else postgres.share_of(pool, settings.connections)
    on_short = shortage(clock, emit, most)
    if pool is None and connect is None:
        return store_at(
            settings.database,
            namespace=settings.namespace,
            clock=clock,
            pooler=settings.pooler,
            connections=most,
            on_short=on_short,
        )
    connections = postgres.from_pool(pool) if connect is None else postgres.from_factory(connect)
    return store_on(
        *connections,
        namespace=settings.namespace,
        clock=clock,
        pooler=settings.pooler,
        one_loop=connect is None,
        connections=most,
        on_short=on_short,
    )


def shortage(clock: Clock, emit: Emit, wanted: int) -> Callable[[int, str], None]:
    """Tells that connections are short, at most once a minute while they are."""
    told_at = float("-inf")

    def tell(open: int, problem: str) -> None:
        nonlocal told_at
        if clock.monotonic() - told_at >= TELL_SECONDS:
            told_at = clock.monotonic()
            emit(ConnectionsShort(open=open, wanted=wanted, problem=problem))

    return tell
