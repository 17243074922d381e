"""When a worker stands aside: it claims nothing, so that a suspect can run alone on it.

One worker at a time does, of all that serve a namespace: the store sees to that, and the others go
on. One that has work running waits for it, but not for ever: suspects and the rest take turns, and
either has the worker for about as long as the other had it.
"""

from __future__ import annotations

from duly.ports import Clock, Workers

PATIENCE_SECONDS = 2.0
"""How long a suspect waits for an idle worker before a busy one stands aside for it."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0
"""How long a worker that stands aside waits for its own work: twice as long each time in vain."""
ASK_AGAIN_SECONDS = 1.0


class Aside:
    """Whether this worker stands aside, since when, and when it may do so again."""

    def __init__(self, workers: Workers, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._worker: int | None = None
        self._since = self._due_since = 0.0
        self._asks_at = self._rests_until = float("-inf")
        self._wait = FIRST_WAIT_SECONDS
        self._is_waited_for = False

    def again_in(self) -> float:
        """How many seconds until it is worth looking at the suspects again."""
        if self._worker is not None:
            return max(0.0, self._since + self._wait - self._clock.monotonic())
        return ASK_AGAIN_SECONDS

    def wants(self, *, suspects: bool, is_idle: bool, others: bool) -> bool:
        """Whether a suspect is to be claimed next, or waited for; `others` are due as well."""
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

    async def stand(self, worker: int) -> bool:
        """Stand aside; False when another worker does."""
        if self._worker is None:
            now = self._clock.monotonic()
            if not await self._workers.step_aside(worker):
                self._asks_at = now + ASK_AGAIN_SECONDS
                return False
            self._worker, self._since = worker, now
        return True

    async def leave(self, *, in_vain: bool = False) -> None:
        """Claim as usual again; the rest now has its turn."""
        if self._worker is None:
            return
        await self._workers.step_in(self._worker)
        now = self._clock.monotonic()
        self._wait = min(2 * self._wait, LONGEST_WAIT_SECONDS) if in_vain else FIRST_WAIT_SECONDS
        stood = min(now - self._since, LONGEST_WAIT_SECONDS)
        self._rests_until = now + max(stood, PATIENCE_SECONDS)
        self.forget()

    def put_off(self) -> None:
        """No suspect was to be had after all."""
        self._asks_at = self._clock.monotonic() + ASK_AGAIN_SECONDS

    def forget(self) -> None:
        """It stands aside no more, nor does its worker."""
        self._worker, self._is_waited_for = None, False
