"""The birthdays of the demo: people of the birthday service who are greeted in a few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from duly.client.client import Client
from duly.errors import DulyError
from duly.surfaces.cli.demo.server_process import start_duly

SERVICE = "duly_birthday"
PEOPLE = ("Ada", "Grace", "Katherine", "Mary", "Radia")
MARGINS = (4, 12, 24)
"""Seconds from the import to the birthday; a slow machine may need more than the first."""
SOON = timedelta(minutes=1)
LEAP_YEAR = 1992
"""A year that has every day."""


class BirthdaysFailed(DulyError):
    """The people of the demo could not be registered."""


def has_birthdays() -> bool:
    """Whether the birthday service is installed."""
    return find_spec(SERVICE) is not None


async def register_people(client: Client, folder: Path, settings: Mapping[str, str]) -> None:
    """Register people whose birthday is today, in a few seconds."""
    for seconds in MARGINS:
        now = client.clock.now()
        await _import(now + timedelta(seconds=seconds), folder, settings)
        # If the moment passed during the import, their first greeting is next year.
        found = await client.list(tag="birthday", limit=len(PEOPLE), payloads=False)
        if all(each.due_at < now + SOON for each in found):
            return
    raise BirthdaysFailed(f"this machine is too slow: an import takes over {MARGINS[-1]} seconds")


async def _import(due: datetime, folder: Path, settings: Mapping[str, str]) -> None:
    day = due.replace(year=LEAP_YEAR).date()
    # Another surname each time: people who are registered already would be skipped.
    lines = [f"{name},Demo {due:%S},{day},UTC" for name in PEOPLE]
    people = folder / "people.csv"
    people.write_text("\n".join(["firstName,lastName,dateOfBirth,timezone", *lines]))
    given = {**settings, "BIRTHDAY_TIME": f"{due:%H:%M:%S}"}
    process = await start_duly(SERVICE, "import", str(people), folder=folder, settings=given)
    _, errors = await process.communicate()
    if process.returncode:
        raise BirthdaysFailed(f"the birthdays could not be imported: {errors.decode()}")
