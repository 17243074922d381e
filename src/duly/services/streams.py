"""Streams as people handle them: looked at, configured, paused, resumed, and set going again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.domain import checks
from duly.domain.streams import operations
from duly.domain.streams.operations import Intervention
from duly.domain.streams.policy import OF_SCHEDULES, checked_policy, checked_stream
from duly.domain.streams.stream import StreamRow, stream_of
from duly.errors import Conflict, InvalidInput
from duly.ports import DecideStream, Store
from duly.records.stream import OnFailure, Stream, StreamState

COUNTED_UP_TO = 1_000_000
COUNTED_IN_LISTS = 10_000
LONGEST_NOTE = 1000
LISTED = (StreamState.BLOCKED, StreamState.PAUSED)


class Streams:
    """The streams of one app; `actor` is who the audit trail says it was."""

    def __init__(self, store: Store, actor: str = "python") -> None:
        self._store = store
        self.actor = actor

    async def get(self, name: str) -> Stream:
        """One stream as it stands, or NotFound; those who wait are counted up to a million."""
        return stream_of(await self._store.streams.get(checked_stream(name), COUNTED_UP_TO))

    async def list(
        self, state: StreamState | str | None = None, *, after: str = "", limit: int = 50
    ) -> Sequence[Stream]:
        """Streams by name: all of them, or those that are `blocked` or `paused`.

        `after` is the last name of the page before. Those who wait are counted up to ten thousand.
        """
        wanted = None if state is None else _listed(state)
        limit = checks.checked_limit(limit)
        start = checks.checked_start("after", after)
        found = await self._store.streams.page(wanted, start, limit, COUNTED_IN_LISTS)
        return [stream_of(each) for each in found]

    async def configure(self, name: str, *, on_failure: OnFailure | str | None) -> Stream:
        """Say what a failed head does to those behind it: `block`, `release`, or None for block.

        It counts from the next failure on; a delivery that has a policy of its own goes by that.
        The stream need not have been used yet.
        """
        policy = None if on_failure is None else checked_policy(on_failure)
        if name.startswith(OF_SCHEDULES):
            raise InvalidInput("stream", f"{name!r} belongs to a schedule, whose overlap decides")

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            return operations.configure(line, policy)

        detail = {"on_failure": policy}
        return await self._revised(name, decide, "configured", detail, create=True)

    async def pause(self, name: str, reason: str | None = None) -> Stream:
        """Start nothing more of it until it is resumed; it goes on accepting.

        What is claimed already is finished: at most a run, which is 32 deliveries.
        """
        told = None if reason is None else checks.checked_text("reason", reason, LONGEST_NOTE)

        def decide(line: StreamRow, now: datetime) -> Intervention:
            return operations.pause(line, now, told)

        return await self._revised(name, decide, "paused", {"reason": told})

    async def resume(self, name: str) -> Stream:
        """Let it go on where it stopped; one that is blocked stays so."""

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            return operations.resume(line)

        return await self._revised(name, decide, "resumed")

    async def retry_now(self, name: str) -> Stream:
        """Try its head now: one that waits is due, a dead one is pending with all its attempts."""

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            return operations.retry_now(line)

        return await self._revised(name, decide, "retried")

    async def release(self, name: str) -> Stream:
        """Let those behind a failed head go on.

        One that waits for its retry leaves the line and is retried when it was to be; a dead one
        stays dead. Conflict when its head has not failed.
        """

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            return operations.release(line)

        return await self._revised(name, decide, "released")

    async def release_delivery(self, id: str) -> Stream:
        """Let those behind this delivery go on; Conflict when it is not its stream's head."""
        delivery = await self._store.deliveries.get(checks.checked_id(id))
        if delivery.stream is None:
            raise Conflict(f"delivery {id} is in no stream, so nothing waits behind it")

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            if line.head != delivery.id:
                raise Conflict(
                    f"delivery {id} is {delivery.state} and not the head of stream {line.name}, "
                    f"so nothing waits behind it; its head is {line.head or 'nobody'}"
                )
            return operations.release(line)

        return await self._revised(delivery.stream, decide, "released")

    async def dead_letter_head(self, name: str, note: str | None = None) -> Stream:
        """Give its head up; those behind it go on, whatever the policy."""
        told = None if note is None else checks.checked_text("note", note, LONGEST_NOTE)

        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            return operations.dead_letter_head(line, told)

        return await self._revised(name, decide, "dead_lettered", {"note": told})

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
