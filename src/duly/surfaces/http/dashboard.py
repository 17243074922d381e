"""Routes of the dashboard's files; they need no key and contain nothing from the store."""

from __future__ import annotations

from dataclasses import replace

from duly.surfaces.dashboard.files import INDEX, POLICY, File, dashboard_files
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import OPEN, Route, get

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "Accept, Accept-Encoding",
}


def dashboard_routes() -> list[Route]:
    """One route for each file below `/dashboard`; `/` is the index."""
    return [_route(f"/dashboard/{path}", file) for path, file in dashboard_files().items()]


def mounted_dashboard() -> list[Route]:
    """The same below the path of another application, with the index at that path."""
    return [replace(mounted_index, path=""), mounted_index, *dashboard_routes()]


@get("/", scope=OPEN, media="text/html; charset=utf-8")
async def mounted_index(request: Request) -> Answer[bytes]:
    """The index; its addresses are relative, so the path has to end with a slash."""
    if request.path == "":
        return Answer(b"", 307, {"location": "/"})
    return index(request)


def index(request: Request) -> Answer[bytes]:
    """The page that loads the others."""
    return _answer(request, dashboard_files()[INDEX])


def _route(path: str, file: File) -> Route:
    @get("/", scope=OPEN, media=file.media)
    async def send(request: Request) -> Answer[bytes]:
        return _answer(request, file)

    return replace(send, path=path)


def _answer(request: Request, file: File) -> Answer[bytes]:
    headers = HEADERS | {"etag": file.etag, "content-type": file.media}
    if file.etag in (request.header(b"if-none-match") or ""):
        return Answer(b"", 304, headers)
    if "gzip" in (request.header(b"accept-encoding") or ""):
        return Answer(file.compressed, headers=headers | {"content-encoding": "gzip"})
    return Answer(file.content, headers=headers)
