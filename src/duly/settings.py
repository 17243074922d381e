"""Every setting, from a flag, the environment, `duly.toml` or its default, in that order."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from duly.domain.errors import BadSetting
from duly.domain.webhooks import HIDDEN

DAY = 86400.0
CENTURY = 36500 * DAY
SECRETS = frozenset({"webhook_secret", "secret_key", "alert_url"})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force; durations are in seconds."""

    database: Annotated[str, Meta(description="where deliveries are kept")] = "sqlite:///duly.db"
    namespace: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z",
            description="whose deliveries: each sees its own only",
        ),
    ] = "default"
    host: Annotated[str, Meta(description="the address `duly serve` listens on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port it listens on")] = 8787
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
    ] = 1000
    sweep_interval: Annotated[float, Meta(ge=1, le=CENTURY, description="time between sweeps")] = (
        300.0
    )
    sweep_batch: Annotated[
        int, Meta(ge=1, le=100_000, description="deliveries looked at in one step of a sweep")
    ] = 5000
    payload_limit: Annotated[
        int, Meta(ge=1, le=1_048_576, description="bytes that a payload may have")
    ] = 262_144
    accept_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="requests that may wait for their deliveries to be stored",
        ),
    ] = 1000
    egress_allow: Annotated[
        str,
        Meta(description="networks and hosts that webhooks may reach though they are not public"),
    ] = ""
    webhook_secret: Annotated[
        str, Meta(description="what webhooks are signed with; several while it is being changed")
    ] = ""
    secret_key: Annotated[
        str, Meta(description="what endpoints' secrets are sealed with; several to change it")
    ] = ""
    alert_url: Annotated[
        str, Meta(description="where alerts are sent: a URL, or the name of an endpoint")
    ] = ""
    alert_late: Annotated[
        int, Meta(ge=1, le=50_000, description="late deliveries that are an alert")
    ] = 100
    alert_dead: Annotated[
        int, Meta(ge=1, le=50_000, description="deaths within 15 minutes that are an alert")
    ] = 10
    pooler: Annotated[
        bool, Meta(description="PostgreSQL is behind a transaction pooler: poll, do not listen")
    ] = False
    origins: dict[str, str] = {}

    def __repr__(self) -> str:
        # It may end in a log; an address of a database carries a password too.
        shown = ", ".join(f"{name} from {origin}" for name, origin in self.origins.items())
        return f"Settings({shown})"


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None = None
) -> Settings:
    """Put the settings together; BadSetting names the one that cannot be."""
    _refuse_unknown(flags)
    file = _file(folder or Path())
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for field in _fields():
        variable = f"DULY_{field.name.upper()}"
        if flags.get(field.name) is not None:
            value, origin = flags[field.name], "flag"
        elif variable in environment:
            value, origin = environment[variable], variable
        elif field.name in file:
            value, origin = file[field.name], "duly.toml"
        else:
            value, origin = field.default, "default"
        values[field.name] = _converted(field, value, origin)
        origins[field.name] = origin
    return Settings(**values, origins=origins)


def _fields() -> list[msgspec.structs.FieldInfo]:
    return [each for each in msgspec.structs.fields(Settings) if each.name != "origins"]


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
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        shown = HIDDEN if field.name in SECRETS else repr(value)
        raise BadSetting(field.name, f"{shown} from {origin} will not do: {error}") from error
