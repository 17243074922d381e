"""Streams: listed, configured, paused, resumed, retried and released."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Unpack

from duly.domain import checks
from duly.domain.streams import operations
from duly.domain.streams.operations import Intervention
from duly.domain.streams.policy import OF_SCHEDULES, checked_stream, checked_stream_options
from duly.domain.streams.selection import checked_selection
from duly.domain.streams.stream import StreamRow, stream_of
from duly.errors import Conflict, InvalidInput
from duly.ports import DecideStream, Store
from duly.records.stream import Stream, StreamKeywords, StreamState

COUNTED_UP_TO = 1_000_000
COUNTED_IN_LISTS = 10_000
LONGEST_NOTE = 1000
LISTED = (StreamState.BLOCKED, StreamState.PAUSED)


class Streams:
    """The streams of one namespace; `actor` is named in the audit trail."""

    def __init__(self, store: Store, actor: str = "python") -> None:
        self._store = store
        self.actor = actor

    async def get(self, name: str) -> Stream:
        """One stream, or NotFound; waiting deliveries are counted up to a million."""
        return stream_of(await self._store.streams.get(checked_stream(name), COUNTED_UP_TO))

    async def list(
        self, state: StreamState | str | None = None, *, after: str = "", limit: int = 50
    ) -> Sequence[Stream]:
        """Streams by name: all of them, or those that are `blocked` or `paused`.

        `after` is the last name of the previous page. Waiting deliveries are counted up to 10,000.
        """
        wanted = None if state is None else _listed(state)
        limit = checks.checked_limit(limit)
        start = checks.checked_start("after", after)
        found = await self._store.streams.page(wanted, start, limit, COUNTED_IN_LISTS)
        return [stream_of(each) for each in found]

    async def configure(self, name: str, **options: Unpack[StreamKeywords]) -> Stream:
        """Set what a failed head does to those behind it, and for how long; others stay as set.

        `on_failure` is `block`, `release`, or None for block. It applies from the next failure on,
        except to deliveries with a policy of their own. `block_for`, as in `"15m"`, limits a block,
        also the present one: so long after its first failure in a row, the head is released; None
        is without a limit. The stream need not exist yet.
        """
        changes = checked_stream_options(options)
        if name.startswith(OF_SCHEDULES):
            raise InvalidInput("stream", f"{name!r} belongs to a schedule; set its overlap")
        return await self._revised(
            name,
            lambda row, _: operations.configure(row, changes),
            "configured",
            changes,
            create=True,
        )

    async def pause(self, name: str, reason: str | None = None) -> Stream:
        """Start no more of its deliveries until it is resumed; it still accepts new ones.

        Those already claimed, at most 32, are finished.
        """
        why = None if reason is None else checks.checked_text("reason", reason, LONGEST_NOTE)
        return await self._revised(
            name, lambda row, now: operations.pause(row, now, why), "paused", {"reason": why}
        )

    async def resume(self, name: str) -> Stream:
        """Continue a paused stream; one that is blocked stays blocked."""
        return await self._revised(name, lambda row, _: operations.resume(row), "resumed")

    async def retry_now(self, name: str) -> Stream:
        """Retry its head now; a dead one gets all its attempts again."""
        return await self._revised(name, lambda row, _: operations.retry_now(row), "retried")

    async def release(
        self,
        name: str,
        *,
        only: Iterable[str] | None = None,
        keep: Iterable[str] | None = None,
    ) -> Stream:
        """Let those behind a failed head proceed: all, `only` these, or all except those to `keep`.

        Without a selection, a head that waits for its retry leaves the stream and is retried at
        that time; a dead one stays dead. With one, the head stays, and the released deliveries
        leave the stream and run beside it and each other. Conflict if its head has not failed.
        """
        chosen = checked_selection(only, keep)
        if chosen is None:
            return await self._revised(name, lambda row, _: operations.release(row), "released")
        name = checked_stream(name)
        await self._store.streams.release_followers(name, chosen, self.actor)
        self._store.wakeups.hint()
        return await self.get(name)

    async def release_delivery(self, id: str) -> Stream:
        """Let those behind this delivery proceed; Conflict if it is not its stream's head."""
        delivery = await self._store.deliveries.get(checks.checked_id(id))
        if delivery.stream is None:
            raise Conflict(f"delivery {id} is in no stream, so nothing waits behind it")

        def decide(row: StreamRow, _now: datetime) -> Intervention:
            if row.head != delivery.id:
                raise Conflict(
                    f"delivery {id} is {delivery.state} and not the head of stream {row.name}, "
                    f"so nothing waits behind it; the stream's head is {row.head or 'empty'}"
                )
            return operations.release(row)

        return await self._revised(delivery.stream, decide, "released")

    async def cancel_head(self, name: str) -> Stream:
        """Cancel its head, or ask for it if it runs; those behind it proceed.

        Conflict if it has no head, or a dead one.
        """
        name = checked_stream(name)
        head = (await self._store.streams.get(name, 0)).head
        if head is None:
            raise Conflict(f"stream {name} is idle; it has no head that could be cancelled")
        await self._store.deliveries.cancel(head, self.actor)
        self._store.wakeups.hint()
        return await self.get(name)

    async def dead_letter_head(self, name: str, note: str | None = None) -> Stream:
        """Make its head a dead letter; those behind it proceed under any policy."""
        why = None if note is None else checks.checked_text("note", note, LONGEST_NOTE)
        return await self._revised(
            name,
            lambda row, _: operations.dead_letter_head(row, why),
            "dead_lettered",
            {"note": why},
        )

    async def _revised(
        self,
        name: str,
        decide: DecideStream,
        action: str,
        detail: dict[str, Any] | None = None,
        *,
        create: bool = False,
    ) -> Stream:
        name = checked_stream(name)
        await self._store.streams.revise(name, decide, self.actor, action, detail, create=create)
        self._store.wakeups.hint()
        return await self.get(name)


def _listed(state: StreamState | str) -> StreamState:
    try:
        wanted = StreamState(state)
    except ValueError:
        wanted = None
    if wanted not in LISTED:
        raise InvalidInput("state", f"{state!r} cannot be listed; give blocked or paused")
    return wanted
