"""The secret of webhooks, from a flag or the settings; it is never printed."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from duly.domain.endpoints.signatures import secret_keys
from duly.settings import load

Secret = Annotated[
    str | None,
    Parameter(
        help="whsec_..., several with spaces between; better in DULY_WEBHOOK_SECRET, since other "
        "users of this machine can see flags."
    ),
]


def given_secret(flag: str | None) -> str:
    """The secret in force, or nothing; one that is none is refused here."""
    found = load({"webhook_secret": flag}, os.environ).webhook_secret
    if found or flag is not None:
        secret_keys(found)
    return found
