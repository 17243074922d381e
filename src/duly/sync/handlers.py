"""Handlers whose deliveries are accepted by synchronous code."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from duly.records.delivery import Accepted
from duly.sync.blocking import Blocking
from duly.sync.handles import BlockingDeliveries, SyncHandle, sync_handle_of
from duly.sync.home import Home, refuse_event_loop
from duly.sync.transactions import is_plain

Given = ParamSpec("Given")
"""The parameters that a caller gives."""
Returned = TypeVar("Returned", covariant=True)
"""What a call of the function returns: the result, or a coroutine that does."""
Result = TypeVar("Result")


class SyncDeliverable(Blocking, Generic[Given, Returned]):
    """Delivers calls of a handler, with the options given to `using`; its methods block."""

    def __init__(
        self,
        wrapped: Any,
        home: Home,
        path: str,
        deliveries: BlockingDeliveries,
        decode: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(wrapped, home, path)
        self._deliveries = deliveries
        self._decode = decode

    @overload
    def deliver(
        self: SyncDeliverable[Given, Coroutine[Any, Any, Result]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> SyncHandle[Result]: ...

    @overload
    def deliver(self, *given: Given.args, **named: Given.kwargs) -> SyncHandle[Returned]: ...

    def deliver(self, *given: Given.args, **named: Given.kwargs) -> SyncHandle[Any]:
        """Accept a delivery that calls the handler with these arguments."""
        accepted: Accepted
        connection, put = self._wrapped.connection, self._wrapped.put
        if is_plain(connection):
            refuse_event_loop(lambda: f"await {self._call('deliver')}")
            accepted = self._wrapped.deliver_within(connection, *given, **named)
        else:
            accepted = self._home.run(
                lambda: self._wrapped.deliver(*given, **named),
                lambda: f"await {self._call('deliver')}",
                (lambda answer: put(answer, *given, **named)) if connection is None else None,
            )
        return sync_handle_of(accepted, self._deliveries, self._decode)

    def deliver_many(self, items: Iterable[Mapping[str, Any]]) -> Sequence[Accepted]:
        """Accept many calls in one transaction: all of them, or none."""
        accepted: Sequence[Accepted] = self._run_for(
            "deliver_many", items, self._wrapped.deliver_many
        )
        return accepted

    def item(self, *given: Given.args, **named: Given.kwargs) -> Mapping[str, Any]:
        """A call as an item of `deliver_many`, also of the app's, with other handlers' items."""
        found: Mapping[str, Any] = self._wrapped.item(*given, **named)
        return found
