"""`duly endpoints rotate` and `reseal`: replace secrets, or the key that encrypts them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.time.durations import duration
from duly.errors import BadSetting, InvalidInput
from duly.records.endpoint import EndpointWithSecret
from duly.surfaces.cli.terminal.delivery_options import STDIN, bytes_of
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend, client
from duly.surfaces.cli.terminal.output import answer, cell, print_message
from duly.vault import CannotOpen

PAGE = 1000
NewSecret = Annotated[
    str | None,
    Parameter(
        allow_leading_hyphen=True,
        help="whsec_..., if it has one already; better @file or - (stdin), since other users of "
        "this machine can see flags. By default one is generated.",
    ),
]


def secret_of(given: str | None) -> str | None:
    """The secret itself, or the content of a @file or stdin."""
    if given is None or not (given == STDIN or given.startswith("@")):
        return given
    return bytes_of("secret", given.removeprefix("@")).decode(errors="replace").strip()


async def rotate(
    name: str,
    /,
    *,
    overlap: Annotated[
        str, Parameter(help="How long requests are signed with the old secret too, at most 30d.")
    ] = "24h",
    secret: NewSecret = None,
    common: Common = COMMON,
) -> None:
    """Give an endpoint a new secret and print it, once; the old one stays valid for a while."""
    given, span = secret_of(secret), duration("overlap", overlap)
    async with backend(common) as app:
        rotated = await app.endpoints.rotate(name, secret=given, overlap=span)
    show_once(rotated, f"{name} rotated", given is None, common)
    old = [each.signs_until for each in rotated.secrets if each.signs_until is not None]
    if old:
        print_message(f"requests are signed with the old secret too, until {cell(max(old))}")


def show_once(found: EndpointWithSecret, done: str, is_new: bool, common: Common) -> None:
    """Print the endpoint; as text, only its secret if that was generated."""
    answer(common.json, found, lambda: found.secret if is_new else done)
    if is_new:
        print_message(f"{done}; its secret is not shown again: give it to the receiver")


async def reseal(
    name: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(negative=(), help="All endpoints, and plain URLs.")] = False,
    common: Common = COMMON,
) -> int:
    """Encrypt secrets and headers with the first key of DULY_SECRET_KEY.

    With --all, also the headers of schedules and deliveries to plain URLs.
    """
    if (name is None) is not all:
        raise InvalidInput("name", "give an endpoint's name, or --all")
    async with client(common) as app:
        if not app.settings.secret_key:
            raise BadSetting("secret_key", "it is not set; `openssl rand -base64 32` prints a key")
        pages = app.store.endpoints.page
        names = [each.name async for each in every_endpoint(pages)] if name is None else [name]
        resealed, failed = await _resealed(app, names)
        counts: dict[str, int] = {}
        if all:
            webhooks = await app.endpoints.reseal_addresses()
            failed |= webhooks.failed
            counts = {"schedules": webhooks.schedules, "deliveries": webhooks.deliveries}
    document = {"endpoints": len(names), "resealed": resealed, "failed": failed, **counts}
    answer(common.json, document, lambda: f"{len(resealed)} of {len(names)} resealed")
    for kind, count in counts.items():
        if count:
            print_message(f"{count} {kind} to plain URLs resealed")
    for each, problem in failed.items():
        print_message(f"{each}: {problem}")
    return FAILED if failed else 0


async def every_endpoint(
    pages: Callable[..., Awaitable[Sequence[StoredEndpoint]]],
) -> AsyncIterator[StoredEndpoint]:
    """All endpoints by name, page after page."""
    after = ""
    while page := await pages(after=after, limit=PAGE):
        for each in page:
            yield each
        after = page[-1].name


async def _resealed(app: App, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The names that were resealed, and those that failed with the reason."""
    resealed, failed = [], {}
    for name in names:
        try:
            if await app.endpoints.reseal(name):
                resealed.append(name)
        except CannotOpen as error:
            failed[name] = str(error)
    return resealed, failed
