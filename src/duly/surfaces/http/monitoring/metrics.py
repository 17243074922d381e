"""`GET /metrics`: what the processes here counted, and how their namespace stands."""

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
from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus
from duly.services.monitoring.monitoring import SOON_ENOUGH
from duly.surfaces.http.monitoring.sibling_metrics import Siblings, merged
from duly.surfaces.http.protocol.routing import Route, get
from duly.telemetry import Histogram
from duly.version import __version__

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus's text format."""
COUNTS = {
    "accepted": ("accepted", "Deliveries accepted by this process"),
    "known": ("known", "Deliveries asked for again under a key that was known"),
    "claimed": ("claimed", "Lanes claimed"),
    "retried": ("retried", "Attempts that failed and will be made again"),
    "dead": ("dead", "Deliveries that became dead letters"),
    "released": ("released", "Deliveries handed back unattempted"),
    "expired": ("expired", "Deliveries whose time had passed before they were attempted"),
    "overlapped": ("overlapped", "Occurrences skipped since an earlier one was unfinished"),
    "reclaimed": ("reclaimed", "Deliveries taken back from dead workers"),
    "settles_refused": ("refused", "Outcomes refused since another holds the lane"),
    "on_time": ("on_time", "First attempts within the grace period"),
    "late": ("DeliveryLate", "First attempts after the grace period"),
    "planner_ticks": ("planner_ticks", "Looks of the planner"),
    "planned": ("planned", "Occurrences planned"),
    "merged": ("merged", "Missed occurrences merged into a later one"),
    "skipped": ("skipped", "Missed occurrences skipped"),
    "loop_failures": ("LoopFailed", "Failures of a loop that were not the store's"),
    "clock_steps": ("ClockStepped", "Jumps of the clock"),
    "sweeps_with_finds": ("SweptUp", "Sweeps that had to put something back"),
    "leases_lost": ("LeaseWasLost", "Leases that this process lost"),
    "alerts_raised": ("AlertRaised", "Alerts raised by this process"),
}
"""What is counted, by the name of its metric: the name of the count, and what it says."""


class MetricsSample(msgspec.Struct, frozen=True):
    """What the store was asked for one scrape; nothing when it did not answer."""

    situation: NamespaceStatus | None = None
    alerts: list[Alert] = []


class Scrape(Collector):
    """What one scrape tells: of every process here, and of the namespace."""

    def __init__(self, families: Iterable[Metric], seen: MetricsSample) -> None:
        self._families = families
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        """All of it."""
        yield from self._families
        yield gauge("store_up", "Whether the store answers", self._seen.situation is not None)
        if self._seen.situation is not None:
            yield from standing(self._seen.situation)
            yield raised(self._seen.alerts)


class Figures:
    """What one process counted, and what it is at."""

    def __init__(self, app: App, engine: Engine | None) -> None:
        self._app = app
        self._engine = engine

    def families(self) -> list[Metric]:
        """All of it, with the number of the process if there are several."""
        found = (*self._counters(), *self._histograms(), *self._process())
        return [apart(family, self._app.telemetry.process) for family in found]

    def _counters(self) -> Iterator[Metric]:
        told = self._app.telemetry
        for name, (count, text) in COUNTS.items():
            yield counter(name, text, told.counts[count])
        completed = {(target,): many for target, many in told.completed_by.items()}
        yield labelled("completed", "Deliveries completed", ["target"], completed)
        failed = {(target, str(reason)): many for (target, reason), many in told.failures.items()}
        yield labelled("failed", "Attempts that failed", ["target", "reason"], failed)
        troubles = {(loop,): many for loop, many in told.troubles.items()}
        text = "How often a loop had to wait for the store"
        yield labelled("store_errors", text, ["loop"], troubles)
        answers = {(kind,): many for kind, many in self._app.webhooks.answers.items()}
        yield labelled("webhook_answers", "Answers to webhooks", ["class"], answers)

    def _histograms(self) -> Iterator[Metric]:
        told = self._app.telemetry
        yield histogram("lateness_seconds", "From due to the first attempt", told.lateness)
        yield histogram("pickup_seconds", "From ready to the attempt", told.pickups)
        yield histogram("run_seconds", "How long attempts took", told.runs)
        text = "How long the store took for a call"
        yield by_call("store_call_seconds", text, told.calls)
        yield by_call("batch_size", "How many a call to the store was for", told.sizes)
        tries = HistogramMetricFamily("duly_tries", "Attempts that a delivery took to its end")
        tries.add_metric([], *spread(told.tries))
        yield tries

    def _process(self) -> Iterator[Metric]:
        built = GaugeMetricFamily(
            "duly_build_info", "What runs here", labels=["version", "python", "store"]
        )
        store = "sqlite" if self._app.store.single_owner else "postgresql"
        built.add_metric([__version__, platform.python_version(), store], 1)
        yield built
        text = "How late the planner was when it last looked"
        yield gauge("planner_drift_seconds", text, self._app.telemetry.drift)
        if self._engine is None:
            return
        text = "Deliveries that this process attempts"
        yield gauge("running", text, self._engine.running)
        text = "Times that this process was told that something is due"
        yield counter("wakeups", text, self._engine.worker.signal.hints)
        yield from self._recovering(self._engine)

    def _recovering(self, engine: Engine) -> Iterator[Metric]:
        late = engine.worker.backlog.recovering
        yield gauge("recovering", "Whether late work is being drained", late is not None)
        count = 0 if late is None else late.count
        yield gauge("recovering_deliveries", "Late deliveries that are left", count)
        rate = None if late is None else late.rate
        yield gauge("recovering_rate", "Late deliveries drained a second", rate or 0.0)
        left = None if late is None else late.seconds_left
        yield gauge("recovering_seconds_left", "Until they are drained", left or 0.0)


def raised(alerts: Iterable[Alert]) -> Metric:
    """How many alerts there are of each kind."""
    many = dict.fromkeys(AlertKind, 0)
    for each in alerts:
        many[each.kind] += 1
    return by_state("alerts", "Alerts that are raised", many, label="kind")


def standing(now: NamespaceStatus) -> Iterator[Metric]:
    """How the whole namespace stands: the same from whichever process it is asked."""
    states = {"due": now.due, "upcoming": now.upcoming, "processing": now.processing}
    text = f"Unfinished deliveries, and dead letters, counted up to {now.counted_up_to}"
    yield by_state("deliveries", text, states | {"dead": now.dead})
    yield gauge("oldest_due_seconds", "For how long the oldest is due", now.oldest_due_seconds)
    yield gauge("late_deliveries", "What is due beyond the grace period", now.late)
    yield gauge("workers", "Workers that are alive", now.workers)
    yield gauge("planner_lag_seconds", "For how long a schedule waits", now.planner_lag)
    yield gauge("store_seconds", "How long the store took for a short answer", now.store_seconds)
    circuits = {"open": len(now.circuits_open), "probing": len(now.circuits_probing)}
    yield by_state("circuits", "Targets whose circuit is not closed", circuits)
    endpoints = {"paused": len(now.endpoints_paused), "disabled": len(now.endpoints_disabled)}
    yield by_state("endpoints", "Endpoints to which nothing goes", endpoints)
    streams = {"blocked": now.blocked_streams, "paused": now.paused_streams}
    yield by_state("streams", "Streams that stand still", streams)
    yield from failing(now)


def failing(now: NamespaceStatus) -> Iterator[Metric]:
    """What is being tried again, and what may be poison."""
    retries = now.retries
    yield gauge("retries_waiting", "Deliveries that wait for another attempt", retries.count)
    for name, at in (("next", retries.next_at), ("last", retries.last_at)):
        text = f"When the {name} of them is to be made, 0 for none"
        yield gauge(f"retries_{name}_timestamp_seconds", text, 0 if at is None else at.timestamp())
    yield gauge(
        "poison_candidates",
        "Unfinished deliveries whose workers died while they held them",
        now.poison,
    )


def apart(family: Metric, process: int | None) -> Metric:
    """With the number of the process, if others answer for theirs at the same address."""
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
    """Numbers that only grow, apart by what they are of."""
    family = CounterMetricFamily(f"duly_{name}", text, labels=labels)
    for values, many in counts.items():
        family.add_metric(values, many)
    return family


def by_state(name: str, text: str, counts: Mapping[Any, int], label: str = "state") -> Metric:
    """Numbers that go up and down, apart by what they are of."""
    family = GaugeMetricFamily(f"duly_{name}", text, labels=[label])
    for value, many in counts.items():
        family.add_metric([value], many)
    return family


def histogram(name: str, text: str, found: Histogram) -> Metric:
    """How often a figure fell between which bounds."""
    family = HistogramMetricFamily(f"duly_{name}", text)
    family.add_metric([], list(found.buckets()), found.sum)
    return family


def by_call(name: str, text: str, found: dict[str, Histogram]) -> Metric:
    """The same for each call to the store."""
    family = HistogramMetricFamily(f"duly_{name}", text, labels=["call"])
    for call, each in found.items():
        family.add_metric([call], list(each.buckets()), each.sum)
    return family


TRIES = (1, 2, 3, 4, 5, 8, 12)


def spread(tries: dict[int, int]) -> tuple[list[tuple[str, float]], float]:
    """How many ended with so many attempts or less, and all the attempts."""
    bounds = [*(float(each) for each in TRIES), float("inf")]
    up_to = [
        (_bound(bound), float(sum(many for tried, many in tries.items() if tried <= bound)))
        for bound in bounds
    ]
    return up_to, float(sum(tried * many for tried, many in tries.items()))


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)


async def seen_of(app: App) -> MetricsSample:
    """What the store says, if it does; asked at most once a second."""
    try:
        return MetricsSample(
            await app.watch.situation(SOON_ENOUGH), list(await app.alerts.raised())
        )
    except StoreUnavailable:
        return MetricsSample()


def metrics_route(app: App, engine: Engine | None, siblings: Siblings | None = None) -> Route:
    """The route over an app and, if it works here, its engine, and others at the same port."""
    figures = Figures(app, engine)

    @get("/metrics", here=True, media=TEXT_FORMAT)
    async def metrics() -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        told = [] if siblings is None else siblings.told()
        registry.register(Scrape(merged([*figures.families(), *told]), await seen_of(app)))
        return generate_latest(registry)

    return metrics
