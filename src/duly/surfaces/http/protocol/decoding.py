"""What a request says, decoded strictly by the struct that also documents it."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Request
from litestar.di import Provide
from litestar.exceptions import ClientException, HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.types.empty import Empty

from duly.domain import documents
from duly.domain.deliveries.payloads import Checked
from duly.errors import InvalidInput, misfit
from duly.surfaces.http.protocol.turns import Turns

JSON = "application/json"
DEEPEST = documents.DEPTH_LIMIT + 1
"""How deep a body may be nested: as a payload, in an object."""


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON body is decoded at once into what its route takes as `data`."""

    @property
    def path_params(self) -> dict[str, Any]:
        """The names in the path, decoded only now: they may have a slash."""
        return {name: _unescaped(name, it) for name, it in self.scope["path_params"].items()}

    async def json(self) -> Any:
        """The body as the route's struct; payloads within stay the bytes that they are."""
        if self._json is Empty:
            check_media(self, JSON)
            field = self.route_handler.parsed_data_field
            kind = Any if field is None else field.annotation
            self._json = await decoded_in_slices(await self.body(), kind, self.app.state.turns)
        return self._json


def check_media(request: Request[Any, Any, Any], *taken: str) -> None:
    """415 when a body does not say that it is one of those that are taken."""
    given = request.content_type[0]
    if given not in taken:
        said = f"{given!r} is not taken here" if given else "nothing says what the body is"
        raise HTTPException(
            f"{said}; send it with the header content-type: {' or '.join(taken)}", status_code=415
        )


def decoded(body: bytes, kind: Any) -> Any:
    """A JSON document as a value of that kind; whoever sent it hears what is wrong with it.

    For small ones: the other way is for those of which nobody knows.
    """
    try:
        found = decoder(kind).decode(body)
        # What is kept as it came, as a payload, is only here seen to be JSON.
        documents.check(body, DEEPEST)
    except Exception as error:
        raise refusal(error, kind) from None
    return found


async def decoded_in_slices(body: bytes, kind: Any, turns: Turns) -> Any:
    """The same for a document of any size: a large one is checked in slices."""
    if len(body) <= documents.LARGE:
        return decoded(body, kind)
    try:
        found = decoder(kind).decode(body)
        await turns.through(documents.checking(body, DEEPEST))
    except Exception as error:
        raise refusal(error, kind) from None
    return found


def refusal(error: Exception, kind: Any) -> Exception:
    """What is wrong with a document, as it is told to whoever sent it."""
    if isinstance(error, documents.Unfit):
        return unfit(error, kind)
    if isinstance(error, msgspec.ValidationError):
        return misfit(error)
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ClientException(f"the body is not JSON: {error}")
    if isinstance(error, RecursionError):
        return InvalidInput("body", "it is nested too deep")
    return error


def unfit(error: documents.Unfit, kind: Any) -> InvalidInput:
    """The refusal that names the field; only payloads are nested deep or have large numbers."""
    within = not isinstance(error, documents.Twice) and hasattr(kind, "payload")
    return InvalidInput("payload" if within else "body", str(error))


def checked(payload: msgspec.Raw) -> Checked:
    """A payload of a document that was decoded, and so checked, here."""
    return Checked(bytes(payload))


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """One decoder for each kind: they are costly to make."""
    return msgspec.json.Decoder(kind)


class Asked:
    """A provider that makes one value of all that a query says, and refuses what it cannot say."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self.kind = kind

    def __call__(self, request: Request[Any, Any, Any]) -> Any:
        said = {
            name: _said_once(name, values) for name, values in request.query_params.dict().items()
        }
        try:
            return msgspec.convert(said, self.kind, strict=False)
        except msgspec.ValidationError as error:
            raise misfit(error) from None


def _unescaped(name: str, given: str) -> str:
    try:
        return unquote(given, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(name, "what is escaped in the path is no UTF-8") from None


def _said_once(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise InvalidInput(name, f"it is given {len(values)} times; give it once")
    return values[0]


def asked(kind: type[msgspec.Struct]) -> Provide:
    """The query of a route as a dependency: `dependencies={"wanted": asked(DeliveryQuery)}`."""
    return Provide(Asked(kind), sync_to_thread=False)


def check_query(request: Request[Any, Any, Any]) -> None:
    """Refuse a query that the route would not hear: whoever wrote it meant something."""
    if request.scope["query_string"] and not _takes_query(request.route_handler):
        raise InvalidInput("query", "nothing can be asked of this route in the query")


@cache
def _takes_query(handler: HTTPRouteHandler) -> bool:
    fields = handler.parsed_fn_signature.parameters
    asks = (each.kwarg_definition for each in fields.values())
    provided = handler.resolve_dependencies()
    return any(isinstance(each, QueryParameter) for each in asks) or any(
        isinstance(provided[name].dependency, Asked) for name in provided.keys() & fields.keys()
    )
