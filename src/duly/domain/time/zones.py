"""Time zones, read only from the `tzdata` package.

The system's zone data is often old and differs between machines, so it is never used. Python's
zone search path is not changed, so users' own zones are not affected.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from typing import NoReturn
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from duly.errors import InvalidInput, quoted


def zone(name: str) -> ZoneInfo:
    """The zone with this IANA name; InvalidInput for the field `tz` if there is none."""
    return _load(checked_zone(name))


def checked_zone(name: object) -> str:
    """The name, if `tzdata` lists it in exactly this spelling."""
    if not isinstance(name, str) or name not in names():
        _refuse(name)
    return name


def fingerprint(name: str) -> str:
    """A short hash of the zone's data; if it differs, the zone's rules may have changed."""
    return _fingerprint(checked_zone(name))


def zone_data_version() -> str:
    """The release of the zone data, such as `2026f`."""
    return str(tzdata.IANA_VERSION)


@cache
def names() -> frozenset[str]:
    """All zones and links in the package."""
    listed = (files("tzdata") / "zones").read_text(encoding="ascii")
    return frozenset(listed.split())


@cache
def _load(name: str) -> ZoneInfo:
    return ZoneInfo.from_file(BytesIO(_data(name)), key=name)


@cache
def _fingerprint(name: str) -> str:
    return sha256(_data(name)).hexdigest()[:16]


def _data(name: str) -> bytes:
    return (files("tzdata") / "zoneinfo" / name).read_bytes()


def _refuse(name: object) -> NoReturn:
    raise InvalidInput(
        "tz",
        f"{quoted(name)} is no time zone of the zone data {zone_data_version()}; {_remedy(name)}",
    )


def _remedy(name: object) -> str:
    alike = [each for each in names() if isinstance(name, str) and each.lower() == name.lower()]
    return f"write {alike[0]}" if alike else "give an IANA name such as Europe/Oslo or UTC"
