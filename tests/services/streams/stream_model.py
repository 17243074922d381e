"""A small model of one stream: which delivery runs when, and what each operation does to it."""

from __future__ import annotations

from dataclasses import dataclass, field

ATTEMPTS = 3
RETRY_SECONDS = 60.0
BLOCK_SECONDS = 150.0


@dataclass
class Item:
    """One delivery: `plan` are the results of its attempts, completed if there is none."""

    n: int
    plan: list[str]
    state: str = "pending"
    attempt: int = 0
    is_queued: bool = True
    due: float = 0.0
    retry_at: float = 0.0
    """When it is due after its last failure."""


@dataclass
class StreamModel:
    """The deliveries by position; a delivery that has left the queue runs by itself."""

    items: list[Item] = field(default_factory=list)
    now: float = 0.0
    blocked: Item | None = None
    until: float | None = None
    """When the block of the present head ends."""
    ran: list[int] = field(default_factory=list)
    """What ran in the queue, in order."""

    @property
    def queue(self) -> list[Item]:
        """The pending deliveries of the queue, in order."""
        return [each for each in self.items if each.is_queued and each.state == "pending"]

    @property
    def head(self) -> Item | None:
        """The delivery that the others wait for."""
        return self.blocked or next(iter(self.queue), None)

    @property
    def followers(self) -> list[Item]:
        """Those that wait behind the head."""
        return [each for each in self.queue if each is not self.head]

    @property
    def state(self) -> str:
        """The state of the stream when nothing is due."""
        if self.blocked is not None:
            return "blocked"
        return "idle" if self.head is None else "retrying"

    def accept(self, plan: list[str]) -> None:
        """Add a delivery at the end."""
        self.items.append(Item(len(self.items), list(plan), due=self.now, retry_at=self.now))

    def run(self) -> None:
        """Do everything that is due now."""
        if self.until is not None and self.until <= self.now:
            self.release()
        for each in self.items:
            if each.state == "pending" and not each.is_queued and each.due <= self.now:
                self._attempt(each)
        while (head := self.head) is not None and self.blocked is None and head.due <= self.now:
            self.ran.append(head.n)
            self._attempt(head)
            if head.state == "completed":
                self._lead(by_retry=False)
            elif head.state == "dead":
                self.blocked = head
            if head.state != "completed" and self.until is None:
                self.until = self.now + BLOCK_SECONDS

    def _attempt(self, item: Item) -> None:
        result = item.plan.pop(0) if item.plan else "completes"
        item.attempt += 1
        if result == "completes":
            item.state = "completed"
        elif result == "dies" or item.attempt == ATTEMPTS:
            item.state = "dead"
        item.due = item.retry_at = self.now + RETRY_SECONDS

    def _lead(self, *, by_retry: bool) -> None:
        """Begin with another head: due as after its last failure, or at once."""
        self.until = None
        if (head := self.head) is not None:
            head.due = head.retry_at if by_retry else self.now

    def release(self) -> None:
        """Let the failed head leave the queue."""
        assert self.head is not None
        self.head.is_queued = False
        self.blocked = None
        self._lead(by_retry=True)

    def release_followers(self, chosen: list[Item]) -> None:
        """Let some of those behind it leave the queue."""
        for each in chosen:
            each.is_queued, each.due = False, each.retry_at

    def retry(self, item: Item) -> None:
        """Retry the head, or put a dead letter back at its position."""
        before = self.head
        if item.state == "dead":
            item.state, item.attempt, item.retry_at = "pending", 0, self.now
            item.is_queued = True
            if self.blocked is item:
                self.blocked = None
                self.until = None
        if self.head is item:
            item.due = self.now
        if self.head is not before:
            self.until = None
            if self.head is not None and self.head is not item:
                self.head.due = self.head.retry_at

    def discard(self, item: Item) -> None:
        """Discard a dead letter."""
        item.state = "cancelled"
        if self.blocked is item:
            self.blocked = None
            self._lead(by_retry=True)
