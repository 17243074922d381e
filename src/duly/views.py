"""What an App shows of its store: a face for each kind of thing, in one namespace, as one actor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Self

from duly.domain.deliveries import retry
from duly.domain.deliveries.delivery import Delivery
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.endpoints.endpoint import is_outside
from duly.ports import Chance, Clock, Store
from duly.services.access.audit import Audit
from duly.services.access.idempotency import IdempotentRequests
from duly.services.access.keys import Keys
from duly.services.dead_letters import DeadLetters
from duly.services.deliveries.acceptor import Acceptor
from duly.services.deliveries.intake import Intake
from duly.services.deliveries.transactions import Outbox
from duly.services.deliveries.waiting import Outlook, outlook
from duly.services.endpoints import Endpoints
from duly.services.schedules import Schedules
from duly.services.streams import Streams
from duly.services.transfer.exporting import Exporting
from duly.services.transfer.importing import Importing
from duly.services.workers import Workers
from duly.settings import Settings
from duly.telemetry import Telemetry
from duly.telemetry.tracing import Tracing
from duly.transports.combined import Routes
from duly.transports.handlers.registry import Handlers
from duly.transports.webhooks.sender import Webhooks
from duly.vault import Vault

WITH_ACTOR = (
    *("schedules", "streams", "dead_letters", "endpoints", "workers", "keys"),
    *("exporting", "importing"),
)
"""The faces that change things, and say who did."""


class Faces:
    """The faces over a store; whoever inherits provides what they are made of."""

    settings: Settings
    clock: Clock
    chance: Chance
    store: Store
    vault: Vault
    handlers: Handlers
    webhooks: Webhooks
    transports: Routes
    telemetry: Telemetry
    actor: str | None = None
    """Who moves deliveries, if it is not the program for itself; the audit trail tells only those.
    """

    def _furnish(
        self, handlers: Callable[[], Sequence[str]], plan: Callable[[str], RetryPlan]
    ) -> None:
        """Set up whatever takes in, shows and moves over the app's store."""
        self.tracing = Tracing(self.store.traces)
        self.telemetry.trace_of = self.tracing.trace_of
        self._acceptor = Acceptor(self.store, self.clock, self.telemetry.emit)
        limit = self.settings.payload_limit
        self._intake = Intake(
            self.store, self.clock, self.chance, handlers, self.webhooks.check, limit
        )
        self._outbox = Outbox(self.store, self._intake.check, self._intake.expects)
        self.schedules = Schedules(
            self.store,
            self.clock,
            self.chance,
            self._intake.check,
            limit,
            addressed=self._intake.addressed,
        )
        self.dead_letters = DeadLetters(self.store, self.clock, plan, limit)
        self.endpoints = Endpoints(
            self.store,
            self.clock,
            self.chance,
            self.vault,
            self.dead_letters,
            self.webhooks.check,
            self.webhooks.try_out,
            self.settings.plan or retry.WEBHOOK,
        )
        self.streams = Streams(self.store)
        self.workers = Workers(self.store)
        self.keys = Keys(self.store, self.clock, self.chance)
        self.audit = Audit(self.store)
        self.exporting = Exporting(self.store, self.clock, self.vault)
        self.importing = Importing(self.store, self.vault, limit)
        self.requests = IdempotentRequests(self.store, self.chance.delivery_id)

    async def outlook(self, delivery: Delivery) -> Outlook:
        """Which endpoint it goes to, if to one, and what it waits for besides its moment."""
        default = self.settings.plan or retry.WEBHOOK
        return await outlook(self.store, self.endpoints.problem, delivery, default)

    def within(self, namespace: str) -> Self:
        """This app in another namespace of its store: it takes in, shows and moves, runs nothing.

        It is open as long as this one. If this process works for the namespace, it has the handlers
        of this process; otherwise only the store can tell which there are.
        """
        view = copy(self)
        view.store = self.store.within(namespace)
        # What happens there is not to be found among what happens here.
        view.telemetry = Telemetry(self.clock.monotonic)
        served = self.settings.served
        if served is None or namespace in served:
            view._furnish(self.handlers.serves, view.plan)
        else:
            view._furnish(tuple, self._plan_elsewhere)
        return view

    def plan(self, target: str) -> RetryPlan:
        """The retry plan of deliveries to a target that carry none, as this process knows it."""
        return self.transports.plan(target, self.store.namespace)

    def acting_as(self, actor: str) -> Self:
        """This app, with `actor` as the one who the audit trail says made its changes."""
        view = copy(self)
        view.actor = actor
        for name in WITH_ACTOR:
            face = copy(getattr(self, name))
            face.actor = actor
            setattr(view, name, face)
        view.endpoints.dead_letters = view.dead_letters
        return view

    def _plan_elsewhere(self, target: str) -> RetryPlan:
        """A target's retry plan, as far as one knows who does not work for its namespace."""
        return self.settings.plan or (retry.WEBHOOK if is_outside(target) else retry.DEFAULT)
