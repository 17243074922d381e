"""A server's dead letters: listed, grouped, retried, edited, discarded, held and given up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from duly.client.bulk import Moving
from duly.client.requester import Requester, page_of
from duly.client.targets import contents
from duly.domain.checks import checked_id
from duly.domain.dead_letters import ALL, checked, checked_note
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery, ExplainedDelivery
from duly.records.page import Page
from duly.records.retry_plan import RetryPlan

PLACE = "dead-letters"


class DeadLetters:
    """The dead letters of one server."""

    def __init__(self, requester: Requester, moving: Moving) -> None:
        self._requester = requester
        self._moving = moving

    async def list(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Sequence[Delivery]:
        """Dead letters, latest first; `before` is `place` of the last one of the previous page."""
        return await self._requester.listed(
            Delivery, PLACE, limit=limit, cursor=before, payloads=payloads, **_query(filter)
        )

    async def page(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Page[Delivery]:
        """A page in bounded time; `before` is the `next` of the previous page."""
        return await self._requester.get(
            page_of(Delivery),
            PLACE,
            limit=limit,
            cursor=before,
            payloads=payloads,
            **_query(filter),
        )

    async def groups(
        self, filter: DeadLetterFilter = ALL, *, limit: int = 50
    ) -> Sequence[DeadLetterGroup]:
        """Dead letters by fingerprint, the largest group first."""
        kind = page_of(DeadLetterGroup)
        return (
            await self._requester.get(kind, PLACE, "groups", limit=limit, **_query(filter))
        ).items

    async def count(self, filter: DeadLetterFilter = ALL) -> int:
        """How many dead letters match."""
        # Of the operations, this one leaves out none of them.
        body = {**_which(filter), "note": "only counted", "dry_run": True}
        return (
            await self._requester.post(BulkResult, PLACE, "discard", body=body, safe=True)
        ).matching

    async def retry(self, id: str, *, reset_attempts: bool = True) -> Delivery:
        """Retry one, at its position in its stream; Conflict if it is not dead."""
        body = {"reset_attempts": reset_attempts}
        return await self._requester.post(Delivery, PLACE, checked_id(id), "retry", body=body)

    async def edit(self, id: str, payload: Any) -> Delivery:
        """Replace the payload of one and retry it with all its attempts."""
        body = {"payload": contents(payload)}
        return await self._requester.post(Delivery, PLACE, checked_id(id), "edit", body=body)

    async def discard(self, id: str, note: str) -> Delivery:
        """Cancel one; `note` is the reason. A stream that it blocked continues."""
        return await self._noted(id, "discard", note)

    async def hold(self, id: str, note: str) -> Delivery:
        """Hold one: no policy and no bulk retry touches it until it is released."""
        return await self._noted(id, "hold", note)

    async def release(self, id: str) -> Delivery:
        """Release one that is held; recovery policies apply to it again from the start."""
        return await self._requester.post(Delivery, PLACE, checked_id(id), "release")

    async def give_up(self, id: str, note: str) -> Delivery:
        """Give one up for good: it stays a dead letter. A stream that it blocked continues."""
        return await self._noted(id, "give-up", note)

    async def _noted(self, id: str, move: str, note: str) -> Delivery:
        body = {"note": checked_note(note)}
        return await self._requester.post(Delivery, PLACE, checked_id(id), move, body=body)

    def retry_all(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        rate: float | None = None,
        reset_attempts: bool = True,
    ) -> AsyncIterator[BulkProgress]:
        """Retry all that match, at most `rate` a second; yields the progress."""
        body = {**_which(filter), "rate": rate, "reset_attempts": reset_attempts}
        return self._moving.all((PLACE, "retry"), body, rate)

    def discard_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Cancel all that match; `note` is the reason. Yields the progress."""
        return self._all_noted("discard", filter, note)

    def hold_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Hold all that match and are not given up; `note` is the reason. Yields the progress."""
        return self._all_noted("hold", filter, note)

    def release_all(self, filter: DeadLetterFilter = ALL) -> AsyncIterator[BulkProgress]:
        """Release all held ones that match; yields the progress."""
        return self._moving.all((PLACE, "release"), _which(filter))

    def give_up_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Give up all that match for good; `note` is the reason. Yields the progress."""
        return self._all_noted("give-up", filter, note)

    def _all_noted(
        self, move: str, filter: DeadLetterFilter, note: str
    ) -> AsyncIterator[BulkProgress]:
        body = {**_which(filter), "note": checked_note(note)}
        return self._moving.all((PLACE, move), body)

    async def poison_candidates(
        self,
        *,
        limit: int = 50,
        last_attempts: bool = False,
        plan: Callable[[str], RetryPlan] | None = None,
        payloads: bool = True,
    ) -> Sequence[ExplainedDelivery]:
        """Unfinished deliveries whose workers died, optionally also those with one attempt left."""
        if plan is not None:
            raise InvalidInput("handlers", "a server uses its own handlers; leave them out")
        kind = page_of(ExplainedDelivery)
        wanted = {"limit": limit, "last_attempts": last_attempts, "payloads": payloads}
        return (await self._requester.get(kind, PLACE, "poison", **wanted)).items


def _query(filter: DeadLetterFilter) -> dict[str, Any]:
    wanted = msgspec.structs.asdict(checked(filter))
    if wanted.pop("ids"):
        raise InvalidInput("ids", "a server cannot list by ids; leave them out")
    return wanted


def _which(filter: DeadLetterFilter) -> dict[str, Any]:
    """The filter as a bulk operation takes it: `all` confirms that nothing limits it."""
    return {**msgspec.structs.asdict(checked(filter)), "all": filter.is_all}
