"""Requests that carry a key of their own: each is carried out once, however often it is sent."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from duly.domain import checks
from duly.errors import InProgress, InvalidInput
from duly.ports import IdempotentRequest, Store

FIELD = "Idempotency-Key"


class IdempotentRequests:
    """The requests of one app.

    Before a request is carried out it is noted, with a seed that names what it will make. If the
    process dies in between, whoever is asked again goes on with the same seed: what was made is
    found, and not made twice.
    """

    def __init__(self, store: Store, new_id: Callable[[], str]) -> None:
        self._store = store
        self._new_id = new_id
        self._under_way: set[str] = set()

    async def begin(self, key: str, fingerprint: str, *, repeatable: bool) -> IdempotentRequest:
        """The request to carry out, or with its answer if it was.

        InProgress while it is under way. One that is not `repeatable` may only be taken over from
        whoever began it after a while.
        """
        checks.checked_text(FIELD, key)
        if key in self._under_way:
            raise _under_way(key)
        self._under_way.add(key)
        try:
            asked = await self._begun(
                IdempotentRequest(key, fingerprint, self._new_id()), repeatable
            )
        except BaseException:
            self._under_way.discard(key)
            raise
        if asked.status is not None:
            self._under_way.discard(key)
        return asked

    async def _begun(self, asked: IdempotentRequest, repeatable: bool) -> IdempotentRequest:
        while (first := await self._store.idempotency.begin(asked)) is not None:
            if first.fingerprint != asked.fingerprint:
                raise InvalidInput(FIELD, "it was used for another request; take a new one")
            if first.status is not None:
                return first
            if await self._store.idempotency.take_over(first, at_once=repeatable):
                return first
            if not repeatable:
                raise _under_way(asked.key)
            # In between it was answered or abandoned; the next look finds which.
        return asked

    async def finish(
        self, asked: IdempotentRequest, status: int, headers: dict[str, str], answer: bytes | None
    ) -> None:
        """Keep the answer; one that refused is forgotten, and one that failed stays open.

        So does one that somebody else took part in and perhaps carried out, as the store knows:
        forgotten, it would be made anew by whoever is asked next.
        """
        try:
            if status < 300:
                answered = msgspec.structs.replace(
                    asked, status=status, headers=headers, answer=answer
                )
                await self._store.idempotency.finish(answered)
            elif status < 500:
                await self._store.idempotency.abandon(asked)
        finally:
            self.leave(asked)

    def leave(self, asked: IdempotentRequest) -> None:
        """Forget that it is under way here."""
        self._under_way.discard(asked.key)


def _under_way(key: str) -> InProgress:
    return InProgress(f"the request with {FIELD} {key!r} is under way; ask again in a moment")
