"""`duly health`: a health check for containers and load balancers; it needs no key."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import msgspec
from cyclopts import Parameter

from duly.client.pool import Pool, Request, Unanswered
from duly.client.problems import Reply
from duly.safe_text import shown_url
from duly.settings import load
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import Json
from duly.surfaces.cli.terminal.output import answer
from duly.surfaces.process.addresses import local_url

LONGEST_SECONDS = 10.0
"""How long the whole answer may take."""
LONGEST_ANSWER = 64 << 10


def health(
    *,
    ready: Annotated[
        bool, Parameter(negative=(), help="Check whether it is ready for requests, not only alive.")
    ] = False,
    server: Annotated[
        str | None, Parameter(help="Another server to check, as in http://host:8787.")
    ] = None,
    json: Json = False,
) -> int:
    """Check the health of a running server: exit code 0 if it is healthy, 1 if not.

    Without --server it is the server that `duly serve` starts with the same settings. Exit code 4
    means that it did not answer.
    """
    settings = load({"server": server}, os.environ)
    url = settings.server or local_url(settings.host, settings.port)
    path = "/ready" if ready else "/health"
    reply = asyncio.run(_reply(url, Request(method="GET", path=path)))
    ok = reply.status == 200
    found = {"ok": ok, "status": reply.status, "answer": _answer(reply.body)}
    place = f"{shown_url(url)}{path}"
    answer(json, found, lambda: f"{'ok' if ok else 'not ok'}: {place} answers {reply.status}")
    return 0 if ok else FAILED


async def _reply(url: str, request: Request) -> Reply:
    pool = Pool(url, longest=LONGEST_ANSWER)
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await pool.exchange(request, fresh=True)
    except TimeoutError as error:
        raise Unanswered(
            f"the server at {shown_url(url)} did not finish its answer within "
            f"{LONGEST_SECONDS:g} seconds"
        ) from error
    finally:
        await pool.close()


def _answer(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
