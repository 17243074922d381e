"""Traces, when OpenTelemetry is at work here: accept, attempt, and the webhook that is sent on.

Nothing is imported for it. Whoever traces has set OpenTelemetry up before; who has not pays
nothing. Traces are a courtesy: one that cannot be kept or read costs no delivery anything.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from duly.domain.deliveries.delivery import Accepted
from duly.domain.deliveries.outcomes import Failed, Outcome
from duly.domain.deliveries.retry import RetryPlan
from duly.errors import StoreUnavailable
from duly.ports import Execution, Traces, Transport

MOST_REMEMBERED = 10_000
PARENT = "traceparent"


class Tracing:
    """Spans around what happens, and what of them is kept with a delivery.

    `recent` receives the traces of the deliveries that were attempted here last, by their ids.
    """

    def __init__(self, traces: Traces, recent: dict[str, str]) -> None:
        self._traces = traces
        self._recent = recent

    @property
    def is_on(self) -> bool:
        """Whether anybody here has set OpenTelemetry up."""
        trace = sys.modules.get("opentelemetry.trace")
        return trace is not None and not isinstance(
            trace.get_tracer_provider(), trace.ProxyTracerProvider
        )

    async def accept(self, target: str, accepting: Callable[[], Awaitable[Accepted]]) -> Accepted:
        """Accept within a span, and keep where it belongs if it is sampled."""
        if not self.is_on:
            return await accepting()
        with _span("duly.accept", "PRODUCER", {"duly.target": target}) as span:
            accepted = await accepting()
            span.set_attribute("duly.delivery", accepted.id)
            parent = self.carried().get(PARENT)
            if parent is not None and not accepted.known and _is_sampled(span):
                with contextlib.suppress(StoreUnavailable):
                    await self._traces.keep(accepted.id, parent)
        return accepted

    async def attempt(
        self, execution: Execution, attempting: Callable[[Execution], Awaitable[Outcome]]
    ) -> Outcome:
        """Make the attempt within a span that follows the one of its acceptance."""
        from opentelemetry.propagate import extract

        claimed = execution.claimed
        facts = {
            "duly.delivery": claimed.id,
            "duly.target": execution.target,
            "duly.attempt": claimed.attempt + 1,
        }
        parent = await self._parent(claimed.id)
        context = None if parent is None else extract({PARENT: parent})
        with _span("duly.attempt", "CONSUMER", facts, context) as span:
            self._remember(claimed.id, span)
            outcome = await attempting(execution)
            if isinstance(outcome, Failed):
                _fail(span, outcome)
        return outcome

    def carried(self) -> dict[str, str]:
        """The headers that lead whoever is called to the present span."""
        carrier: dict[str, str] = {}
        if self.is_on:
            from opentelemetry.propagate import inject

            inject(carrier)
        return carrier

    async def _parent(self, delivery: str) -> str | None:
        try:
            return await self._traces.parent(delivery)
        except StoreUnavailable:
            return None

    def _remember(self, delivery: str, span: Any) -> None:
        context = span.get_span_context()
        if not context.is_valid:
            return
        if len(self._recent) >= MOST_REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[delivery] = f"{context.trace_id:032x}"


class Traced:
    """A transport whose attempts are traced."""

    def __init__(self, transport: Transport, tracing: Tracing) -> None:
        self._transport = transport
        self._tracing = tracing

    def serves(self) -> Sequence[str]:
        """What it serves."""
        return self._transport.serves()

    def reaches(self, target: str) -> bool:
        """Whether it reaches the target."""
        return self._transport.reaches(target)

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """Its plan."""
        return self._transport.plan(target, namespace)

    async def attempt(self, execution: Execution) -> Outcome:
        """Have the attempt made."""
        return await self._tracing.attempt(execution, self._transport.attempt)


def _span(name: str, kind: str, facts: dict[str, Any], context: Any = None) -> Any:
    from opentelemetry import trace

    return trace.get_tracer("duly").start_as_current_span(
        name, context=context, kind=trace.SpanKind[kind], attributes=facts
    )


def _is_sampled(span: Any) -> bool:
    return bool(span.get_span_context().trace_flags.sampled)


def _fail(span: Any, failed: Failed) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("duly.reason", str(failed.reason))
    span.set_status(Status(StatusCode.ERROR, failed.error))
