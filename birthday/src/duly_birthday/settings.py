"""The settings of greetings, from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import get_args

import duly
from duly.errors import BadSetting, InvalidInput
from duly_birthday.greetings.greetings import Manner, Move, Target
from duly_birthday.greetings.occasion import Occasion
from duly_birthday.users.events import Feb29

LOG = "log"
"""The handler of greetings without a webhook: it only logs."""
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")


def manner_of(environment: Mapping[str, str], occasions: Sequence[Occasion]) -> Manner:
    """The settings in the variables BIRTHDAY_*."""
    return Manner(
        _target(environment),
        _time(environment),
        _feb29(environment),
        tuple(occasions),
        environment.get("BIRTHDAY_CALENDAR") or None,
        _move(environment),
    )


def _time(environment: Mapping[str, str]) -> time:
    given = environment.get("BIRTHDAY_TIME") or "09:00"
    if not TIME_OF_DAY.fullmatch(given):
        raise BadSetting(
            "BIRTHDAY_TIME", f"{given!r} is not a time of day; write it as 09:00 or 09:00:30"
        )
    return time.fromisoformat(given)


def _feb29(environment: Mapping[str, str]) -> Feb29:
    given = environment.get("BIRTHDAY_FEB29") or "feb28"
    for each in get_args(Feb29):
        if given == each:
            return each  # type: ignore[no-any-return]
    raise BadSetting("BIRTHDAY_FEB29", f"{given!r} is none of {', '.join(get_args(Feb29))}")


def _move(environment: Mapping[str, str]) -> Move:
    given = environment.get("BIRTHDAY_MOVE") or "next"
    if environment.get("BIRTHDAY_MOVE") and not environment.get("BIRTHDAY_CALENDAR"):
        raise BadSetting("BIRTHDAY_MOVE", "it says nothing without BIRTHDAY_CALENDAR; leave it out")
    for each in get_args(Move):
        if given == each:
            return each  # type: ignore[no-any-return]
    raise BadSetting("BIRTHDAY_MOVE", f"{given!r} is none of {', '.join(get_args(Move))}")


def _target(environment: Mapping[str, str]) -> Target:
    url = environment.get("BIRTHDAY_WEBHOOK_URL")
    if not url:
        return LOG
    try:
        return duly.webhook(url)
    except InvalidInput as error:
        raise BadSetting("BIRTHDAY_WEBHOOK_URL", error.problem) from error
