"""OpenTelemetry spans for accepting and attempting deliveries, passed on to webhooks.

OpenTelemetry is used only if the application has set it up; otherwise it is not even imported.
A trace that cannot be stored or read never fails a delivery.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from duly.domain.deliveries.outcomes import Failed, Outcome
from duly.errors import StoreUnavailable
from duly.ports import Execution, Traces, Transport
from duly.records.delivery import Accepted

MOST_REMEMBERED = 10_000
PARENT = "traceparent"


class Tracing:
    """Opens spans, and stores the parent span of each sampled delivery.

    `recent` receives the traces of the deliveries that were attempted here last, by their ids.
    """

    def __init__(self, traces: Traces, recent: dict[str, str]) -> None:
        self._traces = traces
        self._recent = recent

    @property
    def is_on(self) -> bool:
        """Whether the application has set up a tracer provider."""
        trace = sys.modules.get("opentelemetry.trace")
        return trace is not None and not isinstance(
            trace.get_tracer_provider(), trace.ProxyTracerProvider
        )

    async def accept(self, target: str, accepting: Callable[[], Awaitable[Accepted]]) -> Accepted:
        """Accept a delivery within a span, and store the span as its parent if it is sampled."""
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
        """Make the attempt within a span whose parent is the span that accepted the delivery."""
        from opentelemetry.propagate import extract

        claimed = execution.claimed
        attributes = {
            "duly.delivery": claimed.id,
            "duly.target": execution.target,
            "duly.attempt": claimed.attempt + 1,
        }
        parent = await self._parent(claimed.id)
        context = None if parent is None else extract({PARENT: parent})
        with _span("duly.attempt", "CONSUMER", attributes, context) as span:
            self._remember(claimed.id, span)
            outcome = await attempting(execution)
            if isinstance(outcome, Failed):
                _mark_failed(span, outcome)
        return outcome

    def carried(self) -> dict[str, str]:
        """The headers that pass the current span on to a webhook's receiver."""
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
    """Wraps a transport so that each attempt runs within a span."""

    def __init__(self, transport: Transport, tracing: Tracing) -> None:
        self.serves, self.reaches, self.plan = transport.serves, transport.reaches, transport.plan
        self._transport = transport
        self._tracing = tracing

    async def attempt(self, execution: Execution) -> Outcome:
        """Make the attempt within a span."""
        return await self._tracing.attempt(execution, self._transport.attempt)


def _span(name: str, kind: str, attributes: dict[str, Any], context: Any = None) -> Any:
    from opentelemetry import trace

    return trace.get_tracer("duly").start_as_current_span(
        name, context=context, kind=trace.SpanKind[kind], attributes=attributes
    )


def _is_sampled(span: Any) -> bool:
    return bool(span.get_span_context().trace_flags.sampled)


def _mark_failed(span: Any, failed: Failed) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("duly.reason", str(failed.reason))
    span.set_status(Status(StatusCode.ERROR, failed.error))
