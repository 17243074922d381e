"""Requests to the API by their keys: each is carried out once, and answered as the first time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from duly.ports import KEPT_FOR, PATIENCE, Asked
from duly.stores.database import Database


class Requests:
    """The requests of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def begin(self, asked: Asked) -> Asked | None:
        """Note a request before it is carried out; None when it is new, otherwise the first."""
        while not await self._run("begin", asked.key, **_told(asked), kept_for=_seconds(KEPT_FOR)):
            # In between it may have been abandoned or pruned: then it is new after all.
            if rows := await self._run("find", asked.key):
                fingerprint, seed, status, headers, answer = rows[0]
                known = msgspec.json.decode(headers) if headers else {}
                return Asked(asked.key, fingerprint, seed, status, known, answer, is_new=False)
        return None

    async def take_over(self, key: str) -> bool:
        """Whether a request that nobody answered is so old that another may carry it out."""
        return bool(await self._run("take_over", key, patience=_seconds(PATIENCE)))

    async def finish(self, asked: Asked) -> None:
        """Keep the answer, once."""
        headers = msgspec.json.encode(asked.headers).decode()
        answered = {"status": asked.status, "headers": headers, "answer": asked.answer}
        await self._run("finish", asked.key, seed=asked.seed, **answered)

    async def abandon(self, asked: Asked) -> None:
        """Forget a request that came to nothing, so that it can be made again."""
        await self._run("abandon", asked.key, seed=asked.seed)

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what was begun longer ago; returns how many."""
        rows = await self._database.fetch(
            "requests.prune", namespace=self._namespace, kept_for=_seconds(kept_for), batch=batch
        )
        return len(rows)

    async def _run(self, statement: str, key: str, **more: Any) -> Any:
        return await self._database.fetch(
            f"requests.{statement}", namespace=self._namespace, key=key, **more
        )


def _told(asked: Asked) -> dict[str, str]:
    return {"fingerprint": asked.fingerprint, "seed": asked.seed}


def _seconds(span: timedelta) -> float:
    return span.total_seconds()
