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
        help="whsec_..., several separated by spaces; better in DULY_WEBHOOK_SECRET, since other "
        "users of this machine can see flags."
    ),
]


def given_secret(flag: str | None) -> str:
    """The secret in effect, or an empty text; InvalidInput if it is not valid."""
    found = load({"webhook_secret": flag}, os.environ).webhook_secret
    if found or flag is not None:
        secret_keys(found)
    return found
