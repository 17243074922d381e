"""Isolation of a worker: it claims nothing else, so that a suspect can run alone on it.

The store allows one isolated worker at a time; the others go on. A busy worker waits for its own
work, but not for ever: suspects and other deliveries get the worker in turn, for about equal times.
"""

from __future__ import annotations

from duly.ports import Clock, Workers

PATIENCE_SECONDS = 2.0
"""How long a suspect waits for an idle worker before a busy one isolates itself for it."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0
"""How long an isolated worker waits for its own work; doubled after each wait in vain."""
ASK_AGAIN_SECONDS = 1.0


class Isolation:
    """Whether this worker is isolated, since when, and when it may be again."""

    def __init__(self, workers: Workers, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._worker: int | None = None
        self._since = self._due_since = 0.0
        self._asks_at = self._rests_until = float("-inf")
        self._wait = FIRST_WAIT_SECONDS
        self._is_waited_for = False

    def again_in(self) -> float:
        """Seconds until it is worth looking at the suspects again."""
        if self._worker is not None:
            return max(0.0, self._since + self._wait - self._clock.monotonic())
        return ASK_AGAIN_SECONDS

    def wants(self, *, suspects: bool, is_idle: bool, others: bool) -> bool:
        """Whether to claim, or wait for, a suspect next; `others`: other deliveries are due too."""
        now = self._clock.monotonic()
        if not suspects:
            self._is_waited_for = False
            return False
        if not self._is_waited_for:
            self._is_waited_for, self._due_since = True, now
        if self._worker is not None:
            return is_idle or now < self._since + self._wait
        if now < self._asks_at:
            return False
        if is_idle and not others:
            return True
        rested = now >= self._rests_until
        return rested and (is_idle or now >= self._due_since + PATIENCE_SECONDS)

    async def enter(self, worker: int) -> bool:
        """Isolate this worker; False if another one is isolated."""
        if self._worker is None:
            now = self._clock.monotonic()
            if not await self._workers.reserve_suspects(worker):
                self._asks_at = now + ASK_AGAIN_SECONDS
                return False
            self._worker, self._since = worker, now
        return True

    async def leave(self, *, in_vain: bool = False) -> None:
        """End the isolation; it is the turn of the other deliveries."""
        if self._worker is None:
            return
        await self._workers.release_suspects(self._worker)
        now = self._clock.monotonic()
        self._wait = min(2 * self._wait, LONGEST_WAIT_SECONDS) if in_vain else FIRST_WAIT_SECONDS
        stood = min(now - self._since, LONGEST_WAIT_SECONDS)
        self._rests_until = now + max(stood, PATIENCE_SECONDS)
        self.reset()

    def postpone(self) -> None:
        """No suspect could be claimed: try again later."""
        self._asks_at = self._clock.monotonic() + ASK_AGAIN_SECONDS

    def reset(self) -> None:
        """Reset after the isolation ended in the store as well."""
        self._worker, self._is_waited_for = None, False
