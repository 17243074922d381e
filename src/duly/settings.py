"""Every setting, from a flag, the environment, `duly.toml` or its default, in that order."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, inspect

from duly.domain.errors import BadSetting, InvalidInput
from duly.domain.plan_texts import plan_from_text
from duly.domain.retry import RetryPlan
from duly.domain.roles import Roles, roles_of
from duly.domain.webhooks import HIDDEN

DAY = 86400.0
CENTURY = 36500 * DAY
SECRETS = frozenset({"key", "webhook_secret", "secret_key", "alert_url"})
ADDRESSES = frozenset({"database", "server", "analytics"})
"""What may carry a password."""
DEFAULT_NAMESPACE = "default"
CHECKS: dict[str, Callable[[str], object]] = {
    "retry": lambda text: plan_from_text("retry", text),
}
"""What a kind and a pattern cannot say."""
NO_SETTINGS = frozenset({"DULY_FAILPOINTS"})
"""Variables of ours that are none: see failpoints."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force; durations are in seconds."""

    database: Annotated[
        str,
        Meta(
            title="sqlite:///file.db or postgresql://user@host/name",
            description="where deliveries are kept",
        ),
    ] = "sqlite:///duly.db"
    namespace: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z",
            title="letters, digits and _ . : / -, at most 200",
            description="whose deliveries: each sees its own only",
        ),
    ] = DEFAULT_NAMESPACE
    namespaces: Annotated[
        str,
        Meta(
            pattern=r"^$|^\*\Z|^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}"
            r"([, ]+[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199})*\Z",
            title="names with commas between, * for all, or nothing",
            description="the namespaces this process works for; nothing means all of them in the "
            "namespace `default`, and only its own in any other",
        ),
    ] = ""
    server: Annotated[
        str,
        Meta(
            pattern=r"^$|^https?://[^/?#@\s]+(/[A-Za-z0-9._~%/-]*)?\Z",
            title="http://host:8787, or nothing",
            description="the server that commands go through, instead of to the database",
        ),
    ] = ""
    key: Annotated[
        str,
        Meta(
            pattern=r"^$|^duly_[a-z2-7]{16}_[a-z2-7]{52}\Z",
            title="duly_..., as `duly keys create` prints it, or nothing",
            description="the key that commands show to that server",
        ),
    ] = ""
    host: Annotated[
        str,
        Meta(
            title="an address or a name of this machine",
            description="the address `duly serve` listens on",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port it listens on")] = 8787
    role: Annotated[
        str,
        Meta(
            pattern=r"^(api|worker|planner)([, ]+(api|worker|planner))*\Z",
            title="some of api, worker and planner, with commas between",
            description="what `duly serve` does here: on PostgreSQL others may do the rest",
        ),
    ] = "api,worker,planner"
    processes: Annotated[
        int, Meta(ge=1, le=256, description="how many processes `duly serve` runs, on PostgreSQL")
    ] = 1
    loopback_open: Annotated[
        bool, Meta(description="callers on this machine need no key while it listens on loopback")
    ] = True
    allowed_hosts: Annotated[
        str,
        Meta(
            title="names with spaces between, or * for any",
            description="names, besides its own, under which the port may be called",
        ),
    ] = ""
    cors_origins: Annotated[
        str,
        Meta(
            pattern=r"^[ ,]*(\*|https?://[^/?#@\s,]+([ ,]+https?://[^/?#@\s,]+)*)?[ ,]*\Z",
            title="origins as in https://app.example with spaces between, or * for any",
            description="other sites whose pages may call the port and read its answers",
        ),
    ] = ""
    key_rate: Annotated[
        float,
        Meta(
            ge=0.01,
            le=1_000_000,
            description="requests a second that a key may make, at all servers together",
        ),
    ] = 5000.0
    concurrency: Annotated[
        int, Meta(ge=1, le=10_000, description="deliveries attempted at once by one process")
    ] = 100
    lease: Annotated[
        float, Meta(ge=0.5, le=3600, description="silence after which a worker counts as dead")
    ] = 12.0
    recovery_interval: Annotated[
        float, Meta(ge=0.1, le=600, description="time between looks for dead workers")
    ] = 3.0
    poll: Annotated[
        float, Meta(ge=0.01, le=60, description="time between looks when no hint comes")
    ] = 1.0
    drain: Annotated[
        float, Meta(ge=0, le=3600, description="time that running deliveries get at a stop")
    ] = 30.0
    grace: Annotated[
        float, Meta(ge=0, le=DAY, description="lateness that is not worth a warning")
    ] = 60.0
    keep_completed: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long completed deliveries are kept")
    ] = 7 * DAY
    keep_dead: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long dead letters are kept")
    ] = 90 * DAY
    inbox_retention: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long the inbox remembers a message")
    ] = 7 * DAY
    prune_interval: Annotated[
        float, Meta(ge=1, le=CENTURY, description="time between prunings")
    ] = 3600.0
    prune_batch: Annotated[
        int, Meta(ge=1, le=100_000, description="deliveries looked at in one step of pruning")
    ] = 500
    sweep_interval: Annotated[float, Meta(ge=1, le=CENTURY, description="time between sweeps")] = (
        300.0
    )
    sweep_batch: Annotated[
        int, Meta(ge=1, le=100_000, description="deliveries looked at in one step of a sweep")
    ] = 500
    payload_limit: Annotated[
        int, Meta(ge=1, le=1_048_576, description="bytes that a payload may have")
    ] = 262_144
    accept_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="requests that may wait in one process for their deliveries to be stored",
        ),
    ] = 1000
    retry: Annotated[
        str,
        Meta(
            title="none, webhook, delays:30,2m,10m or exponential:base=30s,cap=1h,attempts=10",
            description="the retry plan where delivery, schedule, endpoint and handler have none",
        ),
    ] = ""
    egress_allow: Annotated[
        str,
        Meta(
            title="networks and hosts with spaces between",
            description="what webhooks may reach though it is not public",
        ),
    ] = ""
    webhook_secret: Annotated[
        str,
        Meta(
            title="whsec_..., several with spaces between",
            description="what webhooks are signed with; several while it is being changed",
        ),
    ] = ""
    secret_key: Annotated[
        str,
        Meta(
            title="base64 of 32 bytes, several with spaces between",
            description="what endpoints' secrets are sealed with; several to change it",
        ),
    ] = ""
    analytics: Annotated[
        str,
        Meta(
            pattern=r"^$|^(rediss?|unix)://",
            title="redis://user:password@host:6379/0, or nothing",
            description="where schedules' deliveries are counted by the minute",
        ),
    ] = ""
    analytics_keep: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long such a minute is kept")
    ] = 7 * DAY
    alert_url: Annotated[
        str,
        Meta(
            title="a URL, or the name of an endpoint",
            description="where alerts are sent, if anywhere",
        ),
    ] = ""
    alert_late: Annotated[
        int, Meta(ge=1, le=10_000, description="late deliveries that are an alert")
    ] = 100
    alert_dead: Annotated[
        int, Meta(ge=1, le=50_000, description="deaths within 15 minutes that are an alert")
    ] = 10
    pooler: Annotated[
        bool, Meta(description="PostgreSQL is behind a transaction pooler: poll, do not listen")
    ] = False
    connections: Annotated[
        int,
        Meta(ge=6, le=1000, description="connections to PostgreSQL that one process may open"),
    ] = 10
    origins: dict[str, str] = {}

    @property
    def plan(self) -> RetryPlan | None:
        """The retry plan where there is no other; None for those that are built in."""
        return plan_from_text("retry", self.retry) if self.retry else None

    @property
    def roles(self) -> Roles:
        """What this process does."""
        return roles_of(self.role)

    @property
    def served(self) -> list[str] | None:
        """The namespaces this process works for; None for all that the store has."""
        if not self.namespaces:
            return None if self.namespace == DEFAULT_NAMESPACE else [self.namespace]
        names = sorted(set(self.namespaces.replace(",", " ").split()))
        return None if names == ["*"] else names

    def __repr__(self) -> str:
        # It may end in a log; an address of a database carries a password too.
        shown = ", ".join(f"{name} from {origin}" for name, origin in self.origins.items())
        return f"Settings({shown})"


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None = None
) -> Settings:
    """Put the settings together; BadSetting names the one that cannot be."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for field, value, origin in _given(flags, environment, folder):
        values[field.name] = _converted(field, value, origin)
        origins[field.name] = origin
    return Settings(**values, origins=origins)


def problems(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None = None
) -> list[BadSetting]:
    """Everything for which `load` would refuse, and variables that are no settings."""
    names = {variable(field.name) for field in _fields()} | NO_SETTINGS
    strange = sorted(name for name in environment if name.startswith("DULY_") and name not in names)
    found = [BadSetting(name, "there is no such setting") for name in strange]
    try:
        for given in _given(flags, environment, folder):
            try:
                _converted(*given)
            except BadSetting as error:
                found.append(error)
    except BadSetting as error:
        found.append(error)
    return found


class Described(msgspec.Struct, frozen=True):
    """A setting as the docs tell it."""

    name: str
    variable: str
    default: str
    allowed: str
    description: str


def described() -> list[Described]:
    """Every setting."""
    return [_described(field) for field in _fields()]


def _described(field: msgspec.structs.FieldInfo) -> Described:
    default = msgspec.json.encode(field.default).decode()
    told = _told(field)[1]
    return Described(
        field.name, variable(field.name), default, _allowed(field), told["description"]
    )


def variable(name: str) -> str:
    """The environment's name of a setting."""
    return f"DULY_{name.upper()}"


def _given(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None
) -> Iterator[tuple[msgspec.structs.FieldInfo, Any, str]]:
    """Each setting with what counts for it, and where that comes from."""
    _refuse_unknown(flags)
    file = _file(folder or Path())
    for field in _fields():
        if flags.get(field.name) is not None:
            yield field, flags[field.name], "flag"
        elif variable(field.name) in environment:
            yield field, environment[variable(field.name)], variable(field.name)
        elif field.name in file:
            yield field, file[field.name], "duly.toml"
        else:
            yield field, field.default, "default"


@cache
def _fields() -> tuple[msgspec.structs.FieldInfo, ...]:
    # Kept: to find out what they are takes milliseconds, and every command asks several times.
    return tuple(each for each in msgspec.structs.fields(Settings) if each.name != "origins")


def _refuse_unknown(flags: Mapping[str, Any]) -> None:
    names = [field.name for field in _fields()]
    if unknown := sorted(set(flags) - set(names)):
        raise BadSetting(unknown[0], f"no such setting; there are {', '.join(names)}")


def _file(folder: Path) -> dict[str, Any]:
    path = folder / "duly.toml"
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting("duly.toml", f"it cannot be read: {error}") from error
    names = [field.name for field in _fields()]
    if unknown := sorted(set(found) - set(names)):
        raise BadSetting("duly.toml", f"no setting {unknown[0]!r}; there are {', '.join(names)}")
    return found


def _converted(field: msgspec.structs.FieldInfo, value: Any, origin: str) -> Any:
    try:
        converted = msgspec.convert(value, field.type, strict=False)
        if field.name in CHECKS and converted:
            CHECKS[field.name](converted)
        return converted
    except InvalidInput as error:
        raise BadSetting(
            field.name, f"{value!r} from {origin} will not do: {error.problem}"
        ) from error
    except msgspec.ValidationError as error:
        shown = HIDDEN if field.name in SECRETS | ADDRESSES else repr(value)
        raise BadSetting(
            field.name, f"{shown} from {origin} will not do; give {_allowed(field)}"
        ) from error


def _allowed(field: msgspec.structs.FieldInfo) -> str:
    """What a setting may be, in words."""
    kind, told = _told(field)
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number from {_number(kind.ge)} to {_number(kind.le)}"
        case inspect.FloatType():
            return f"a number from {_number(kind.ge)} to {_number(kind.le)}"
    return str(told.get("title", "text"))


def _told(field: msgspec.structs.FieldInfo) -> tuple[inspect.Type, Mapping[str, Any]]:
    info = inspect.type_info(field.type)
    assert isinstance(info, inspect.Metadata), f"{field.name} has no description"
    return info.type, info.extra_json_schema or {}


def _number(limit: float | None) -> str:
    assert limit is not None
    return str(int(limit)) if limit == int(limit) else str(limit)
