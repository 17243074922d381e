"""API requests by idempotency key: each is executed once, and a repeat gets the first response."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from duly.ports import KEPT_FOR, PATIENCE, IdempotentRequest
from duly.stores.database import Database


class IdempotentRequests:
    """The requests with an idempotency key of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def begin(self, request: IdempotentRequest) -> IdempotentRequest | None:
        """Record a request before it is executed; None if it is new, else the recorded one."""
        while not await self._run(
            "begin", request.key, **_identity(request), kept_for=_seconds(KEPT_FOR)
        ):
            # If it was abandoned or pruned since the insert, it is new after all.
            if rows := await self._run("find", request.key):
                fingerprint, seed, status, headers, answer = rows[0]
                decoded = msgspec.json.decode(headers) if headers else {}
                return IdempotentRequest(request.key, fingerprint, seed, status, decoded, answer)
        return None

    async def take_over(self, first: IdempotentRequest, *, at_once: bool) -> bool:
        """Whether another server may execute a request that has no response yet."""
        patience = {"at_once": at_once, "patience": _seconds(PATIENCE)}
        return bool(await self._run("take_over", first.key, seed=first.seed, **patience))

    async def finish(self, request: IdempotentRequest) -> None:
        """Store the response, once."""
        headers = msgspec.json.encode(request.headers).decode()
        response = {"status": request.status, "headers": headers, "answer": request.answer}
        await self._run("finish", request.key, seed=request.seed, **response)

    async def abandon(self, request: IdempotentRequest) -> None:
        """Delete a request that was not executed, unless another server took it over."""
        await self._run("abandon", request.key, seed=request.seed)

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Delete at most a batch of requests begun longer ago; returns how many."""
        rows = await self._database.fetch(
            "idempotency.prune", namespace=self._namespace, kept_for=_seconds(kept_for), batch=batch
        )
        return len(rows)

    async def _run(self, statement: str, key: str, **more: Any) -> Any:
        return await self._database.fetch(
            f"idempotency.{statement}", namespace=self._namespace, key=key, **more
        )


def _identity(request: IdempotentRequest) -> dict[str, str]:
    return {"fingerprint": request.fingerprint, "seed": request.seed}


def _seconds(span: timedelta) -> float:
    return span.total_seconds()
