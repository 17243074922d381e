"""A server's books: what operators' commands ask of an App, asked over HTTP instead."""

from __future__ import annotations

from duly.client.access import Alerts, Audit, Keys, Workers
from duly.client.bulk import Moving
from duly.client.connection import Wire
from duly.client.dead_letters import DeadLetters
from duly.client.deliveries import Deliveries
from duly.client.endpoints import Endpoints
from duly.client.monitoring import Stats
from duly.client.schedules import Schedules
from duly.client.streams import Streams
from duly.ports import Chance, Clock


class Remote:
    """What a server shows of its store, to whoever has its address and a key."""

    def __init__(self, server: str, key: str, clock: Clock, chance: Chance) -> None:
        self.clock = clock
        self._wire = wire = Wire(server, key, clock, chance)
        moving = Moving(wire, clock)
        self.deliveries = own = Deliveries(wire)
        self.deliver, self.get, self.list, self.page = own.deliver, own.get, own.list, own.page
        self.attempts, self.steps = own.attempts, own.steps
        self.cancel, self.retry = own.cancel, own.retry
        self.stats = self.watch = Stats(wire)
        self.schedules = Schedules(wire)
        self.streams = Streams(wire)
        self.dead_letters = DeadLetters(wire, moving)
        self.endpoints = Endpoints(wire, moving)
        self.workers = Workers(wire)
        self.alerts = Alerts(wire)
        self.keys = Keys(wire)
        self.audit = Audit(wire)
