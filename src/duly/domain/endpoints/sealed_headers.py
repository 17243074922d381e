"""The headers of an endpoint as stored: each value is encrypted if there is a vault key."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint
from duly.errors import DulyError
from duly.records.target import SEALED_MARK

Seal = Callable[[str, str], Sealed]
Open = Callable[[Sealed, str], str]


def sealed_headers(headers: Mapping[str, str], endpoint: str, seal: Seal) -> dict[str, str]:
    """Headers for the store; values that are already sealed stay as they are."""
    return {
        name: value if value.startswith(SEALED_MARK) else _stored(seal(value, _use(endpoint, name)))
        for name, value in headers.items()
    }


def opened_headers(headers: Mapping[str, str], endpoint: str, open: Open) -> dict[str, str]:
    """Stored headers as they are sent; an error of `open` is passed on."""
    return {name: _opened(value, _use(endpoint, name), open) for name, value in headers.items()}


def readable_headers(headers: Mapping[str, str], endpoint: str, open: Open) -> dict[str, str]:
    """Stored headers to show; those that cannot be opened stay sealed."""
    found = dict(headers)
    for name, value in headers.items():
        try:
            found[name] = _opened(value, _use(endpoint, name), open)
        except DulyError:
            continue
    return found


def key_ids(stored: StoredEndpoint) -> set[str | None]:
    """The ids of the keys that seal its secrets and headers; None for plain values."""
    headers = stored.details.headers.values()
    return {each.key for each in (*stored.secrets, *map(_sealed, headers))}


def _use(endpoint: str, header: str) -> str:
    # Names contain no line breaks, so the label is unique for this endpoint and header.
    return f"{endpoint}\n{header.lower()}"


def _opened(value: str, use: str, open: Open) -> str:
    return open(_sealed(value), use) if value.startswith(SEALED_MARK) else value


def _stored(sealed: Sealed) -> str:
    return sealed.text if sealed.key is None else f"{SEALED_MARK}{sealed.key}:{sealed.text}"


def _sealed(value: str) -> Sealed:
    if not value.startswith(SEALED_MARK):
        return Sealed(value)
    key, _, text = value.removeprefix(SEALED_MARK).partition(":")
    return Sealed(text, key)
