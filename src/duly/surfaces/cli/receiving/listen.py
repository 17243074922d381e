"""`duly listen`: a local receiver, to watch webhooks and to test retries."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.settings import Settings, load
from duly.signals import listen_for_signals
from duly.surfaces.cli.receiving.received import Inbox, Received, shown
from duly.surfaces.cli.receiving.secret import Secret, given_secret
from duly.surfaces.cli.terminal.invocation import called
from duly.surfaces.cli.terminal.output import answer, print_message

LEAST_STATUS, MOST_STATUS = 200, 599
MOST_FAILURES = 99
FAILURE = 503
SECRET_MISSING = "give --secret, or set DULY_WEBHOOK_SECRET"


@Parameter(name="*")
@dataclass(frozen=True)
class Answers:
    """The statuses to answer with."""

    answer: Annotated[int, Parameter(help="The status of every answer.")] = 200
    fail: Annotated[
        str | None,
        Parameter(
            help="The first answers to each id: a number of 503s, as in 2, or statuses, as in "
            "500,429."
        ),
    ] = None

    def last(self) -> int:
        """The status of every answer after the first ones."""
        return _status("answer", str(self.answer))

    def first(self) -> list[int]:
        """The statuses of the first answers to each id."""
        words = re.split(r"[\s,]+", self.fail.strip()) if self.fail is not None else []
        if len(words) == 1 and re.fullmatch("[1-9][0-9]?", words[0]):
            return [FAILURE] * int(words[0])
        if len(words) > MOST_FAILURES:
            raise InvalidInput("fail", f"give at most {MOST_FAILURES}")
        return [_status("fail", each) for each in words]


def _status(field: str, text: str) -> int:
    if not re.fullmatch("[0-9]{3}", text) or not LEAST_STATUS <= int(text) <= MOST_STATUS:
        raise InvalidInput(field, f"{text!r} is not a status from {LEAST_STATUS} to {MOST_STATUS}")
    return int(text)


ANSWERS = Answers()


async def listen(
    *,
    port: Annotated[int, Parameter(help="The port; 0 takes a free one.")] = 9000,
    host: Annotated[str, Parameter(help="The address.")] = "127.0.0.1",
    secret: Secret = None,
    answers: Answers = ANSWERS,
    json: Annotated[bool, Parameter(negative=(), help="Print one JSON document a line.")] = False,
) -> None:
    """Receive webhooks on this machine, check their signatures, and print them."""
    from duly.surfaces.cli.receiving.receiver import open_port

    if not 0 <= port <= 65535:
        raise InvalidInput("port", f"{port} is not from 0 to 65535")
    secrets = given_secret(secret)
    inbox = Inbox(secrets, answers.first(), answers.last())
    queue: asyncio.Queue[Received | None] = asyncio.Queue()
    with listen_for_signals(lambda: queue.put_nowait(None)):
        async with open_port(inbox, queue.put_nowait, host, port) as url:
            print_message(_announced(host, url, bool(secrets), load({}, os.environ)))
            while (received := await queue.get()) is not None:
                answer(json, received, partial(shown, received))


def _announced(host: str, url: str, checking: bool, settings: Settings) -> str:
    in_file = {name for name, origin in settings.origins.items() if origin == "duly.toml"}
    allow = "" if "egress_allow" in in_file else f"DULY_EGRESS_ALLOW={host} "
    sign = "DULY_WEBHOOK_SECRET=whsec_... " if checking and "webhook_secret" not in in_file else ""
    checked = "checks signatures" if checking else f"checks no signatures ({SECRET_MISSING})"
    return (
        f"duly listens on {url} and {checked}; press Ctrl-C to stop.\n"
        "To send something here:\n"
        f"  {allow}{sign}{called()} serve\n"
        f'  {allow}{called()} send {url}/ --data \'{{"hello": "world"}}\' --watch'
    )
