"""Requests to the API by their keys: each is carried out once, and answered as the first time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from duly.ports import KEPT_FOR, PATIENCE, IdempotentRequest
from duly.stores.database import Database


class IdempotentRequests:
    """The requests of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def begin(self, asked: IdempotentRequest) -> IdempotentRequest | None:
        """Note a request before it is carried out; None when it is new, otherwise the first."""
        while not await self._run("begin", asked.key, **_told(asked), kept_for=_seconds(KEPT_FOR)):
            # In between it may have been abandoned or pruned: then it is new after all.
            if rows := await self._run("find", asked.key):
                fingerprint, seed, status, headers, answer = rows[0]
                known = msgspec.json.decode(headers) if headers else {}
                return IdempotentRequest(asked.key, fingerprint, seed, status, known, answer)
        return None

    async def take_over(self, first: IdempotentRequest, *, at_once: bool) -> bool:
        """Whether a request that nobody answered yet may be carried out by another as well."""
        patience = {"at_once": at_once, "patience": _seconds(PATIENCE)}
        return bool(await self._run("take_over", first.key, seed=first.seed, **patience))

    async def finish(self, asked: IdempotentRequest) -> None:
        """Keep the answer, once."""
        headers = msgspec.json.encode(asked.headers).decode()
        answered = {"status": asked.status, "headers": headers, "answer": asked.answer}
        await self._run("finish", asked.key, seed=asked.seed, **answered)

    async def abandon(self, asked: IdempotentRequest) -> None:
        """Forget a request that came to nothing, unless somebody took it over."""
        await self._run("abandon", asked.key, seed=asked.seed)

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what was begun longer ago; returns how many."""
        rows = await self._database.fetch(
            "idempotency.prune", namespace=self._namespace, kept_for=_seconds(kept_for), batch=batch
        )
        return len(rows)

    async def _run(self, statement: str, key: str, **more: Any) -> Any:
        return await self._database.fetch(
            f"idempotency.{statement}", namespace=self._namespace, key=key, **more
        )


def _told(asked: IdempotentRequest) -> dict[str, str]:
    return {"fingerprint": asked.fingerprint, "seed": asked.seed}


def _seconds(span: timedelta) -> float:
    return span.total_seconds()
