"""A server's streams: listed, configured, paused, resumed, retried and released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from duly.client.requester import Requester
from duly.domain import checks
from duly.domain.streams.policy import checked_stream_options
from duly.domain.streams.selection import checked_selection
from duly.records.delivery import Delivery
from duly.records.stream import Stream, StreamKeywords, StreamState


class Streams:
    """The streams of one server."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def get(self, name: str) -> Stream:
        """One stream, or NotFound."""
        return await self._requester.get(Stream, *_place(name))

    async def list(
        self, state: StreamState | str | None = None, *, after: str = "", limit: int = 50
    ) -> Sequence[Stream]:
        """Streams by name: all of them, or those that are `blocked` or `paused`."""
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(
            Stream, "streams", limit=limit, cursor=start, state=state
        )

    async def configure(self, name: str, **options: Unpack[StreamKeywords]) -> Stream:
        """Set what a failed head does to those behind it, and for how long; others stay as set."""
        return await self._requester.patch(
            Stream, *_place(name), body=checked_stream_options(options)
        )

    async def pause(self, name: str, reason: str | None = None) -> Stream:
        """Start no more of its deliveries until it is resumed; it still accepts new ones."""
        return await self._moved(name, "pause", {"reason": reason})

    async def resume(self, name: str) -> Stream:
        """Continue a paused stream; one that is blocked stays blocked."""
        return await self._moved(name, "resume")

    async def retry_now(self, name: str) -> Stream:
        """Retry its head now; a dead one gets all its attempts again."""
        return await self._moved(name, "retry")

    async def release(
        self,
        name: str,
        *,
        only: Iterable[str] | None = None,
        keep: Iterable[str] | None = None,
    ) -> Stream:
        """Let those behind a failed head proceed: all, `only` these, or all except those to `keep`.

        With a selection the head stays, and the released deliveries run beside it and each other.
        """
        chosen = checked_selection(only, keep)
        return await self._moved(
            name, "release", None if chosen is None else {chosen.field: chosen.ids}
        )

    async def release_delivery(self, id: str) -> Stream:
        """Let those behind this delivery proceed; Conflict if it is not its stream's head."""
        place = ("deliveries", checks.checked_id(id), "release")
        delivery = await self._requester.post(Delivery, *place)
        return await self.get(delivery.stream or "")

    async def cancel_head(self, name: str) -> Stream:
        """Cancel its head, or ask for it if it runs; those behind it proceed."""
        return await self._moved(name, "cancel")

    async def dead_letter_head(self, name: str, note: str | None = None) -> Stream:
        """Make its head a dead letter; those behind it proceed under any policy."""
        return await self._moved(name, "dead-letter", {"note": note})

    async def _moved(self, name: str, move: str, body: Mapping[str, Any] | None = None) -> Stream:
        return await self._requester.post(Stream, *_place(name), move, body=body)


def _place(name: str) -> tuple[str, str]:
    return "streams", checks.checked_text("stream", name)
