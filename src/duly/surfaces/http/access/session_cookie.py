"""The cookie of a browser's session."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.surfaces.http.access.origins import Headers

NAME = "duly_session"
OVER = "Thu, 01 Jan 1970 00:00:00 GMT"


def session_in(headers: Headers) -> str:
    """The session's token in the Cookie header, or an empty text."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == NAME:
            return value
    return ""


def session_cookie(scope: Any, token: str, until: datetime | None) -> str:
    """A Set-Cookie header; without a token it removes the cookie.

    Scripts cannot read it, and other sites' pages never send it.
    """
    ends = OVER if until is None else until.strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = (scope.get("root_path") or "").rstrip("/") + "/"
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{NAME}={token}; Path={path}; Expires={ends}; HttpOnly; SameSite=Strict{secure}"
