"""Stored addresses of webhooks to plain URLs: header values are sealed if there is a vault key.

A value is sealed for its URL and header, so it opens for no other receiver. Equal addresses have
equal text, so that SQL can compare them.
"""

from __future__ import annotations

import msgspec

from duly.domain.endpoints.endpoint import Sealed
from duly.domain.endpoints.sealed_headers import (
    Open,
    Seal,
    opened_headers,
    readable_headers,
    sealed_headers,
)
from duly.domain.endpoints.webhooks import decode_webhook, encode_webhook
from duly.errors import DulyError
from duly.records.target import Webhook

HEADERS = '"headers":{'
"""Part of every stored address with headers; all others are returned unchanged."""


class SealedAddresses:
    """Seals and opens stored addresses."""

    def __init__(self, seal: Seal, open: Open) -> None:
        self._seal = seal
        self._open = open

    def sealed(self, address: str | None) -> str | None:
        """The address for the store; values that are already sealed stay as they are."""
        if address is None or HEADERS not in address:
            return address
        return self._encoded(decode_webhook(address))

    def readable(self, address: str | None) -> str | None:
        """The address as it was given; values that cannot be opened stay sealed."""
        if address is None or HEADERS not in address:
            return address
        found = decode_webhook(address)
        return _with_headers(found, readable_headers(found.headers, _context(found), self._open))

    def resealed(self, address: str) -> str:
        """The address sealed with the first key; an error of `open` is passed on."""
        return self._encoded(self.opened(address))

    def opened(self, address: str) -> Webhook:
        """The webhook to send; an error of `open` is passed on."""
        found = decode_webhook(address)
        if not found.headers:
            return found
        headers = opened_headers(found.headers, _context(found), self._open)
        return msgspec.structs.replace(found, headers=headers)

    def _encoded(self, webhook: Webhook) -> str:
        headers = sealed_headers(webhook.headers, _context(webhook), self._seal)
        return _with_headers(webhook, headers)


def _with_headers(webhook: Webhook, headers: dict[str, str]) -> str:
    return encode_webhook(msgspec.structs.replace(webhook, headers=headers))


def _context(webhook: Webhook) -> str:
    # Names of endpoints contain no line breaks, so no endpoint has this context.
    return f"url\n{webhook.url}"


def _no_key(_sealed: Sealed, _context: str) -> str:
    raise DulyError("it is sealed, and there is no key")


PLAIN = SealedAddresses(lambda value, _: Sealed(value), _no_key)
"""For use without keys: seals nothing and opens nothing."""
