"""A small model of deliveries with one unique key: at most one runs and at most one waits."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Item:
    """One delivery; times are seconds since the beginning."""

    n: int
    payload: int
    accepted: float
    due: float
    """When it is due as its record says."""
    lane: float
    """When it is due next."""
    written: float
    state: str = "waiting"
    attempt: int = 0
    replaced: int = 0
    superseded: bool = False


@dataclass
class UniqueModel:
    """The deliveries with the key, in the order of acceptance."""

    now: float = 0.0
    items: list[Item] = field(default_factory=list)

    def only(self, state: str) -> Item | None:
        """The one in this state; there is never more than one that waits or runs."""
        found = [each for each in self.items if each.state == state]
        assert len(found) <= 1
        return found[0] if found else None

    def accept(self, payload: int, policy: str, after: float, latest: float | None) -> Item:
        """Accept one; returns the one that waits then."""
        waits, due = self.only("waiting"), self.now + after
        if waits is None:
            waits = Item(len(self.items), payload, self.now, due, due, self.now)
            self.items.append(waits)
        elif policy != "keep":
            waits.payload, waits.written, waits.attempt = payload, self.now, 0
            waits.replaced += 1
            if policy == "postpone":
                limit = due if latest is None else waits.accepted + latest
                waits.due = waits.lane = min(due, limit)
        return waits

    def claim(self) -> Item | None:
        """Claim the one that waits, if it is due and none runs."""
        waits = self.only("waiting")
        if waits is None or self.only("running") is not None or waits.lane > self.now:
            return None
        waits.state = "running"
        return waits

    def end(self, state: str) -> None:
        """The running one ends or dies; the next one is due when it is due."""
        runs, waits = self.only("running"), self.only("waiting")
        assert runs is not None
        runs.attempt += 1
        runs.state = state
        if waits is not None:
            waits.lane = waits.due

    def put_back(self, *, wait: float | None, spends: bool) -> None:
        """The running one should wait again; of two the one with the older contents ends."""
        runs, waits = self.only("running"), self.only("waiting")
        assert runs is not None
        runs.attempt += spends
        runs.lane = runs.lane if wait is None else self.now + wait
        runs.state = "waiting"
        if waits is None:
            return
        older = runs if runs.written <= waits.written else waits
        older.state, older.superseded = "cancelled", True
        if older is runs:
            waits.lane = waits.due

    def retry(self, item: Item) -> bool:
        """Retry a dead letter; False if another waits."""
        if self.only("waiting") is not None:
            return False
        item.state, item.attempt = "waiting", 0
        item.lane = self.now if self.only("running") is None else item.lane
        return True
