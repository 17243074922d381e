"""The PATCH form of an options struct: every field may be absent."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType


def partial_of(options: type[msgspec.Struct], name: str, **more: Any) -> type[msgspec.Struct]:
    """A struct with the same fields, limits and descriptions, of which each may be left out.

    A field that is left out is UNSET; null is a value like any other. `more` adds fields.
    """
    hints = get_type_hints(options, include_extras=True)
    given = {each.name: hints[each.name] for each in msgspec.structs.fields(options)} | more
    return msgspec.defstruct(
        name,
        [(field, kind | UnsetType, UNSET) for field, kind in given.items()],
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def given(changes: msgspec.Struct) -> dict[str, Any]:
    """The fields that were given."""
    return {
        name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET
    }
