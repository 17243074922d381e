"""The work that the demo accepts: orders, reminders, and a schedule of reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from duly.app import App
from duly.client.client import Client
from duly.domain.endpoints.webhooks import webhook
from duly.domain.time.rules import every
from duly.surfaces.cli.demo.birthdays import PEOPLE, has_birthdays
from duly.surfaces.cli.demo.counting import Kind

STREAMS = 8
REMINDERS = 40
OFFLINE = 20
SCHEDULE = "demo-report"
TAGS = ("demo",)
AFTER_OUTAGE = 3
"""Seconds for which reminders and reports go on after the outage."""


@dataclass(frozen=True)
class Plan:
    """How much the demo does, and how many seconds its server is away."""

    orders: int
    away: int

    @property
    def reports(self) -> int:
        """How often the schedule fires: once a second, from before the outage until after it."""
        return self.away + 2 * AFTER_OUTAGE

    def accepted(self) -> dict[Kind, int]:
        """How much of each kind is accepted."""
        greetings = {Kind.BIRTHDAYS: len(PEOPLE)} if has_birthdays() else {}
        return {
            Kind.ORDERS: self.orders,
            Kind.REMINDERS: REMINDERS,
            Kind.REPORTS: self.reports,
            **greetings,
            Kind.OFFLINE: OFFLINE,
        }


async def accept_online(plan: Plan, server: Client, url: str) -> None:
    """Accept orders and reminders in one transaction, and declare the schedule."""
    target = webhook(url)
    await server.deliver_many([*map(_order(target), range(plan.orders)), *_reminders(plan, target)])
    first = server.clock.now() + timedelta(seconds=1)
    rule = every(timedelta(seconds=1), first)
    options: dict[str, Any] = {"catch_up": "all", "max_runs": plan.reports, "start": first}
    await server.schedule(SCHEDULE, rule, target, tags=TAGS, **options)


async def accept_offline(app: App, url: str) -> None:
    """Accept deliveries in the store itself, while no server runs."""
    await app.deliver_many(_item(webhook(url), Kind.OFFLINE, number) for number in range(OFFLINE))


def _order(target: Any) -> Any:
    def order(number: int) -> dict[str, Any]:
        stream = f"demo-customer-{number % STREAMS}"
        return _item(target, Kind.ORDERS, number, stream=stream)

    return order


def _reminders(plan: Plan, target: Any) -> list[dict[str, Any]]:
    """Reminders that are due one after the other until after the outage."""
    span = plan.away + AFTER_OUTAGE
    return [
        _item(target, Kind.REMINDERS, number, after=span * (number + 1) / REMINDERS)
        for number in range(REMINDERS)
    ]


def _item(
    target: Any, kind: Kind, number: int, *, stream: str | None = None, after: float | None = None
) -> dict[str, Any]:
    payload = {"kind": kind, "number": number, "stream": stream}
    given = {"target": target, "payload": payload, "tags": TAGS, "stream": stream, "after": after}
    return {name: value for name, value in given.items() if value is not None}
