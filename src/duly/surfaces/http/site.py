"""Answers requests: finds the route, authenticates the caller, decodes the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Router

from duly.records.key import Scope as KeyScope
from duly.surfaces.http.access.auth import Authenticator
from duly.surfaces.http.access.cors import Cors
from duly.surfaces.http.access.idempotency import key_of, once
from duly.surfaces.http.protocol.decoding import body_of, check_query, query_of
from duly.surfaces.http.protocol.etags import if_match
from duly.surfaces.http.protocol.problems import PROBLEMS, problem_reply
from duly.surfaces.http.protocol.request import HungUp, Request, Shared, names_of
from duly.surfaces.http.protocol.responses import (
    Answer,
    ASGIApp,
    Message,
    Receive,
    Reply,
    Scope,
    Send,
    head_only,
    reply,
)
from duly.surfaces.http.protocol.routing import READING, Methods, Route, Table


class Site:
    """An ASGI application of our routes, and of others behind the same authentication.

    `check` refuses requests while the server stops. HEAD is answered wherever GET is, without the
    body.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        others: Sequence[BaseRoute],
        authenticator: Authenticator,
        shared: Shared,
        cors: Cors | None,
        check: Callable[[], None],
    ) -> None:
        self.routes = routes
        self.authenticator = authenticator
        self.shared = shared
        self._cors = cors
        self._check = check
        self._table = Table(routes)
        self._others = Router(others, redirect_slashes=False)
        self._errors = {_first_part(each.path): each.errors for each in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, head_only(send)
        if self._cors is not None:
            if self._cors.is_preflight(scope):
                await self._cors.answer_preflight(scope, send)
                return
            send = self._cors.sender(scope, send)
        path = _path(scope)
        # Before anything else: clients refused by a full queue try again and again.
        if self.shared.queue.refuses(scope["method"], path):
            answer: ASGIApp = self.shared.queue.refusal()
        else:
            answer = await self._answer(scope, receive, path)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, path: str) -> ASGIApp:
        methods, values = self._table.find(path)
        route = methods.get(scope["method"])
        try:
            if route is not None:
                named = values if route.names else []
                request = Request(scope, receive, path, route, named, self.shared)
                return await self._answer_route(request)
            if methods:
                return await self._answer_method(scope, methods)
            return await self._answer_elsewhere(scope)
        except HungUp:
            return _no_response
        except Exception as error:
            errors = self._errors.get(_first_part(path), PROBLEMS)
            return errors.reply(scope, error)

    async def _answer_route(self, request: Request) -> ASGIApp:
        request.caller = await self.authenticator.admit(request.scope, request.route)
        if request.route.is_strict:
            self._check()
            check_query(request)
        key = key_of(request)
        if key is None:
            return await self._call(request)
        return await once(key, self.authenticator.app_for(request.caller), request, self._outcome)

    async def _outcome(self, request: Request) -> Reply:
        """The response, also for an error."""
        try:
            found = await self._call(request)
        except Exception as error:
            return request.route.errors.reply(request.scope, error)
        assert isinstance(found, Reply), "only a GET answers with a stream"
        return found

    async def _call(self, request: Request) -> ASGIApp:
        route = request.route
        takes, given = route.takes, names_of(request)
        if "query" in takes:
            given["query"] = query_of(request)
        if "body" in takes:
            given["body"] = await body_of(request)
        if "version" in takes:
            given["version"] = if_match(request)
        if "app" in takes:
            given["app"] = self.authenticator.app_for(request.caller)
        if "request" in takes:
            given["request"] = request
        found = await route.function(**given)
        if isinstance(found, Answer):
            return reply(found.status or route.status, found.content, found.headers, route.media)
        return found if callable(found) else reply(route.status, found, media=route.media)

    async def _answer_method(self, scope: Scope, methods: Methods) -> Reply:
        """The response if the path exists, but not with this method."""
        allowed = {"allow": ", ".join(sorted({*methods, "OPTIONS"}))}
        if scope["method"] != "OPTIONS":
            raise HTTPException(405, "Method Not Allowed", allowed)
        await self.authenticator.enter(scope, KeyScope.READ)
        return Reply(204, allowed, b"")

    async def _answer_elsewhere(self, scope: Scope) -> ASGIApp:
        """Pass the request to the app's other routes, if the caller is authenticated."""
        # Starlette's routes then raise their errors, which are answered like all others.
        scope.setdefault("app", self)
        if all(each.matches(scope)[0] is Match.NONE for each in self._others.routes):
            raise HTTPException(404, "Not Found")
        reads = scope["method"] in READING
        await self.authenticator.enter(scope, KeyScope.READ if reads else KeyScope.OPERATE)
        return self._run_other

    async def _run_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._others(scope, receive, sent)
        except Exception as error:
            if has_begun:
                raise
            await problem_reply(scope, error)(scope, receive, send)


async def _no_response(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """The client has disconnected: send nothing."""


def _path(scope: Scope) -> str:
    """The path below the mount point, as sent: an escaped slash does not separate parts."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    raw: bytes = scope.get("raw_path") or b""
    if b"%" in raw:
        path, root = raw.decode("ascii", "replace"), quote(root)
    return path.removeprefix(root) if root else path


def _first_part(path: str) -> str:
    return path.strip("/").partition("/")[0]
