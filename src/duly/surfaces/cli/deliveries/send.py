"""`duly send`: hand over one delivery to a URL or an endpoint, and see what comes of it."""

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
from duly.surfaces.cli.deliveries.deliver import hand_over
from duly.surfaces.cli.deliveries.follow import follow
from duly.surfaces.cli.terminal.delivery_options import TERMS, Payload, Terms, content_of
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, books
from duly.surfaces.cli.terminal.headers import Headers, each_once, pairs
from duly.surfaces.cli.terminal.output import answer, cell, talk
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
    timeout: Annotated[
        str, Parameter(help="How long one attempt may take in all, from 1s to 60s.")
    ] = f"{DEFAULT_TIMEOUT:g}s"

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
        for name, usual in asdict(MANNER).items():
            if getattr(self, name) != usual:
                raise InvalidInput(name, "an endpoint has its own; see duly endpoints edit --help")


MANNER = SendOptions()


async def send(
    to: Annotated[str, Parameter(name="URL_OR_ENDPOINT")],
    /,
    *,
    data: Payload = None,
    watch: Watch = False,
    manner: SendOptions = MANNER,
    terms: Terms = TERMS,
    common: Common = COMMON,
) -> int:
    """Hand over one delivery to a URL or an endpoint and print its id; `duly serve` sends it.

    Parameters
    ----------
    to
        Where it goes: https://example.org/hook, or the name of an endpoint.
    data
        JSON, sent as it is; @file reads it from there, - from stdin. Without it: null.
    """
    target, content, arguments = manner.target(to), content_of(data), terms.arguments()
    async with books(common, create=True) as app:
        accepted = await hand_over(app, target, content, arguments)
        await _say_what_follows(app, accepted, target)
        if watch:
            return await _watched(app, accepted.id, common.json)
    answer(common.json, accepted, lambda: accepted.id)
    return 0


async def _say_what_follows(
    app: Books, accepted: Accepted, target: Webhook | EndpointTarget
) -> None:
    if accepted.state in FINISHED:
        return
    wait = (accepted.due_at - app.clock.now()).total_seconds()
    when = f"in {spelled(wait)}, at {cell(accepted.due_at)}" if wait > 0 else "at once"
    found = target if isinstance(target, Webhook) else await app.endpoints.get(target.name)
    ahead = await app.deliveries.detail(accepted.id)
    place = f"{found.method} {shown_url(found.url)}"
    talk(f"{place} goes out {when}; at most {ahead.attempts_allowed} attempts")
    if ahead.waits is not None:
        talk(f"it waits: {ahead.waits}")
    if not any(each.alive for each in await app.workers.list(limit=1)):
        talk("no worker is alive: nothing goes out until `duly serve` runs on this database")


async def _watched(app: Books, id: str, as_json: bool) -> int:
    """Follow it to its end; where one document is wanted, the attempts are talk until then."""
    if as_json:
        ended = await follow(app, id, talk)
        answer(True, await app.deliveries.detail(id), str)
    else:
        _print(id)
        ended = await follow(app, id, _print)
        _print(f"{id} {ended.state}")
    return 0 if ended.state is State.COMPLETED else FAILED


def _print(text: str) -> None:
    answer(False, None, lambda: text)
