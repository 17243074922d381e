"""How a handler is called: with the delivery alone, or with arguments from the payload."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
from msgspec import UNSET

from duly.domain.checks import EARLIEST
from duly.domain.deliveries.payloads import from_model, payload_bytes
from duly.domain.schedules.schedule import DELIVERY_ID, Occasion, encode_occasion
from duly.errors import InvalidInput
from duly.ports import Execution
from duly.transports.handlers.functions import (
    Argument,
    Parameters,
    parameters_of,
    returned_type,
)
from duly.transports.handlers.handled_delivery import HandledDelivery

NOTHING: Mapping[str, Any] = {}
SAMPLE_ID = b"00000000-0000-7000-8000-000000000000"


class CallStyle(Protocol):
    """Turns a payload into the arguments of a call, and arguments into a payload."""

    def arguments(self, execution: Execution) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """What the function is called with; raises if the payload does not fit."""

    def payload(self, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The payload with these arguments; InvalidInput if they do not fit."""

    def check_schedule(self, payload: Any) -> None:
        """InvalidInput if occurrences with this payload, or without one, would not fit."""

    def fits(self, payload: bytes) -> bool:
        """Whether the function can be called with this payload."""


def style_of(function: object) -> CallStyle:
    """The style of a function, after its parameters."""
    parameters = parameters_of(function)
    if parameters.is_only_the_delivery:
        return PayloadCall(parameters)
    return ArgumentCall(parameters)


class PayloadCall:
    """The function gets the delivery, whose payload has the type in `Delivery[Order]`."""

    def __init__(self, parameters: Parameters) -> None:
        self._name = parameters.name
        self._decode = _decoder(parameters.payload)
        self._keyword = None
        if parameters.delivery and parameters.delivery.kind is inspect.Parameter.KEYWORD_ONLY:
            self._keyword = parameters.delivery.name

    def arguments(self, execution: Execution) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The delivery with its payload."""
        delivery = HandledDelivery(execution, self._decode(execution.claimed.payload))
        return ((delivery,), NOTHING) if self._keyword is None else ((), {self._keyword: delivery})

    def payload(self, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The one argument, the payload."""
        if len(given) > 1 or named:
            raise InvalidInput("arguments", f"{self._name} takes the delivery: give its payload")
        return given[0] if given else None

    def check_schedule(self, payload: Any) -> None:
        """The function gets any payload, or the occasion."""

    def fits(self, payload: bytes) -> bool:
        """Whether the payload has the type in `Delivery[Order]`."""
        return _fits(self._decode, payload)


class ArgumentCall:
    """The function gets the members of the payload, by their names, and perhaps the delivery."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._delivery = parameters.delivery
        self._names = [each.name for each in parameters.arguments]
        kinds = {each.kind for each in parameters.signature.parameters.values()}
        self._goes_by_place = (
            parameters.delivery is None
            and all(each.is_required for each in parameters.arguments)
            and kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}
        )
        fields = [_field(parameters.name, each) for each in parameters.arguments]
        accepted = msgspec.defstruct(
            parameters.name, fields, forbid_unknown_fields=True, kw_only=True
        )
        self._decoder = msgspec.json.Decoder(accepted, dec_hook=_model)

    def arguments(self, execution: Execution) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments by name; those that the payload has not keep their defaults."""
        payload, occasion = execution.claimed.payload, execution.claimed.occasion
        if occasion is not None and payload in (occasion, occasion.encode()):
            payload = self._of_occasion(occasion)
        found = self._decoded(payload)
        if self._goes_by_place:
            return msgspec.structs.astuple(found), NOTHING
        named = {
            name: value for name in self._names if (value := getattr(found, name)) is not UNSET
        }
        if self._delivery is None:
            return (), named
        delivery = HandledDelivery(execution, msgspec.json.decode(payload))
        if self._delivery.kind is inspect.Parameter.POSITIONAL_ONLY:
            return (delivery,), named
        return (), {**named, self._delivery.name: delivery}

    def payload(self, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The arguments by name, checked as the worker will check them."""
        try:
            payload = self._parameters.signature.bind(*given, **named).arguments
        except TypeError as error:
            raise InvalidInput("arguments", f"{self._parameters.name}: {error}") from None
        encoded = b",".join(self._member(*each) for each in payload.items())
        try:
            self._decoded(b"{%s}" % encoded)
        except (TypeError, ValueError) as error:
            raise InvalidInput("arguments", f"{self._parameters.name}: {error}") from error
        return payload

    def check_schedule(self, payload: Any) -> None:
        """Decode what an occurrence would have."""
        if payload is None:
            encoded = self._of_occasion(encode_occasion(Occasion("a schedule", EARLIEST)))
        else:
            encoded = payload_bytes(payload).replace(DELIVERY_ID.encode(), SAMPLE_ID)
        try:
            self._decoded(encoded)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                "payload",
                f"it does not fit {self._parameters.name}: {error}; give @app.schedule "
                "the payload, as in payload={...}",
            ) from error

    def _of_occasion(self, occasion: str) -> bytes:
        """What the parameters get from a schedule without a payload: parts of its occasion."""
        parts = msgspec.json.decode(occasion, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({name: parts[name] for name in self._names if name in parts})

    def fits(self, payload: bytes) -> bool:
        """Whether the payload has the members that the function takes, and no others."""
        return _fits(self._decoded, payload)

    def _member(self, name: str, value: Any) -> bytes:
        try:
            encoded = msgspec.json.encode(value, enc_hook=from_model)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidInput("arguments", f"{self._parameters.name}: {name}: {error}") from error
        return b'"%s":%s' % (name.encode(), encoded)

    def _decoded(self, payload: bytes | str) -> Any:
        return self._decoder.decode(b"{}" if payload in (b"null", "null") else payload)


def _fits(decode: Callable[[bytes], Any], payload: bytes) -> bool:
    try:
        decode(payload)
    except Exception:
        # Not only errors of msgspec: a model of the user's may raise any.
        return False
    return True


def _field(function: str, argument: Argument) -> Any:
    for unknown in _unreadable(argument.type):
        raise InvalidInput(
            "handler",
            f"{function} has the type {unknown.__qualname__} for {argument.name!r}, which cannot "
            "be read from JSON; take a dataclass, or a type of msgspec or pydantic",
        )
    if argument.is_required:
        return argument.name, argument.type
    return argument.name, argument.type | msgspec.UnsetType, UNSET


def _unreadable(wanted: Any) -> Iterator[type]:
    """Types within a type that neither msgspec nor pydantic reads."""
    try:
        left, seen = [msgspec.inspect.type_info(wanted)], set[int]()
    except TypeError as error:
        raise InvalidInput("handler", f"{wanted!r} cannot be read from JSON: {error}") from None
    while left:
        info = left.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, msgspec.inspect.CustomType) and not _is_model(info.cls):
            yield info.cls
        for inner in msgspec.structs.asdict(info).values():
            parts = inner if isinstance(inner, tuple | list) else (inner,)
            left += [each for each in parts if isinstance(each, msgspec.inspect.Type)]
            left += [each.type for each in parts if isinstance(each, msgspec.inspect.Field)]


def _is_model(wanted: Any) -> bool:
    return inspect.isclass(wanted) and callable(getattr(wanted, "model_validate", None))


def _model(wanted: Any, value: Any) -> Any:
    """Pydantic models read themselves."""
    if not _is_model(wanted):
        raise TypeError(f"{wanted!r} cannot be read from JSON")
    return wanted.model_validate(value)


def result_decoder(function: Callable[..., Any]) -> Callable[[Any], Any] | None:
    """Turns a result, read as plain JSON, into what the function returned; None if it stays so."""
    wanted = returned_type(function)
    if wanted is Any:
        return None
    try:
        if any(_unreadable(wanted)):
            return None
        decode = msgspec.json.Decoder(wanted, dec_hook=_model).decode
    except (InvalidInput, TypeError):
        return None  # nobody can tell from JSON what it was
    return lambda result: decode(msgspec.json.encode(result))


def _decoder(wanted: Any) -> Callable[[bytes], Any]:
    """The decoder of a payload as a whole.

    msgspec decodes its structs, dataclasses, typed dicts and plain types; a pydantic model decodes
    itself; without a type the payload is plain JSON.
    """
    if wanted in (Any, object):
        return msgspec.json.Decoder().decode
    validate = getattr(wanted, "model_validate_json", None)
    if callable(validate):
        return cast("Callable[[bytes], Any]", validate)
    return msgspec.json.Decoder(wanted, dec_hook=_model).decode
