"""`GET /metrics`: counts of the processes of this server, and the state of their namespace."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from duly.app import App
from duly.engine.supervisor import Engine
from duly.errors import StoreUnavailable
from duly.ports import StoreSizes
from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus
from duly.services.monitoring.monitoring import SOON_ENOUGH
from duly.surfaces.http.monitoring.shared_metrics import SharedMetrics, merged
from duly.surfaces.http.protocol.routing import Route, get
from duly.telemetry import Histogram
from duly.version import __version__

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus's text format."""
COUNTS = {
    "accepted": ("accepted", "Deliveries accepted by this process"),
    "known": ("known", "Deliveries requested again under a known key"),
    "claimed": ("claimed", "Lanes claimed"),
    "retried": ("retried", "Failed attempts that will be retried"),
    "dead": ("dead", "Deliveries that became dead letters"),
    "released": ("released", "Deliveries handed back without an attempt"),
    "expired": ("expired", "Deliveries that expired before they were attempted"),
    "overlapped": ("overlapped", "Occurrences skipped because an earlier one was unfinished"),
    "cancelled": ("cancelled", "Deliveries cancelled while they ran"),
    "reclaimed": ("reclaimed", "Deliveries reclaimed from dead workers"),
    "settles_refused": ("refused", "Outcomes refused because another worker holds the lane"),
    "on_time": ("on_time", "First attempts within the grace period"),
    "late": ("DeliveryLate", "First attempts after the grace period"),
    "planner_ticks": ("planner_ticks", "Rounds of the planner"),
    "planned": ("planned", "Occurrences planned"),
    "merged": ("merged", "Missed occurrences merged into a later one"),
    "skipped": ("skipped", "Missed occurrences skipped"),
    "loop_failures": ("LoopFailed", "Failures of a loop that were not caused by the store"),
    "clock_steps": ("ClockStepped", "Jumps of the clock"),
    "sweeps_with_finds": ("SweptUp", "Sweeps that had to repair something"),
    "dead_letter_revivals": ("DeadLettersRevived", "Batches of dead letters retried by policies"),
    "streams_released": ("StreamReleased", "Streams that went on without their failed head"),
    "leases_lost": ("LeaseWasLost", "Leases that this process lost"),
    "alerts_raised": ("AlertRaised", "Alerts raised by this process"),
}
"""Counters by the name of the metric: the name of the count, and the help text."""


class MetricsSample(msgspec.Struct, frozen=True):
    """What was read from the store for one scrape; empty if it did not answer."""

    status: NamespaceStatus | None = None
    alerts: list[Alert] = []
    sizes: StoreSizes | None = None


class Scrape(Collector):
    """The metrics of one scrape: of every process here, and of the namespace."""

    def __init__(self, families: Iterable[Metric], seen: MetricsSample) -> None:
        self._families = families
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        yield from self._families
        yield gauge("store_up", "Whether the store answers", self._seen.status is not None)
        if self._seen.status is not None:
            yield from namespace_metrics(self._seen.status)
            yield alert_metrics(self._seen.alerts)
        if self._seen.sizes is not None:
            yield from size_metrics(self._seen.sizes)


class ProcessMetrics:
    """The metrics of one process."""

    def __init__(self, app: App, engine: Engine | None) -> None:
        self._app = app
        self._engine = engine

    def families(self) -> list[Metric]:
        """All metrics, with the number of the process if there are several."""
        found = (*self._counters(), *self._histograms(), *self._process())
        return [with_process(family, self._app.telemetry.process) for family in found]

    def _counters(self) -> Iterator[Metric]:
        found = self._app.telemetry
        for name, (count, text) in COUNTS.items():
            yield counter(name, text, found.counts[count])
        completed = {(target,): count for target, count in found.completed_by.items()}
        yield labelled("completed", "Deliveries completed", ["target"], completed)
        failed = {
            (target, str(reason)): count for (target, reason), count in found.failures.items()
        }
        yield labelled("failed", "Failed attempts", ["target", "reason"], failed)
        troubles = {(loop,): count for loop, count in found.troubles.items()}
        text = "How often a loop had to wait for the store"
        yield labelled("store_errors", text, ["loop"], troubles)
        answers = {(kind,): count for kind, count in self._app.webhooks.answers.items()}
        yield labelled("webhook_answers", "Responses to webhooks", ["class"], answers)

    def _histograms(self) -> Iterator[Metric]:
        found = self._app.telemetry
        yield histogram("lateness_seconds", "Seconds from due to the first attempt", found.lateness)
        yield histogram("pickup_seconds", "Seconds from ready to the attempt", found.pickups)
        yield histogram("run_seconds", "Duration of attempts", found.runs)
        text = "Duration of calls to the store"
        yield by_call("store_call_seconds", text, found.calls)
        yield by_call("batch_size", "Deliveries in one call to the store", found.sizes)
        tries = HistogramMetricFamily("duly_tries", "Attempts of a delivery until its end")
        tries.add_metric([], *attempt_buckets(found.tries))
        yield tries

    def _process(self) -> Iterator[Metric]:
        built = GaugeMetricFamily(
            "duly_build_info", "Versions of this server", labels=["version", "python", "store"]
        )
        store = "sqlite" if self._app.store.single_owner else "postgresql"
        built.add_metric([__version__, platform.python_version(), store], 1)
        yield built
        text = "How late the planner was in its last round"
        yield gauge("planner_drift_seconds", text, self._app.telemetry.drift)
        if self._engine is None:
            return
        text = "Running attempts of this process"
        yield gauge("running", text, self._engine.running)
        text = "Wake-ups of this process for due work"
        yield counter("wakeups", text, self._engine.worker.signal.hints)
        yield from self._recovering(self._engine)

    def _recovering(self, engine: Engine) -> Iterator[Metric]:
        late = engine.worker.backlog.recovering
        yield gauge("recovering", "Whether late deliveries are being drained", late is not None)
        count = 0 if late is None else late.count
        yield gauge("recovering_deliveries", "Late deliveries left", count)
        rate = None if late is None else late.rate
        yield gauge("recovering_rate", "Late deliveries drained a second", rate or 0.0)
        left = None if late is None else late.seconds_left
        yield gauge("recovering_seconds_left", "Seconds until they are drained", left or 0.0)


def alert_metrics(alerts: Iterable[Alert]) -> Metric:
    """The number of active alerts of each kind."""
    count = dict.fromkeys(AlertKind, 0)
    for each in alerts:
        count[each.kind] += 1
    return by_state("alerts", "Active alerts", count, label="kind")


def namespace_metrics(now: NamespaceStatus) -> Iterator[Metric]:
    """The state of the namespace, the same from every process."""
    states = {"due": now.due, "upcoming": now.upcoming, "processing": now.processing}
    text = f"Unfinished deliveries, and dead letters, counted up to {now.counted_up_to}"
    yield by_state("deliveries", text, states | {"dead": now.dead})
    yield gauge("oldest_due_seconds", "Time since the oldest was due", now.oldest_due_seconds)
    yield gauge("late_deliveries", "Deliveries due for longer than the grace period", now.late)
    yield gauge("workers", "Live workers", now.workers)
    yield gauge("planner_lag_seconds", "How long a schedule waits to be planned", now.planner_lag)
    yield gauge("store_seconds", "Response time of the store", now.store_seconds)
    circuits = {"open": len(now.circuits_open), "probing": len(now.circuits_probing)}
    yield by_state("circuits", "Targets whose circuit is not closed", circuits)
    endpoints = {"paused": len(now.endpoints_paused), "disabled": len(now.endpoints_disabled)}
    yield by_state("endpoints", "Endpoints that get no deliveries", endpoints)
    streams = {"blocked": now.blocked_streams, "paused": now.paused_streams}
    yield by_state("streams", "Streams that do not proceed", streams)
    yield from failure_metrics(now)


def size_metrics(sizes: StoreSizes) -> Iterator[Metric]:
    """What grows on PostgreSQL if it is vacuumed too rarely."""
    yield gauge("agenda_bytes", "Size of the lanes on disk", sizes.agenda_bytes)
    yield gauge("agenda_index_bytes", "Size of their indexes on disk", sizes.agenda_index_bytes)


def failure_metrics(now: NamespaceStatus) -> Iterator[Metric]:
    """Deliveries that wait for a retry, and possible poison."""
    retries = now.retries
    yield gauge("retries_waiting", "Deliveries that wait for another attempt", retries.count)
    for name, at in (("next", retries.next_at), ("last", retries.last_at)):
        text = f"Time of the {name} of these attempts, 0 for none"
        yield gauge(f"retries_{name}_timestamp_seconds", text, 0 if at is None else at.timestamp())
    yield gauge(
        "poison_candidates",
        "Unfinished deliveries whose workers died while they held them",
        now.poison,
    )


def with_process(family: Metric, process: int | None) -> Metric:
    """Add the number of the process, if several share the address."""
    if process is not None:
        label = {"process": str(process)}
        family.samples = [each._replace(labels={**each.labels, **label}) for each in family.samples]
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    """A number that goes up and down."""
    return GaugeMetricFamily(f"duly_{name}", text, value=float(value))


def counter(name: str, text: str, value: float) -> Metric:
    """A number that only grows."""
    return CounterMetricFamily(f"duly_{name}", text, value=value)


def labelled(name: str, text: str, labels: list[str], counts: Mapping[Any, int]) -> Metric:
    """Numbers that only grow, by label."""
    family = CounterMetricFamily(f"duly_{name}", text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def by_state(name: str, text: str, counts: Mapping[Any, int], label: str = "state") -> Metric:
    """Numbers that go up and down, by label."""
    family = GaugeMetricFamily(f"duly_{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def histogram(name: str, text: str, found: Histogram) -> Metric:
    """Counts of values by bucket."""
    family = HistogramMetricFamily(f"duly_{name}", text)
    family.add_metric([], list(found.buckets()), found.sum)
    return family


def by_call(name: str, text: str, found: dict[str, Histogram]) -> Metric:
    """A histogram for each kind of call to the store."""
    family = HistogramMetricFamily(f"duly_{name}", text, labels=["call"])
    for call, each in found.items():
        family.add_metric([call], list(each.buckets()), each.sum)
    return family


TRIES = (1, 2, 3, 4, 5, 8, 12)


def attempt_buckets(tries: dict[int, int]) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts of deliveries by number of attempts, and the sum of attempts."""
    bounds = [*(float(each) for each in TRIES), float("inf")]
    up_to = [
        (_bound(bound), float(sum(count for tried, count in tries.items() if tried <= bound)))
        for bound in bounds
    ]
    return up_to, float(sum(tried * count for tried, count in tries.items()))


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)


async def metrics_sample(app: App) -> MetricsSample:
    """The state of the namespace, read at most once a second; empty if the store is unavailable."""
    try:
        return MetricsSample(
            await app.stats.namespace_status(SOON_ENOUGH),
            list(await app.alerts.raised()),
            await app.store.sizes(),
        )
    except StoreUnavailable:
        return MetricsSample()


def metrics_route(app: App, engine: Engine | None, shared: SharedMetrics | None = None) -> Route:
    """The route `/metrics` of an app, its engine if it runs here, and other processes."""
    own = ProcessMetrics(app, engine)

    @get("/metrics", here=True, media=TEXT_FORMAT)
    async def metrics() -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        others = [] if shared is None else shared.others()
        registry.register(Scrape(merged([*own.families(), *others]), await metrics_sample(app)))
        return generate_latest(registry)

    return metrics
