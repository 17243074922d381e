"""The headers of an endpoint as they are stored: where there is a key, each value is sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint
from duly.domain.endpoints.webhooks import SEALED_MARK
from duly.errors import DulyError

Seal = Callable[[str, str], Sealed]
Open = Callable[[Sealed, str], str]


def sealed_headers(headers: Mapping[str, str], endpoint: str, seal: Seal) -> dict[str, str]:
    """Headers to be stored; values that are sealed already stay as they are."""
    return {
        name: value if value.startswith(SEALED_MARK) else _stored(seal(value, _use(endpoint, name)))
        for name, value in headers.items()
    }


def opened_headers(headers: Mapping[str, str], endpoint: str, open: Open) -> dict[str, str]:
    """Stored headers as they are sent; whatever `open` raises when one cannot be opened."""
    return {name: _opened(value, _use(endpoint, name), open) for name, value in headers.items()}


def readable_headers(headers: Mapping[str, str], endpoint: str, open: Open) -> dict[str, str]:
    """The same for people; what cannot be opened stays sealed."""
    found = dict(headers)
    for name, value in headers.items():
        try:
            found[name] = _opened(value, _use(endpoint, name), open)
        except DulyError:
            continue
    return found


def key_ids(stored: StoredEndpoint) -> set[str | None]:
    """With which keys its secrets and headers are sealed; None is for those that are plain."""
    headers = stored.details.headers.values()
    return {each.key for each in (*stored.secrets, *map(_sealed, headers))}


def _use(endpoint: str, header: str) -> str:
    # Names have no line breaks, so this is no other endpoint's secret or header.
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
