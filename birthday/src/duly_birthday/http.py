"""`/user`: people, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from litestar import Response, Router, delete, get, post, put
from litestar.exceptions import PermissionDeniedException
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from duly import Namespace
from duly.domain.deliveries.identifiers import sibling
from duly.surfaces.http.access.idempotency import Idempotency
from duly.surfaces.http.protocol.decoding import JSON, asked, check_media, decoder, refusal
from duly.surfaces.http.protocol.etags import ETAG, IF_MATCH, Version, etag
from duly.surfaces.http.protocol.items import Item, Items
from duly.surfaces.http.protocol.pages import Page, PageQuery, Wanted
from duly.surfaces.http.protocol.request_context import AnyRequest, Served, seed_of
from duly.surfaces.http.protocol.turns import Turns
from duly_birthday.faults import HANDLERS
from duly_birthday.greetings.greetings import Manner
from duly_birthday.shapes import (
    Edited,
    Imported,
    NewUser,
    Registered,
    Shown,
    UserChange,
    UserShape,
    event_shape,
    imported_shape,
    user_shape,
)
from duly_birthday.wire import Birthdays

LARGEST_BODY = 65_536
LARGEST_USER = 8192
"""Bytes of one of many users."""
MOST_AT_ONCE = 1000
UserId = Annotated[str, PathParameter(description="the id of a user")]
NEVER = {"never": (422,)}
"""What cannot be taken is answered with 400 here."""


def _new_user() -> Any:
    # As functions, since options are copied.
    return NewUser


def _change() -> Any:
    return UserChange


def _new_users() -> Any:
    return Annotated[list[NewUser], Meta(min_length=1, max_length=MOST_AT_ONCE)]


BirthdaysOf = Callable[[Namespace], Birthdays]


def user_routes(home: str, manner: Manner) -> list[Router]:
    """The routes; users live in one namespace, `home`."""

    def of(app: Namespace) -> Birthdays:
        if app.store.namespace != home:
            raise PermissionDeniedException(f"the users are in namespace {home!r}; use a key of it")
        return Birthdays(app, manner)

    return [
        _router([*_reading(of), *_changing(of)], request_max_body_size=LARGEST_BODY),
        _router([_register_many(of)]),
    ]


def _reading(of: BirthdaysOf) -> list[HTTPRouteHandler]:
    @get("/", dependencies={"wanted": asked(PageQuery)}, operation_id="list_users")
    async def page(duly_app: Served, wanted: Wanted) -> Page[UserShape]:
        """List users by id."""
        found = await of(duly_app).page(wanted.cursor, wanted.limit)
        following = found[-1].id if len(found) == wanted.limit else None
        return Page([user_shape(each) for each in found], following)

    @get("/{user_id:str}", operation_id="get_user", response_headers=ETAG)
    async def show(duly_app: Served, user_id: UserId) -> Response[Shown]:
        """Show a user, the next greeting, and the last one that ended."""
        user, upcoming, last = await of(duly_app).show(user_id)
        shape = Shown(user_shape(user), event_shape(upcoming, user), event_shape(last, user))
        return Response(shape, headers=etag(user.version))

    return [page, show]


def _changing(of: BirthdaysOf) -> list[HTTPRouteHandler]:
    @post(
        "/",
        opt={"repeatable": True, "body": _new_user},
        operation_id="register_user",
        response_headers=ETAG,
    )
    async def register(
        duly_app: Served, request: AnyRequest, data: JSONBody[dict[str, Any]]
    ) -> Response[Registered]:
        """Register a user, who is greeted from the next birthday on."""
        user, greeting = await of(duly_app).register(data, seed_of(request))
        shape = Registered(user_shape(user), event_shape(greeting, user))
        headers = etag(user.version) | {"location": f"/user/{user.id}"}
        return Response(shape, status_code=201, headers=headers)

    @put(
        "/{user_id:str}",
        dependencies=IF_MATCH,
        opt={"body": _change},
        operation_id="update_user",
        response_headers=ETAG,
    )
    async def edit(
        duly_app: Served, user_id: UserId, data: JSONBody[dict[str, Any]], version: Version
    ) -> Response[Edited]:
        """Change some of the fields of a user; greetings that are not under way follow."""
        user, report = await of(duly_app).edit(user_id, data, version)
        skipped = report.skipped
        shape = Edited(user_shape(user), report.moved, len(skipped), skipped)
        return Response(shape, headers=etag(user.version))

    @delete("/{user_id:str}", operation_id="remove_user")
    async def remove(duly_app: Served, user_id: UserId) -> None:
        """Remove a user; what is pending is cancelled, what is being sent ends."""
        await of(duly_app).remove(user_id)

    return [register, edit, remove]


def _register_many(of: BirthdaysOf) -> HTTPRouteHandler:
    @post(
        "/bulk",
        status_code=200,
        opt={"repeatable": True, "body": _new_users},
        operation_id="register_users",
    )
    async def register_many(duly_app: Served, request: AnyRequest) -> Imported:
        """Register up to 1,000 users in one transaction; those with a problem are left out."""
        check_media(request, JSON)
        turns: Turns = request.app.state.turns
        items = Items(request.stream(), turns, MOST_AT_ONCE, LARGEST_USER)
        data = [_user(each) for each in await items.of_array()]
        seed = seed_of(request)
        ids = None if seed is None else [sibling(seed, place) for place in range(len(data))]
        return imported_shape(await of(duly_app).register_many(data, ids))

    return register_many


def _user(item: Item) -> dict[str, Any]:
    kind = dict[str, Any]
    try:
        user: dict[str, Any] = decoder(kind).decode(item.data)
        if item.problem is not None:
            raise item.problem
    except Exception as error:
        raise refusal(error, kind) from None
    return user


def _router(handlers: list[HTTPRouteHandler], **options: Any) -> Router:
    return Router(
        "/user",
        route_handlers=handlers,
        exception_handlers=HANDLERS,
        middleware=[Idempotency()],
        opt=NEVER,
        **options,
    )
