"""Who may enter the port: known by a key, or on this machine; what for, and for which namespace.

It stands before every route. What a route needs follows from its method, or from its
`opt={"scope": ...}`; so one that says nothing is closed rather than open. What tells of this server
rather than of the caller's namespace says `opt={"here": True}`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from litestar.connection import ASGIConnection
from litestar.exceptions import (
    ClientException,
    HTTPException,
    NotAuthorizedException,
    PermissionDeniedException,
    TooManyRequestsException,
)
from litestar.handlers import BaseRouteHandler

from duly.app import App
from duly.domain.access.keys import Scope, StoredKey
from duly.errors import BadSetting
from duly.services.namespace import Namespace
from duly.settings import Settings
from duly.surfaces.http.access.key_cache import Keyring
from duly.surfaces.http.access.origins import Headers, Names, is_loopback, is_passed_on, text
from duly.surfaces.http.access.rate_limit import Pace

OPEN: Literal["open"] = "open"
"""The scope of a route that everybody may call."""
LOOPBACK = "loopback"
"""Who the audit trail says it was when somebody on this machine came without a key."""
READING = ("GET", "HEAD", "OPTIONS")
SINGLE = (
    *(b"host", b"authorization", b"origin", b"sec-fetch-site"),
    *(b"idempotency-key", b"if-match", b"if-none-match"),
)
"""Headers of which others, as a proxy, might hear the first and we the last."""
MOST_APPS = 1000
Connection = ASGIConnection[Any, Any, Any, Any]


class Caller(msgspec.Struct, frozen=True):
    """Somebody who may enter."""

    actor: str
    namespace: str
    scope: Scope
    key: StoredKey | None = None


class Authenticator:
    """The door of one app's port."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._names = Names(app.settings)
        self.needs_keys = needs_keys(app.settings)
        self._local = Caller(LOOPBACK, app.store.namespace, Scope.ADMIN)
        self._ring = Keyring(app.keys.check, app.clock)
        spend = None if app.store.single_owner else app.keys.spend
        self._pace = Pace(app.clock, app.settings.key_rate, spend)
        self._apps: dict[tuple[str, str], Namespace] = {}

    async def admit(self, connection: Connection, handler: BaseRouteHandler) -> None:
        """Let the request pass, or say why not; it may be asked of the same request again."""
        scope, needed = connection.scope, _needed(connection, handler)
        if needed == OPEN or "caller" in scope["state"]:
            return
        await self.enter(scope, needed, handler.opt.get("here", False))

    async def enter(self, scope: Any, needed: Scope, here: bool = False) -> Caller:
        """Who asks, if they may, which the request's state tells from now on; it says why not."""
        headers = _once(scope["headers"])
        self._check_origin(scope, headers)
        caller = await self._caller(scope, headers)
        _check_scope(caller, needed)
        if here and caller.namespace != self._local.namespace:
            raise PermissionDeniedException("this tells of the server's own namespace only")
        self._check_rate(caller)
        scope.setdefault("state", {})["caller"] = caller
        return caller

    async def still_admits(self, connection: Connection) -> bool:
        """Whether the caller could still come in: for answers that go on for long."""
        try:
            await self._caller(connection.scope, dict(connection.scope["headers"]))
        except NotAuthorizedException:
            return False
        return True

    async def send_home(self) -> None:
        """Let go of everybody who watches live, in whichever namespace."""
        for app in (self._app, *self._apps.values()):
            await app.watch.live.stop()

    def app_for(self, caller: Caller) -> Namespace:
        """The caller's namespace, with the caller as actor."""
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
        if not self._names.allow(host):
            raise HTTPException(
                f"{host!r} is no name of this server; if it should be, add it to allowed_hosts",
                status_code=421,
            )
        if not _only_reads(scope) and self._names.are_foreign(headers):
            raise PermissionDeniedException("another site's page may not change anything here")

    async def _caller(self, scope: Any, headers: Headers) -> Caller:
        given = text(headers, b"authorization")
        if given is None:
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
            raise TooManyRequestsException(
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


def _needed(connection: Connection, handler: BaseRouteHandler) -> Scope | Literal["open"]:
    by_method = Scope.READ if _only_reads(connection.scope) else Scope.OPERATE
    scope: Scope | Literal["open"] = handler.opt.get("scope", by_method)
    # What is open in short may not be so in full.
    if scope == OPEN and handler.opt.get("unless") in connection.query_params:
        return Scope.READ
    return scope


def _once(given: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers by name; 400 when one that can only be meant once is there twice."""
    names = [name for name, _ in given]
    if twice := [name for name in SINGLE if names.count(name) > 1]:
        raise ClientException(f"the header {twice[0].decode()} is given twice; give it once")
    return dict(given)


def _only_reads(scope: Any) -> bool:
    return scope.get("method") in READING


def _is_local(scope: Any, headers: Headers) -> bool:
    peer = scope["client"]
    return peer is not None and is_loopback(peer[0]) and not is_passed_on(headers)


def _check_scope(caller: Caller, needed: Scope) -> None:
    if not caller.scope.allows(needed):
        raise PermissionDeniedException(
            f"this needs a key with scope {needed}; the one given has {caller.scope}",
            headers={"www-authenticate": f'Bearer error="insufficient_scope", scope="{needed}"'},
        )


def _unknown(detail: str, invalid: bool = False) -> NotAuthorizedException:
    challenge = 'Bearer realm="duly"' + (', error="invalid_token"' if invalid else "")
    return NotAuthorizedException(detail, headers={"www-authenticate": challenge})
