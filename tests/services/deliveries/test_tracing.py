"""Traces: from the caller through the delivery to the receiver of the webhook."""

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import duly
from duly import App
from duly.testing import run_until_idle
from tests.transports.receiver import receiver

pytestmark = pytest.mark.requirement("S3")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The finished spans; the provider belongs to this test."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
async def traced(database_url: str) -> AsyncIterator[App]:
    async with App(database_url, environment={}, egress_allow="127.0.0.1") as opened:
        yield opened


async def test_a_trace_covers_acceptance_attempt_and_receiver(
    traced: App, spans: InMemorySpanExporter
) -> None:
    async with receiver() as target:
        accepted = await traced.deliver(duly.webhook(target.url("/hook")), 1)
        await run_until_idle(traced)
    accept, attempt = spans.get_finished_spans()
    assert (accept.name, attempt.name) == ("duly.accept", "duly.attempt")
    assert attempt.context.trace_id == accept.context.trace_id
    assert attempt.parent is not None
    assert attempt.parent.span_id == accept.context.span_id
    assert dict(attempt.attributes or {})["duly.delivery"] == accepted.id
    (taken,) = target.taken
    expected = f"00-{attempt.context.trace_id:032x}-{attempt.context.span_id:016x}-"
    assert taken.headers["traceparent"].startswith(expected)


async def test_a_failed_attempt_is_logged_with_its_trace(
    traced: App, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    @traced.handler("work")
    async def work(_: Any) -> None:
        raise ValueError("no")

    await traced.deliver("work", retry=duly.no_retry)
    with caplog.at_level(logging.WARNING, "duly"):
        await run_until_idle(traced)
    _, attempt = spans.get_finished_spans()
    assert not attempt.status.is_ok
    (record,) = [each for each in caplog.records if each.event == "AttemptFailed"]  # type: ignore[attr-defined]
    assert record.facts["trace"] == f"{attempt.context.trace_id:032x}"  # type: ignore[attr-defined]


async def test_without_tracing_nothing_is_stored(traced: App) -> None:
    @traced.handler("work")
    async def work(_: Any) -> None:
        pass

    accepted = await traced.deliver("work")
    await run_until_idle(traced)
    assert await traced.store.traces.parent(accepted.id) is None


def test_opentelemetry_is_not_imported_without_tracing() -> None:
    program = "import sys, duly; duly.App('sqlite:///x.db'); print('opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
