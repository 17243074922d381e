"""Loads the settings: from a flag, the environment, `duly.toml` or the default, in that order."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from duly.domain.access.keys import check_random
from duly.domain.deliveries.retry_texts import plan_from_text
from duly.errors import BadSetting, InvalidInput
from duly.records.target import HIDDEN
from duly.settings.settings import ADDRESSES, SECRETS, Settings

CHECKS: dict[str, Callable[[str], object]] = {
    "retry": lambda text: plan_from_text("retry", text),
    "bootstrap_key": check_random,
}
"""Checks that a type and a pattern cannot express."""
NO_SETTINGS = frozenset({"DULY_FAILPOINTS"})
"""DULY_ variables that are not settings."""


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None = None
) -> Settings:
    """Load all settings; BadSetting names the one that is not valid."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for field, value, origin in _given(flags, environment, folder):
        values[field.name] = _converted(field, value, origin)
        origins[field.name] = origin
    return Settings(**values, origins=origins)


def checked_setting(name: str, value: Any) -> Any:
    """The value, if that setting could have it; else BadSetting."""
    (field,) = (each for each in _fields() if each.name == name)
    return _converted(field, value, "the caller")


def problems(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None = None
) -> list[BadSetting]:
    """All errors that `load` would raise, and unknown DULY_ variables."""
    names = {variable(field.name) for field in _fields()} | NO_SETTINGS
    unknown = sorted(name for name in environment if name.startswith("DULY_") and name not in names)
    found = [BadSetting(name, "there is no such setting") for name in unknown]
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
    """A setting as the documentation lists it."""

    name: str
    variable: str
    default: str
    allowed: str
    description: str


def described() -> list[Described]:
    """All settings, for the documentation."""
    return [_described(field) for field in _fields()]


def _described(field: msgspec.structs.FieldInfo) -> Described:
    default = msgspec.json.encode(field.default).decode()
    schema = _type_and_schema(field)[1]
    return Described(
        field.name, variable(field.name), default, _allowed(field), schema["description"]
    )


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"DULY_{name.upper()}"


def _given(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path | None
) -> Iterator[tuple[msgspec.structs.FieldInfo, Any, str]]:
    """Each setting with the value that applies, and its origin."""
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
    # Cached: this takes milliseconds, and every command needs it several times.
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
            field.name, f"{_shown(field, value)} from {origin} is not valid: {error.problem}"
        ) from error
    except msgspec.ValidationError as error:
        shown = _shown(field, value)
        raise BadSetting(
            field.name, f"{shown} from {origin} is not valid; give {_allowed(field)}"
        ) from error


def _shown(field: msgspec.structs.FieldInfo, value: Any) -> str:
    return HIDDEN if field.name in SECRETS | ADDRESSES else repr(value)


def _allowed(field: msgspec.structs.FieldInfo) -> str:
    kind, schema = _type_and_schema(field)
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number from {_number(kind.ge)} to {_number(kind.le)}"
        case inspect.FloatType():
            return f"a number from {_number(kind.ge)} to {_number(kind.le)}"
    return str(schema.get("title", "text"))


def _type_and_schema(field: msgspec.structs.FieldInfo) -> tuple[inspect.Type, Mapping[str, Any]]:
    info = inspect.type_info(field.type)
    assert isinstance(info, inspect.Metadata), f"{field.name} has no description"
    return info.type, info.extra_json_schema or {}


def _number(limit: float | None) -> str:
    assert limit is not None
    return str(int(limit)) if limit == int(limit) else str(limit)
