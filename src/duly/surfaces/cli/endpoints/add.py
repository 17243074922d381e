"""`duly endpoints add` and `edit`: the options of an endpoint as flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.deliveries.retry_texts import plan_from_text
from duly.domain.endpoints.limits import per
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.records.endpoint import Endpoint
from duly.records.limit import PerKey
from duly.surfaces.cli.endpoints.rotation import NewSecret, secret_of, show_once
from duly.surfaces.cli.terminal.delivery_options import RetryText
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.headers import Headers, each_once, pairs
from duly.surfaces.cli.terminal.output import answer

Text = str | None


@Parameter(name="*")
@dataclass(frozen=True)
class EndpointFlags:
    """The options of an endpoint besides its URL."""

    description: Annotated[Text, Parameter(help="What the endpoint is for.")] = None
    method: Annotated[Text, Parameter(help="POST, PUT, PATCH, DELETE or GET.")] = None
    headers: Headers = ()
    timeout: Annotated[Text, Parameter(help="The timeout of one attempt, from 1s to 60s.")] = None
    rate: Annotated[float | None, Parameter(help="The most deliveries per second.")] = None
    in_flight: Annotated[int | None, Parameter(help="The most deliveries in flight.")] = None
    per: Annotated[
        Text, Parameter(help="What the key of limits for each key means, as in customer.")
    ] = None
    per_in_flight: Annotated[
        int | None, Parameter(help="The most deliveries in flight for each key.")
    ] = None
    per_rate: Annotated[
        float | None, Parameter(help="The most deliveries per second for each key.")
    ] = None
    retry: RetryText = None

    def details(self) -> dict[str, Any]:
        """The given options without the headers, as `app.endpoints` takes them."""
        found = {
            "description": self.description,
            "method": None if self.method is None else self.method.upper(),
            "timeout": None
            if self.timeout is None
            else duration("timeout", self.timeout).total_seconds(),
            "rate": self.rate,
            "in_flight": self.in_flight,
            "limits": self._per_key(),
            "retry": None if self.retry is None else plan_from_text("retry", self.retry),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _per_key(self) -> PerKey | None:
        given = self.per_in_flight, self.per_rate
        if self.per is None:
            if given != (None, None):
                raise InvalidInput("per", "name what the key means, as in --per customer")
            return None
        try:
            return per(self.per, in_flight=self.per_in_flight, rate=self.per_rate)
        except InvalidInput as error:
            # Here the limits have other names.
            flags = {"rate": "per_rate", "in_flight": "per_in_flight"}
            raise InvalidInput(flags.get(error.field, "per"), error.problem) from error


@Parameter(name="*")
@dataclass(frozen=True)
class RemovedOptions:
    """Options to remove from an endpoint."""

    no_rate: Annotated[bool, Parameter(negative=(), help="Remove the limit per second.")] = False
    no_in_flight: Annotated[
        bool, Parameter(negative=(), help="Remove the limit of deliveries in flight.")
    ] = False
    no_per: Annotated[bool, Parameter(negative=(), help="Remove the limits for each key.")] = False
    default_retry: Annotated[
        bool, Parameter(negative=(), help="Remove its plan: the default applies.")
    ] = False
    no_header: Annotated[
        tuple[str, ...],
        Parameter(negative=(), show_default=False, help="The name of a header to remove."),
    ] = ()

    def limits(self, given: Mapping[str, Any]) -> dict[str, None]:
        """The limits to remove."""
        flags = {
            "rate": self.no_rate,
            "in_flight": self.no_in_flight,
            "limits": self.no_per,
            "retry": self.default_retry,
        }
        names = [name for name, is_set in flags.items() if is_set]
        for name in names:
            if name in given:
                flag = "per" if name == "limits" else name
                raise InvalidInput(flag, "set it or remove it, not both")
        return dict.fromkeys(names)


FLAGS = EndpointFlags()
REMOVED = RemovedOptions()


async def add(
    name: str,
    url: str,
    /,
    *,
    flags: EndpointFlags = FLAGS,
    secret: NewSecret = None,
    common: Common = COMMON,
) -> None:
    """Create an endpoint and print its secret, once.

    Parameters
    ----------
    name
        The name that deliveries use.
    url
        Where its deliveries are sent, as https://example.org/hook.
    """
    details = flags.details() | {"headers": each_once(pairs(flags.headers))}
    own = secret_of(secret)
    async with backend(common, create=True) as app:
        added = await app.endpoints.add(name, url, secret=own, **details)
    show_once(added, f"{name} added", own is None, common)


async def edit(
    name: str,
    /,
    *,
    url: Annotated[Text, Parameter(help="Where its deliveries are sent.")] = None,
    flags: EndpointFlags = FLAGS,
    removed: RemovedOptions = REMOVED,
    common: Common = COMMON,
) -> None:
    """Change options of an endpoint; each delivery uses them from its next attempt on."""
    details = flags.details()
    details |= removed.limits(details)
    details |= {} if url is None else {"url": url}
    headers = each_once(pairs(flags.headers))
    if not (details or headers or removed.no_header):
        raise InvalidInput("options", "there is nothing to change; see --help")
    changes = dict.fromkeys(removed.no_header) | headers
    async with backend(common) as app:
        endpoint = await _edited(app, name, changes, details)
    answer(common.json, endpoint, lambda: f"{name} edited, version {endpoint.version}")


async def _edited(
    app: Backend, name: str, changes: Mapping[str, str | None], details: Mapping[str, Any]
) -> Endpoint:
    try:
        return await app.endpoints.edit(name, header_changes=changes, **details)
    except InvalidInput as error:
        # Here the flag that removes headers has another name.
        flag = {"header_changes": "no_header"}.get(error.field, error.field)
        raise InvalidInput(flag, error.problem) from error
