"""Builds the parts of an App from its settings, in the order of their dependencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from duly.domain.deliveries.retry import DEFAULT, WEBHOOK
from duly.domain.endpoints.endpoint import is_outside
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.endpoints.signatures import secret_key
from duly.domain.events import ConnectionsShort, DeliveryCompleted, Event
from duly.domain.monitoring.alerts import AlertLimits
from duly.domain.roles import Role
from duly.engine.batch_finisher import BatchSignal
from duly.engine.execution.completions import emit_completions
from duly.engine.execution.settler import Observer
from duly.engine.loops import Loop
from duly.engine.maintenance import OrphanPruner
from duly.engine.monitoring.alert_monitor import AlertMonitor, AlertMonitors, SendAlert
from duly.engine.monitoring.analytics_exporter import AnalyticsExporter
from duly.engine.monitoring.log_summary import LogSummary
from duly.engine.monitoring.rollup_writer import RollupWriter
from duly.engine.supervisor import Engine
from duly.engine.worker import Worker
from duly.errors import BadSetting, InvalidInput
from duly.modules import calling_module, is_unloaded, module_name
from duly.ports import Chance, Clock, Emit, Store, Transport
from duly.records.retry_plan import RetryPlan
from duly.records.status import NamespaceStatus
from duly.services.access.idempotency import IdempotentRequests
from duly.services.deliveries.acceptor import Acceptor
from duly.services.deliveries.ends import Ends
from duly.services.deliveries.intake import Intake
from duly.services.deliveries.transactions import Outbox
from duly.services.monitoring.alerts import AlertWebhook
from duly.services.monitoring.monitoring import Monitoring
from duly.services.namespace import Namespace, Shared
from duly.services.schedules.declarations import Declarations
from duly.services.schedules.program import Program
from duly.settings import Settings
from duly.stores.postgres import database as postgres
from duly.stores.postgres.connections import Connect
from duly.stores.store import store_at, store_on
from duly.system import (
    Threads,
    is_own_address,
    is_resolver_trouble,
    look_up,
    open_socket,
    process_name,
)
from duly.telemetry import Telemetry
from duly.telemetry.tracing import Traced, Tracing
from duly.transports.combined import Routes
from duly.transports.handlers.registry import Handlers
from duly.transports.redis_analytics import RedisAnalytics
from duly.transports.webhooks.egress import Guard
from duly.transports.webhooks.endpoint_cache import EndpointCache
from duly.transports.webhooks.sender import Webhooks
from duly.vault import Vault, sealing_keys

SHORTAGE_SECONDS = 60.0
"""Between two reports that connections are short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transports:
    """The transports, one by one and combined."""

    handlers: Handlers
    endpoints: EndpointCache
    webhooks: Webhooks
    combined: Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that the services and the engine of one namespace need."""

    settings: Settings
    program: str
    clock: Clock
    chance: Chance
    telemetry: Telemetry
    store: Store
    tracing: Tracing
    vault: Vault
    addresses: SealedAddresses
    transports: Transports
    rollup_writer: RollupWriter
    ends: Ends
    batch_signal: BatchSignal


def parts_for(
    settings: Settings, clock: Clock, chance: Chance, pool: Any, connect: Connect | None
) -> Parts:
    """The parts of an App in its own namespace; the caller's module is the program."""
    traces: dict[str, str] = {}
    telemetry = Telemetry(clock.monotonic, traces.get)
    vault = Vault(sealing_keys(settings.secret_key), chance.bytes)
    addresses = SealedAddresses(vault.seal_repeatably, vault.open)
    store = store_for(settings, clock, pool, connect, telemetry.emit, addresses)
    tracing = Tracing(store.traces, traces)
    return Parts(
        settings=settings,
        program=settings.program or calling_module(),
        clock=clock,
        chance=chance,
        telemetry=telemetry,
        store=store,
        tracing=tracing,
        vault=vault,
        addresses=addresses,
        transports=transports_for(
            settings, clock, store, vault, telemetry.emit, tracing, addresses
        ),
        rollup_writer=_rollup_writer(store, clock, telemetry),
        ends=Ends(store, clock),
        batch_signal=BatchSignal(),
    )


def parts_within(parts: Parts, namespace: str) -> Parts:
    """The same parts for another namespace of the store, with its own counts."""
    traces: dict[str, str] = {}
    telemetry = Telemetry(parts.clock.monotonic, traces.get)
    store = parts.store.within(namespace)
    writer = _rollup_writer(store, parts.clock, telemetry)
    parts.rollup_writer.others.add(writer)
    tracing = Tracing(store.traces, traces)
    return replace(parts, telemetry=telemetry, store=store, tracing=tracing, rollup_writer=writer)


def store_for(
    settings: Settings,
    clock: Clock,
    pool: Any,
    connect: Connect | None,
    emit: Emit,
    addresses: SealedAddresses,
) -> Store:
    """The store at the address in the settings, or on the given connections."""
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
            addresses=addresses,
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
        addresses=addresses,
    )


def shortage(clock: Clock, emit: Emit, wanted: int) -> Callable[[int, str], None]:
    """A callback that reports a shortage of connections, at most once a minute."""
    reported_at = float("-inf")

    def report(open: int, problem: str) -> None:
        nonlocal reported_at
        if clock.monotonic() - reported_at >= SHORTAGE_SECONDS:
            reported_at = clock.monotonic()
            emit(ConnectionsShort(open=open, wanted=wanted, problem=problem))

    return report


def transports_for(
    settings: Settings,
    clock: Clock,
    store: Store,
    vault: Vault,
    emit: Emit,
    tracing: Tracing,
    addresses: SealedAddresses,
) -> Transports:
    """The handlers of this process, and webhooks to plain URLs and to endpoints."""
    plan = settings.plan
    handlers = Handlers(Threads().run, emit, plan or DEFAULT)
    endpoints = EndpointCache(
        lambda namespace: store.within(namespace).endpoints,
        clock,
        vault.open,
        emit,
        settings.namespace,
        plan or WEBHOOK,
        addresses,
        _signing_keys(settings.webhook_secret),
    )
    webhooks = Webhooks(
        clock,
        Guard(settings.egress_allow.replace(",", " ").split(), is_own_address),
        look_up,
        is_resolver_trouble,
        open_socket,
        endpoints,
        tracing.carried,
    )
    combined = Routes(handlers, webhooks)
    return Transports(handlers=handlers, endpoints=endpoints, webhooks=webhooks, combined=combined)


def _signing_keys(secrets: str) -> list[bytes]:
    try:
        return [secret_key(each) for each in secrets.split()]
    except InvalidInput as error:
        raise BadSetting("webhook_secret", error.problem) from error


def services_for(parts: Parts, *, is_served: bool = True) -> Shared:
    """The services that all actors in the namespace share.

    If this process works for the namespace, targets are checked against its handlers and use their
    retry plans; otherwise only handlers in the store are known.
    """
    settings, clock, chance, store = parts.settings, parts.clock, parts.chance, parts.store
    transports, writer = parts.transports, parts.rollup_writer

    def plan(target: str) -> RetryPlan:
        if is_served:
            return transports.combined.plan(target, store.namespace)
        return settings.plan or (WEBHOOK if is_outside(target) else DEFAULT)

    handlers: Callable[[], Sequence[str]] = transports.handlers.serves if is_served else tuple
    check = transports.webhooks.check
    intake = Intake(store, clock, chance, handlers, check, parts.addresses, settings.payload_limit)
    grace = timedelta(seconds=settings.grace)
    return Shared(
        settings=settings,
        clock=clock,
        chance=chance,
        store=store,
        vault=parts.vault,
        check_webhook=check,
        try_endpoint=transports.webhooks.try_out,
        plan=plan,
        accept_traced=parts.tracing.accept,
        is_traced=lambda: parts.tracing.is_on,
        intake=intake,
        acceptor=Acceptor(store, clock, parts.telemetry.emit, writer.write_if_due),
        outbox=Outbox(store, intake.check, intake.expects),
        requests=IdempotentRequests(store, chance.delivery_id),
        monitoring=Monitoring(store, clock, grace, writer.flush),
        ends=parts.ends,
        program=Program(parts.program),
        on_batch_closed=parts.batch_signal.hint,
    )


def _rollup_writer(store: Store, clock: Clock, telemetry: Telemetry) -> RollupWriter:
    return RollupWriter(
        lambda namespace: (store if namespace is None else store.within(namespace)).rollups,
        clock,
        lambda: telemetry.tallies(store.namespace),
    )


def declarations_for(parts: Parts, services: Namespace) -> Declarations:
    """The schedules that the code of this program declares."""
    return Declarations(
        parts.store,
        services.schedules,
        services.program,
        parts.telemetry.emit,
        module_name,
        is_unloaded,
        prune=parts.settings.prune_schedules,
    )


def engine_for(
    parts: Parts,
    services: Namespace,
    declarations: Declarations,
    transport: Transport | None = None,
    *,
    stepped: bool = False,
) -> Engine:
    """The engine: a worker with the loops that write counts, summarize logs and raise alerts."""
    transport, emit = transport or parts.transports.combined, parts.telemetry.emit
    exporter = _exporter(parts.settings, emit)
    worker = Worker(
        parts.store,
        Traced(transport, parts.tracing) if parts.tracing.is_on else transport,
        parts.clock,
        parts.chance,
        emit,
        parts.settings,
        process_name(),
        observers=_observers(exporter, parts.telemetry, parts.rollup_writer),
        schedules=declarations.names,
        limits=parts.transports.handlers.limits,
        stepped=stepped,
    )
    parts.rollup_writer.worker = lambda: worker.membership.worker
    parts.batch_signal.listener = worker.batch_finisher.hurry
    loops: list[Loop] = [
        parts.rollup_writer,
        _alert_monitors(parts, services, worker),
        LogSummary(parts.telemetry.summarize),
    ]
    if parts.settings.prune_schedules and Role.WORKER in parts.settings.roles:
        # During a deployment the old workers end after the start of the new ones.
        loops.append(OrphanPruner(declarations.prune, parts.settings.sweep_interval))
    if exporter is not None:
        loops.append(exporter)
    return Engine(
        worker,
        loops,
        parts.chance,
        emit,
        at_start=declarations.find_orphans,
        at_end=None if exporter is None else exporter.close,
    )


def _exporter(settings: Settings, emit: Emit) -> AnalyticsExporter | None:
    """Writes counts to the Redis that the settings name, if they name one."""
    if not settings.analytics or Role.WORKER not in settings.roles:
        return None
    keep = timedelta(seconds=settings.analytics_keep)
    return AnalyticsExporter(RedisAnalytics(settings.analytics, settings.namespace, keep), emit)


def _observers(
    exporter: AnalyticsExporter | None, telemetry: Telemetry, writer: RollupWriter
) -> list[Observer]:
    observers: list[Observer] = [writer.parts.note]
    if exporter is not None:
        observers.append(exporter.note)
    # Checked once, so that completions cost nothing if they are not logged.
    if telemetry.logs(DeliveryCompleted):
        observers.append(emit_completions(telemetry.emit))
    return observers


def alert_monitor_for(parts: Parts, services: Namespace) -> AlertMonitor:
    """The alert monitor of the App's own namespace."""
    settings, telemetry = parts.settings, parts.telemetry
    return AlertMonitor(
        parts.store,
        telemetry.emit,
        services.stats.namespace_status,
        telemetry.counts,
        AlertLimits(settings.alert_late, settings.alert_dead),
        _alert_sender(settings, services, settings.namespace),
    )


def _alert_sender(settings: Settings, services: Namespace, namespace: str) -> SendAlert | None:
    """Sends alerts of a namespace to the alert webhook, as deliveries of the own namespace."""
    if not settings.alert_url:
        return None
    return AlertWebhook(settings.alert_url, namespace, services.deliver).send


def _alert_monitors(parts: Parts, services: Namespace, worker: Worker) -> AlertMonitors:
    own, emit, settings = alert_monitor_for(parts, services), parts.telemetry.emit, parts.settings
    grace = timedelta(seconds=settings.grace)

    async def others() -> list[str]:
        found = await worker.namespaces.namespaces()
        return [each for each in found if each != parts.store.namespace]

    def elsewhere(namespace: str) -> AlertMonitor:
        store = parts.store.within(namespace)

        def emit_there(event: Event) -> None:
            emit(msgspec.structs.replace(event, namespace=namespace))

        async def look() -> NamespaceStatus:
            return await store.status.look(grace)

        sender = _alert_sender(settings, services, namespace)
        return own.elsewhere(store, emit_there, look, sender)

    return AlertMonitors(own, emit, others, elsewhere)
