"""`duly send`: accept one delivery to a URL or an endpoint, and optionally watch its attempts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.domain.deliveries.states import FINISHED
from duly.domain.endpoints.endpoint import endpoint
from duly.domain.endpoints.webhooks import webhook
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.records.delivery import Accepted
from duly.records.state import State
from duly.records.target import DEFAULT_TIMEOUT, EndpointTarget, Webhook
from duly.safe_text import shown_url
from duly.surfaces.cli.deliveries.deliver import accept
from duly.surfaces.cli.deliveries.follow import follow
from duly.surfaces.cli.terminal.delivery_options import (
    OPTIONS,
    DeliveryOptions,
    Payload,
    content_of,
)
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.headers import Headers, each_once, pairs
from duly.surfaces.cli.terminal.output import answer, cell, print_message
from duly.surfaces.cli.terminal.times import spelled

Watch = Annotated[
    bool,
    Parameter(negative=(), help="Show each attempt until it has ended; exit 1 if not completed."),
]


@Parameter(name="*")
@dataclass(frozen=True)
class SendOptions:
    """How the request is made."""

    method: Annotated[str, Parameter(help="POST, PUT, PATCH, DELETE or GET.")] = "POST"
    headers: Headers = ()
    timeout: Annotated[str, Parameter(help="The timeout of one attempt, from 1s to 60s.")] = (
        f"{DEFAULT_TIMEOUT:g}s"
    )

    def target(self, to: str) -> Webhook | EndpointTarget:
        """Where it goes: the webhook at a URL, or the endpoint of that name."""
        if "://" not in to:
            self._refuse_all()
            return endpoint(to)
        return webhook(
            to,
            method=self.method.upper(),
            headers=each_once(pairs(self.headers)),
            timeout=duration("timeout", self.timeout).total_seconds(),
        )

    def _refuse_all(self) -> None:
        for name, default in asdict(SEND_OPTIONS).items():
            if getattr(self, name) != default:
                raise InvalidInput(name, "an endpoint has its own; see duly endpoints edit --help")


SEND_OPTIONS = SendOptions()


async def send(
    to: Annotated[str, Parameter(name="URL_OR_ENDPOINT")],
    /,
    *,
    data: Payload = None,
    watch: Watch = False,
    sending: SendOptions = SEND_OPTIONS,
    options: DeliveryOptions = OPTIONS,
    common: Common = COMMON,
) -> int:
    """Accept one delivery to a URL or an endpoint and print its id; `duly serve` sends it.

    Parameters
    ----------
    to
        Where it goes: https://example.org/hook, or the name of an endpoint.
    data
        JSON, sent unchanged; @file reads it from a file, - from stdin. Default: null.
    """
    target, content, arguments = sending.target(to), content_of(data), options.arguments()
    async with backend(common, create=True) as app:
        accepted = await accept(app, target, content, arguments)
        await _print_outlook(app, accepted, target)
        if watch:
            return await _watched(app, accepted.id, common.json)
    answer(common.json, accepted, lambda: accepted.id)
    return 0


async def _print_outlook(
    app: Backend, accepted: Accepted, target: Webhook | EndpointTarget
) -> None:
    if accepted.state in FINISHED:
        return
    wait = (accepted.due_at - app.clock.now()).total_seconds()
    when = f"in {spelled(wait)}, at {cell(accepted.due_at)}" if wait > 0 else "at once"
    found = target if isinstance(target, Webhook) else await app.endpoints.get(target.name)
    detail = await app.deliveries.detail(accepted.id)
    place = f"{found.method} {shown_url(found.url)}"
    print_message(f"{place} is sent {when}; at most {detail.attempts_allowed} attempts")
    if detail.waits is not None:
        print_message(f"it waits: {detail.waits}")
    if not any(each.alive for each in await app.workers.list(limit=1)):
        print_message(
            "no worker is alive: nothing is sent until `duly serve` runs on this database"
        )


async def _watched(app: Backend, id: str, as_json: bool) -> int:
    """Follow it to its end; with JSON, the attempts are messages and the result one document."""
    if as_json:
        ended = await follow(app, id, print_message)
        answer(True, await app.deliveries.detail(id), str)
    else:
        _print(id)
        ended = await follow(app, id, _print)
        _print(f"{id} {ended.state}")
    return 0 if ended.state is State.COMPLETED else FAILED


def _print(text: str) -> None:
    answer(False, None, lambda: text)
