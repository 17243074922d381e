"""The app: duly with the users' tables, the routes of `/user` and a handler for greetings."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from duly import App, Delivery
from duly.errors import BadSetting, InvalidInput, NotFound
from duly_birthday.greetings.birthday import Birthday
from duly_birthday.greetings.occasion import Occasion
from duly_birthday.http import user_routes
from duly_birthday.settings import LOG, manner_of
from duly_birthday.wire import bring_up

logger = logging.getLogger("duly_birthday")


class BirthdayApp(App):
    """An App that greets users; it takes the arguments of App, and the occasions."""

    def __init__(
        self,
        database: str | None = None,
        *,
        environment: Mapping[str, str] = os.environ,
        occasions: Sequence[Occasion] = (Birthday(),),
        **more: Any,
    ) -> None:
        super().__init__(database, environment=environment, **more)
        self.manner = manner_of(environment, occasions)
        if self.manner.target != LOG and not self.settings.webhook_secret:
            raise BadSetting(
                "webhook_secret", "greetings are signed; set DULY_WEBHOOK_SECRET to whsec_..."
            )
        self.routes += user_routes(self.store.namespace, self.manner)
        self.handler(LOG)(_log)

    async def migrate_more(self) -> None:
        """Bring the users' tables up to date; BadSetting if the calendar is missing."""
        await bring_up(self)
        if (name := self.manner.calendar) is not None:
            try:
                await self.calendars.get(name)
            except (NotFound, InvalidInput) as error:
                remedy = "set it first with `duly calendars set` or `duly calendars import`"
                raise BadSetting("BIRTHDAY_CALENDAR", f"{error}; {remedy}") from error


async def _log(delivery: Delivery[Any]) -> None:
    payload = delivery.payload
    is_greeting = isinstance(payload, dict) and "message" in payload
    text = payload["message"] if is_greeting else msgspec.json.encode(payload).decode()
    facts = {"delivery": delivery.id, "attempt": delivery.attempt}
    logger.info("%s", text, extra={"event": "Greeted" if is_greeting else "Logged", "facts": facts})
