"""Zones come only from the tzdata package, by their exact names."""

import re
import struct
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from duly.domain.time import zones
from duly.domain.time.offsets import ERA, STRIDE, Offsets
from duly.domain.time.zones import fingerprint, names, zone, zone_data_version
from duly.errors import InvalidInput

pytestmark = pytest.mark.requirement("C2")

WINTER, SUMMER = datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 7, 15, tzinfo=UTC)


def data(name: str) -> bytes:
    return (files("tzdata") / "zoneinfo" / name).read_bytes()


def distinct_zones() -> list[str]:
    return sorted({fingerprint(name): name for name in sorted(names())}.values())


def test_every_listed_zone_exists() -> None:
    assert len(names()) > 400
    for name in names():
        assert zone(name).key == name
        assert zone(name).utcoffset(WINTER.replace(tzinfo=None)) is not None


def test_a_zone_is_loaded_once() -> None:
    assert zone("Europe/Oslo") is zone("Europe/Oslo")


def test_the_zones_of_the_machine_are_never_used(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Oslo").write_bytes(data("Asia/Tokyo"))
    search_path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        fresh = zones._load.__wrapped__("Europe/Oslo")
        assert WINTER.astimezone(fresh).hour == 1
        assert list(zoneinfo.TZPATH) == [str(tmp_path)]
    finally:
        zoneinfo.reset_tzpath(to=search_path)


def test_the_data_is_as_new_as_the_package() -> None:
    nine = datetime(2026, 11, 15, 9, tzinfo=zone("America/Vancouver"))
    assert nine.astimezone(UTC) == datetime(2026, 11, 15, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "localtime",
        "posixrules",
        "Europe",
        "Europe/",
        "Europe/Atlantis",
        "europe/oslo",
        "EUROPE/OSLO",
        " Europe/Oslo",
        "Europe/Oslo\n",
        "../x",
        "../zones",
        "Europe/../Europe/Oslo",
        "Europe//Oslo",
        "./Europe/Oslo",
        "/etc/localtime",
        "/usr/share/zoneinfo/Europe/Oslo",
        "Europe\\Oslo",
        "Europe/Oslo\0",
        "\0",
        "\ud800",
        "Ünited/Kingdom",
        "x" * 300,
        "tzdata.zi",
        "zone.tab",
        "zone1970.tab",
        "iso3166.tab",
        "leapseconds",
        "__init__.py",
        "+01:00",
        "GMT+25",
        None,
        1,
        b"Europe/Oslo",
        ["Europe/Oslo"],
        UTC,
    ],
)
def test_an_unknown_zone_is_refused_with_its_name_and_a_remedy(name: object) -> None:
    for function in (zone, fingerprint):
        with pytest.raises(InvalidInput, match=r"IANA name such as Europe/Oslo|write ") as refused:
            function(name)  # type: ignore[operator]
        assert refused.value.field == "tz"
        assert len(str(refused.value)) < 300
        assert str(refused.value).isprintable()


def test_a_name_in_the_wrong_case_is_answered_with_the_right_one() -> None:
    with pytest.raises(InvalidInput, match="write Europe/Oslo"):
        zone("europe/OSLO")


def test_the_version_is_a_release_of_the_zone_data() -> None:
    assert re.fullmatch(r"20\d\d[a-z]", zone_data_version())


def test_a_fingerprint_changes_only_with_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint("Europe/Oslo"))
    assert fingerprint("Europe/Oslo") != fingerprint("Asia/Tokyo")
    before = zones._fingerprint.__wrapped__("Europe/Oslo")
    assert before == fingerprint("Europe/Oslo")
    monkeypatch.setattr(zones, "_data", lambda name: data(name) + b"\n")
    assert zones._fingerprint.__wrapped__("Europe/Oslo") != before


def test_no_clock_changes_twice_between_two_probes() -> None:
    for name in distinct_zones():
        for (before, *_), (after, *_) in pairwise(changes(data(name))):
            assert after < 0 or after - before > STRIDE, name


def test_every_change_of_a_clock_is_found_to_the_second() -> None:
    for name in distinct_zones()[::5]:
        expected = [each for each in changes(data(name)) if ERA // 16 <= each[0] < 64 * ERA]
        assert expected == list(found(Offsets(name)))[: len(expected)], name


def found(offsets: Offsets) -> Iterator[tuple[int, int, int]]:
    for before, after in pairwise(offsets.through(0, 66 * ERA)):
        if before.offset != after.offset and after.start >= ERA // 16:
            yield after.start, before.offset, after.offset
            assert after.shown == after.start + before.offset


def changes(tzif: bytes) -> list[tuple[int, int, int]]:
    """The changes of the offset in the file's own table: when, from what, to what."""
    version_one = counts(tzif, 0)
    start = 44 + size(version_one, 4)
    times, types = counts(tzif, start)[3:5]
    moments = struct.unpack_from(f">{times}q", tzif, start + 44)
    kinds = tzif[start + 44 + 8 * times :][:times]
    table = start + 44 + 9 * times
    offsets = [struct.unpack_from(">l", tzif, table + 6 * each)[0] for each in range(types)]
    before = [offsets[0], *(offsets[kind] for kind in kinds)]
    rows = zip(moments, before, (offsets[kind] for kind in kinds), strict=False)
    return [(at, old, new) for at, old, new in rows if old != new]


def counts(tzif: bytes, start: int) -> tuple[int, ...]:
    assert tzif[start : start + 4] == b"TZif"
    return struct.unpack_from(">6l", tzif, start + 20)


def size(counted: tuple[int, ...], width: int) -> int:
    in_utc, in_standard, leaps, times, types, letters = counted
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + in_standard + in_utc
