"""Keys as the API takes and shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.domain.access.keys import LONGEST_NAME, Made, StoredKey
from duly.records.key import KeyState, Scope
from duly.surfaces.http.protocol.bodies import Moment


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A key to be made."""

    EXAMPLE: ClassVar = {"name": "ops", "scope": "operate", "expires_at": "2027-11-15T09:00:00Z"}
    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="whose it is")]
    scope: Scope = Scope.READ
    expires_at: Moment | None = None


class KeyRecord(StoredKey, frozen=True, kw_only=True):
    """A key as everyone may see it."""

    state: KeyState


class MadeKey(KeyRecord, frozen=True, kw_only=True):
    """A new key with its token, which is told once and never again."""

    token: str


def key_record(key: StoredKey, now: datetime) -> KeyRecord:
    """A key as it is shown."""
    return KeyRecord(**msgspec.structs.asdict(key), state=key.standing(now))


def made_key(made: Made, now: datetime) -> MadeKey:
    """A new key as it is told."""
    facts = msgspec.structs.asdict(made.key)
    return MadeKey(**facts, state=made.key.standing(now), token=made.token)
