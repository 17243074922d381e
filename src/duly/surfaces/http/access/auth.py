"""Authentication by a key or from this machine, and authorization by scope and namespace.

It runs before every route. The scope that a route needs follows from its method or its `scope`, so
no route is open by mistake. A route about this server rather than the caller's namespace has
`here=True`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

from duly.app import App
from duly.errors import BadSetting
from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.settings import Settings
from duly.surfaces.http.access.key_cache import KeyCache
from duly.surfaces.http.access.origins import Headers, Names, is_loopback, is_passed_on, text
from duly.surfaces.http.access.rate_limit import RateLimit
from duly.surfaces.http.access.session_cookie import session_in
from duly.surfaces.http.protocol.request import CALLER, Caller
from duly.surfaces.http.protocol.routing import OPEN, READING, Route

LOOPBACK = "loopback"
"""The actor in the audit trail for a caller on this machine without a key."""
SINGLE = (
    *(b"host", b"authorization", b"cookie", b"origin", b"sec-fetch-site"),
    *(b"idempotency-key", b"if-match", b"if-none-match"),
)
"""Headers that may appear only once: duplicates let two proxies disagree."""
MOST_APPS = 1000
HOST = "host"
"""The actor in the audit trail for a caller that the application around the API authorized."""
Authorize = Callable[[Any], Awaitable[str | None]]
"""Returns the caller's scope for an ASGI scope: read, operate, admin or None."""


class Authenticator:
    """Authenticates the callers of one app.

    Inside another application (`is_inside`), that one checks the Host header, and a caller without
    a key needs a scope from `authorize`.
    """

    def __init__(
        self, app: App, *, is_inside: bool = False, authorize: Authorize | None = None
    ) -> None:
        self._app = app
        self._is_inside = is_inside
        self._authorize = authorize
        self._names = Names(app.settings)
        self.needs_keys = is_inside or needs_keys(app.settings)
        self._local = Caller(LOOPBACK, app.store.namespace, Scope.ADMIN)
        self._keys = KeyCache(app.keys.check, app.clock)
        self._sessions = KeyCache(app.keys.check_session, app.clock)
        spend = None if app.store.single_owner else app.keys.spend
        self._rate_limit = RateLimit(app.clock, app.settings.key_rate, spend)
        self._apps: dict[tuple[str, str], Namespace] = {}

    async def admit(self, scope: Any, route: Route) -> Caller | None:
        """The caller, if they may call the route; None if the route is open."""
        needed = needed_for(scope, route)
        if needed != OPEN:
            return await self.enter(scope, needed, route.here)
        if not _only_reads(scope):
            self._check_origin(scope, _single_headers(scope["headers"]))
        return None

    async def enter(self, scope: Any, needed: Scope, here: bool = False) -> Caller:
        """The caller, also stored in the ASGI scope; HTTPException if they lack the scope."""
        headers = _single_headers(scope["headers"])
        self._check_origin(scope, headers)
        caller = await self._caller(scope, headers)
        _check_scope(caller, needed)
        if here and caller.namespace != self._local.namespace:
            raise HTTPException(403, "this needs a key of the server's own namespace")
        self._check_rate(caller)
        scope[CALLER] = caller
        return caller

    async def still_admits(self, scope: Any) -> bool:
        """Whether the caller is still authenticated, for long responses."""
        try:
            await self._caller(scope, dict(scope["headers"]))
        except HTTPException:
            return False
        return True

    async def end_live_streams(self) -> None:
        """End all live event streams, in every namespace."""
        for app in (self._app, *self._apps.values()):
            await app.stats.live.stop()

    def app_for(self, caller: Caller | None) -> Namespace:
        """The app in the caller's namespace, acting as the caller; the app itself for None."""
        if caller is None:
            return self._app
        place = (caller.namespace, caller.actor)
        if place not in self._apps:
            if len(self._apps) >= MOST_APPS:
                self._apps.clear()
            self._apps[place] = self._within(caller.namespace).acting_as(caller.actor)
        return self._apps[place]

    def _within(self, namespace: str) -> Namespace:
        """One app for each namespace, so that deliveries there share their commits."""
        if namespace == self._app.store.namespace:
            return self._app
        place = (namespace, "")
        if place not in self._apps:
            self._apps[place] = self._app.within(namespace)
        return self._apps[place]

    def _check_origin(self, scope: Any, headers: Headers) -> None:
        host = text(headers, b"host")
        if not (self._is_inside or self._names.allow(host)):
            raise HTTPException(
                421, f"{host!r} is not a name of this server; if it is, add it to allowed_hosts"
            )
        if not _only_reads(scope) and self._names.are_foreign(headers):
            raise HTTPException(403, "a page of another site may not change anything here")

    async def _caller(self, scope: Any, headers: Headers) -> Caller:
        given = text(headers, b"authorization")
        if given is None:
            granted = None if self._authorize is None else await self._authorize(scope)
            if granted is not None:
                return Caller(HOST, self._local.namespace, Scope(granted))
            session = await self._sessions.key(session_in(headers))
            if session is not None:
                return Caller(session.actor, session.namespace, session.scope, session)
            known = _is_local(scope, headers) and self._names.let_in_by_name(headers)
            if known and not self.needs_keys:
                return self._local
            raise _unknown("give a key, as in Authorization: Bearer duly_...")
        scheme, _, token = given.partition(" ")
        key = await self._keys.key(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise _unknown("this key is not valid here; it is wrong, expired or revoked", True)
        return Caller(key.actor, key.namespace, key.scope, key)

    def _check_rate(self, caller: Caller) -> None:
        wait = 0.0 if caller.key is None else self._rate_limit.wait(caller.key.id)
        if wait:
            raise HTTPException(
                429,
                f"this key may send {self._app.settings.key_rate:g} requests a second; try later",
                headers={"retry-after": str(math.ceil(wait))},
            )


def needs_keys(settings: Settings) -> bool:
    """Whether callers on this machine need a key too."""
    return not (settings.loopback_open and is_loopback(settings.host))


async def refuse_without_keys(app: App) -> None:
    """BadSetting if every caller needs a key, and no key exists."""
    if not needs_keys(app.settings) or await app.keys.any_active():
        return
    raise BadSetting(
        "host" if app.settings.loopback_open else "loopback_open",
        f"callers of {app.settings.host} need a key, and there is none; create one with "
        "`duly keys create NAME --scope admin` or the setting bootstrap_key",
    )


def needed_for(scope: Any, route: Route) -> Scope | Literal["open"]:
    """The scope that a request needs; an open route may need one with some query parameter."""
    if route.unless is not None and route.unless in parse_qs(
        scope["query_string"].decode("latin-1"), keep_blank_values=True
    ):
        return Scope.READ
    return route.scope


def _single_headers(given: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers by name; 400 if one of `SINGLE` appears twice."""
    headers = dict(given)
    if len(headers) < len(given):
        names = [name for name, _ in given]
        if twice := [name for name in SINGLE if names.count(name) > 1]:
            raise HTTPException(400, f"the header {twice[0].decode()} is given twice; give it once")
    return headers


def _only_reads(scope: Any) -> bool:
    return scope.get("method") in READING


def _is_local(scope: Any, headers: Headers) -> bool:
    peer = scope["client"]
    return peer is not None and is_loopback(peer[0]) and not is_passed_on(headers)


def _check_scope(caller: Caller, needed: Scope) -> None:
    if not caller.scope.allows(needed):
        raise HTTPException(
            403,
            f"this needs a key with scope {needed}; the one given has {caller.scope}",
            headers={"www-authenticate": f'Bearer error="insufficient_scope", scope="{needed}"'},
        )


def _unknown(detail: str, invalid: bool = False) -> HTTPException:
    challenge = 'Bearer realm="duly"' + (', error="invalid_token"' if invalid else "")
    return HTTPException(401, detail, headers={"www-authenticate": challenge})
