"""Who may enter the port: known by a key, or on this machine; what for, and for which namespace.

It runs before every route. The scope that a route needs follows from its method or its `scope`;
a route that says nothing is closed rather than open. A route about this server rather than the
caller's namespace says `here=True`.
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
from duly.surfaces.http.access.key_cache import Keyring
from duly.surfaces.http.access.origins import Headers, Names, is_loopback, is_passed_on, text
from duly.surfaces.http.access.rate_limit import Pace
from duly.surfaces.http.protocol.request import CALLER, Caller
from duly.surfaces.http.protocol.routing import OPEN, READING, Route

LOOPBACK = "loopback"
"""Who the audit trail says it was when somebody on this machine came without a key."""
SINGLE = (
    *(b"host", b"authorization", b"origin", b"sec-fetch-site"),
    *(b"idempotency-key", b"if-match", b"if-none-match"),
)
"""Headers of which others, as a proxy, might hear the first and we the last."""
MOST_APPS = 1000
HOST = "host"
"""Who the audit trail says it was when the application around the API let somebody in."""
Authorize = Callable[[Any], Awaitable[str | None]]
"""The scope that the caller of a request has, by its ASGI scope: read, operate, admin or None."""


class Authenticator:
    """The door of one app's port.

    Inside another application (`is_inside`) that one knows the names it is called by, and who
    comes without a key enters only if `authorize` lets them in.
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
        self._ring = Keyring(app.keys.check, app.clock)
        spend = None if app.store.single_owner else app.keys.spend
        self._pace = Pace(app.clock, app.settings.key_rate, spend)
        self._apps: dict[tuple[str, str], Namespace] = {}

    async def admit(self, scope: Any, route: Route) -> Caller | None:
        """Who asks, if they may call the route; None if everybody may."""
        needed = needed_for(scope, route)
        return None if needed == OPEN else await self.enter(scope, needed, route.here)

    async def enter(self, scope: Any, needed: Scope, here: bool = False) -> Caller:
        """Who asks, if they may, which its scope says from now on; it says why not."""
        headers = _once(scope["headers"])
        self._check_origin(scope, headers)
        caller = await self._caller(scope, headers)
        _check_scope(caller, needed)
        if here and caller.namespace != self._local.namespace:
            raise HTTPException(403, "this tells of the server's own namespace only")
        self._check_rate(caller)
        scope[CALLER] = caller
        return caller

    async def still_admits(self, scope: Any) -> bool:
        """Whether the caller could still come in: for answers that go on for long."""
        try:
            await self._caller(scope, dict(scope["headers"]))
        except HTTPException:
            return False
        return True

    async def send_home(self) -> None:
        """Let go of everybody who watches live, in whichever namespace."""
        for app in (self._app, *self._apps.values()):
            await app.watch.live.stop()

    def app_for(self, caller: Caller | None) -> Namespace:
        """The app in the caller's namespace, acting as the caller; as itself for nobody."""
        if caller is None:
            return self._app
        place = (caller.namespace, caller.actor)
        if place not in self._apps:
            if len(self._apps) >= MOST_APPS:
                self._apps.clear()
            self._apps[place] = self._within(caller.namespace).acting_as(caller.actor)
        return self._apps[place]

    def _within(self, namespace: str) -> Namespace:
        """One for each namespace, so that those who deliver there share their commits."""
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
                421, f"{host!r} is no name of this server; if it should be, add it to allowed_hosts"
            )
        if not _only_reads(scope) and self._names.are_foreign(headers):
            raise HTTPException(403, "another site's page may not change anything here")

    async def _caller(self, scope: Any, headers: Headers) -> Caller:
        given = text(headers, b"authorization")
        if given is None:
            granted = None if self._authorize is None else await self._authorize(scope)
            if granted is not None:
                return Caller(HOST, self._local.namespace, Scope(granted))
            known = _is_local(scope, headers) and self._names.let_in_by_name(headers)
            if known and not self.needs_keys:
                return self._local
            raise _unknown("give a key, as in Authorization: Bearer duly_...")
        scheme, _, token = given.partition(" ")
        key = await self._ring.key(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise _unknown("this key opens nothing here; it is wrong, expired or revoked", True)
        return Caller(key.actor, key.namespace, key.scope, key)

    def _check_rate(self, caller: Caller) -> None:
        wait = 0.0 if caller.key is None else self._pace.wait(caller.key.id)
        if wait:
            raise HTTPException(
                429,
                f"this key may ask {self._app.settings.key_rate:g} times a second; ask again later",
                headers={"retry-after": str(math.ceil(wait))},
            )


def needs_keys(settings: Settings) -> bool:
    """Whether nobody enters without a key, not even on this machine."""
    return not (settings.loopback_open and is_loopback(settings.host))


async def refuse_without_keys(app: App) -> None:
    """BadSetting when the port would be open to those who have a key, and nobody has one."""
    if not needs_keys(app.settings) or await app.keys.any_active():
        return
    raise BadSetting(
        "host" if app.settings.loopback_open else "loopback_open",
        f"whoever calls {app.settings.host} needs a key, and there is none; "
        "`duly keys create NAME --scope admin` makes one, and so does the setting bootstrap_key",
    )


def needed_for(scope: Any, route: Route) -> Scope | Literal["open"]:
    """The scope that a request needs; what is open in short may not be so in full."""
    if route.unless is not None and route.unless in parse_qs(
        scope["query_string"].decode("latin-1"), keep_blank_values=True
    ):
        return Scope.READ
    return route.scope


def _once(given: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers by name; 400 when one that can only be meant once is there twice."""
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
