"""Requests with an idempotency key: each is executed once, however often it is sent."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from duly.domain import checks
from duly.errors import InProgress, InvalidInput
from duly.ports import IdempotentRequest, Store

FIELD = "Idempotency-Key"


class IdempotentRequests:
    """The requests with an idempotency key of one app.

    A request is recorded before it is executed, with a seed from which the ids of new records are
    made. If the process dies in between, the next request with this key uses the same seed: records
    that exist already are found, and not created twice.
    """

    def __init__(self, store: Store, new_id: Callable[[], str]) -> None:
        self._store = store
        self._new_id = new_id
        self._under_way: set[str] = set()

    async def begin(self, key: str, fingerprint: str, *, repeatable: bool) -> IdempotentRequest:
        """The request to execute, or with its answer if it was executed.

        InProgress while another call executes it. If it is not `repeatable`, it can be taken over
        from a process that died only after a while.
        """
        checks.checked_text(FIELD, key)
        if key in self._under_way:
            raise _under_way(key)
        self._under_way.add(key)
        try:
            request = await self._begun(
                IdempotentRequest(key, fingerprint, self._new_id()), repeatable
            )
        except BaseException:
            self._under_way.discard(key)
            raise
        if request.status is not None:
            self._under_way.discard(key)
        return request

    async def _begun(self, request: IdempotentRequest, repeatable: bool) -> IdempotentRequest:
        while (first := await self._store.idempotency.begin(request)) is not None:
            if first.fingerprint != request.fingerprint:
                raise InvalidInput(FIELD, "it was used for another request; use a new one")
            if first.status is not None:
                return first
            if await self._store.idempotency.take_over(first, at_once=repeatable):
                return first
            if not repeatable:
                raise _under_way(request.key)
            # Meanwhile it was finished or abandoned; the next call of `begin` returns which.
        return request

    async def finish(
        self, request: IdempotentRequest, status: int, headers: dict[str, str], answer: bytes | None
    ) -> None:
        """Store a successful answer. A refused request is forgotten, a failed one stays open.

        A refused request also stays open if another process took it over, as the store knows: that
        process may have executed it, and a repetition must not execute it again.
        """
        try:
            if status < 300:
                answered = msgspec.structs.replace(
                    request, status=status, headers=headers, answer=answer
                )
                await self._store.idempotency.finish(answered)
            elif status < 500:
                await self._store.idempotency.abandon(request)
        finally:
            self.leave(request)

    def leave(self, request: IdempotentRequest) -> None:
        """Forget that this process executes it."""
        self._under_way.discard(request.key)


def _under_way(key: str) -> InProgress:
    return InProgress(f"the request with {FIELD} {key!r} is in progress; try again in a moment")
