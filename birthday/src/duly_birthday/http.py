"""`/user`: the HTTP API of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta
from starlette.exceptions import HTTPException

from duly import Namespace
from duly.domain.deliveries.identifiers import sibling
from duly.surfaces.http.protocol.decoding import check_media, decoder, refusal
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.items import Item, Items
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import JSON, Answer
from duly.surfaces.http.protocol.routing import Route, below, delete, get, post, put
from duly_birthday.faults import FAULTS
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
"""Bytes of one user in a bulk request."""
MOST_AT_ONCE = 1000
UserId = Annotated[str, Meta(description="the id of a user")]
NewUsers = Annotated[list[NewUser], Meta(min_length=1, max_length=MOST_AT_ONCE)]
BirthdaysOf = Callable[[Namespace], Birthdays]


def user_routes(home: str, manner: Manner) -> list[Route]:
    """The routes; all users are in the namespace `home`."""

    def of(app: Namespace) -> Birthdays:
        if app.store.namespace != home:
            raise HTTPException(403, f"the users are in namespace {home!r}; use a key of it")
        return Birthdays(app, manner)

    small = below("", [*_reading(of), *_changing(of)], body_limit=LARGEST_BODY)
    return below("/user", [*small, _register_many(of)], errors=FAULTS)


def _reading(of: BirthdaysOf) -> list[Route]:
    @get("", operation_id="list_users")
    async def page(app: Namespace, query: PageQuery) -> Page[UserShape]:
        """List users by id."""
        found = await of(app).page(query.cursor, query.limit)
        following = found[-1].id if len(found) == query.limit else None
        return Page([user_shape(each) for each in found], following)

    @get("/{user_id}", operation_id="get_user", is_versioned=True)
    async def show(app: Namespace, user_id: UserId) -> Answer[Shown]:
        """Show a user, the next greeting, and the last finished one."""
        user, upcoming, last = await of(app).show(user_id)
        shape = Shown(user_shape(user), event_shape(upcoming, user), event_shape(last, user))
        return Answer(shape, headers=etag(user.version))

    return [page, show]


def _changing(of: BirthdaysOf) -> list[Route]:
    @post(
        "",
        repeatable=True,
        body=NewUser,
        operation_id="register_user",
        is_versioned=True,
    )
    async def register(
        app: Namespace, request: Request, body: dict[str, Any]
    ) -> Answer[Registered]:
        """Register a user, who is greeted from the next birthday on."""
        user, greeting = await of(app).register(body, request.seed)
        shape = Registered(user_shape(user), event_shape(greeting, user))
        headers = etag(user.version) | {"location": f"/user/{user.id}"}
        return Answer(shape, status=201, headers=headers)

    @put(
        "/{user_id}",
        body=UserChange,
        operation_id="update_user",
        is_versioned=True,
    )
    async def edit(
        app: Namespace, user_id: UserId, body: dict[str, Any], version: int | None
    ) -> Answer[Edited]:
        """Change the given fields of a user, and pending greetings."""
        user, report = await of(app).edit(user_id, body, version)
        skipped = report.skipped
        shape = Edited(user_shape(user), report.moved, len(skipped), skipped)
        return Answer(shape, headers=etag(user.version))

    @delete("/{user_id}", operation_id="remove_user")
    async def remove(app: Namespace, user_id: UserId) -> None:
        """Remove a user; pending greetings are cancelled, those being sent are finished."""
        await of(app).remove(user_id)

    return [register, edit, remove]


def _register_many(of: BirthdaysOf) -> Route:
    @post(
        "/bulk",
        status=200,
        repeatable=True,
        body=NewUsers,
        operation_id="register_users",
    )
    async def register_many(app: Namespace, request: Request) -> Imported:
        """Register up to 1,000 users in one transaction; those with a problem are left out."""
        check_media(request, JSON)
        items = Items(request.stream(), request.shared.turns, MOST_AT_ONCE, LARGEST_USER)
        data = [_user(each) for each in await items.of_array()]
        seed = request.seed
        ids = None if seed is None else [sibling(seed, place) for place in range(len(data))]
        return imported_shape(await of(app).register_many(data, ids))

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
