"""The book of endpoints: sealed values are opened when they change, not at every reading."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers import aead

from duly.domain.endpoints.endpoint import Details, Sealed, StoredEndpoint
from duly.domain.endpoints.sealed_headers import sealed_headers
from duly.testing import VirtualClock
from duly.transports.webhooks.endpoint_cache import FRESH_SECONDS, EndpointCache
from duly.vault import Vault

pytestmark = pytest.mark.requirement("X4")
VAULT = Vault([b"k" * 32], lambda count: b"n" * count)


def details(**headers: str) -> Details:
    return Details(url="https://example.org/", headers=sealed_headers(headers, "a", VAULT.seal))


class Shelf:
    """One endpoint, how often it was read, and how many of its values were opened."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        now = self.clock.now()
        self.endpoint = StoredEndpoint(
            name="a", target=1, details=details(x="1"), state_at=now, created_at=now, version=1,
            secrets=(VAULT.seal(f"whsec_{'A' * 32}", "a"),),
        )  # fmt: skip
        self.read = self.opened = 0
        self.book = EndpointCache(lambda _: self, self.clock, self._open, lambda _: None, "default")

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        self.read += 1
        return [self.endpoint]

    def change(self, **fields: Any) -> None:
        self.endpoint = msgspec.structs.replace(self.endpoint, **fields)

    def _open(self, sealed: Sealed, context: str) -> str:
        self.opened += 1
        return VAULT.open(sealed, context)

    async def next(self) -> tuple[dict[str, str], int]:
        """The headers and the number of keys at the next reading."""
        self.clock.advance(FRESH_SECONDS)
        found = await self.book.reach("a", "default")
        assert found is not None
        return dict(found.webhook.headers), len(found.keys)


async def test_an_endpoint_that_stays_the_same_is_opened_once() -> None:
    shelf = Shelf()
    for _ in range(5):
        assert await shelf.next() == ({"x": "1"}, 1)
    assert (shelf.read, shelf.opened) == (5, 2)


async def test_an_edit_counts_from_the_next_reading() -> None:
    """Whatever the version says: one that was removed and added again begins with the same."""
    shelf = Shelf()
    await shelf.next()
    shelf.change(details=details(x="2", y="3"))
    assert await shelf.next() == ({"x": "2", "y": "3"}, 1)


async def test_a_secret_that_ends_between_two_readings_signs_no_more() -> None:
    shelf = Shelf()
    until = shelf.clock.now() + timedelta(seconds=FRESH_SECONDS * 1.5)
    shelf.change(secrets=(*shelf.endpoint.secrets, VAULT.seal(f"whsec_{'B' * 32}", "a", until)))
    assert await shelf.next() == ({"x": "1"}, 2)
    assert await shelf.next() == ({"x": "1"}, 1)


def test_a_key_is_set_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    real: Callable[[bytes], aead.AESGCM] = aead.AESGCM
    monkeypatch.setattr(aead, "AESGCM", lambda key: made.append(key) or real(key))
    vault = Vault([b"k" * 32, b"l" * 32], lambda count: b"n" * count)
    sealed = vault.seal("hush", "a")
    assert [vault.open(sealed, "a") for _ in range(3)] == ["hush"] * 3
    assert made == [b"k" * 32]
