"""Workers as people handle them: listed, drained, and set to work again."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain import checks
from duly.errors import InvalidInput
from duly.ports import Store
from duly.records.worker import Worker

MOST_WORKERS = 2**31 - 1


class Workers:
    """The workers of one app's namespace; `actor` is who the audit trail says it was."""

    def __init__(self, store: Store, actor: str = "python") -> None:
        self._store = store
        self.actor = actor

    async def list(self, *, limit: int = 100) -> Sequence[Worker]:
        """Workers, those alive first."""
        return await self._store.workers.roster(checks.checked_limit(limit))

    async def drain(self, worker: int) -> None:
        """Let it start nothing more, within a heartbeat; what runs there ends, and it stays.

        NotFound when it is not alive. What it does not take is for the others, if there are any.
        """
        await self._store.workers.drain(_checked(worker), self.actor, draining=True)

    async def resume(self, worker: int) -> None:
        """Let it start work again."""
        await self._store.workers.drain(_checked(worker), self.actor, draining=False)


def _checked(worker: object) -> int:
    whole = isinstance(worker, int) and not isinstance(worker, bool)
    if not whole or not 1 <= worker <= MOST_WORKERS:  # type: ignore[operator]
        raise InvalidInput("worker", f"{worker!r} is no worker's number")
    return worker  # type: ignore[return-value]
