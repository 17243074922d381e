"""The cache of endpoints: sealed values are opened when they change, not at every read."""

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


class CountingStore:
    """A store with one endpoint that counts reads and opened values."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        now = self.clock.now()
        self.endpoint = StoredEndpoint(
            name="a", target=1, details=details(x="1"), state_at=now, created_at=now, version=1,
            secrets=(VAULT.seal(f"whsec_{'A' * 32}", "a"),),
        )  # fmt: skip
        self.read = self.opened = 0
        self.cache = EndpointCache(
            lambda _: self, self.clock, self._open, lambda _: None, "default"
        )

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        self.read += 1
        return [self.endpoint]

    def change(self, **fields: Any) -> None:
        self.endpoint = msgspec.structs.replace(self.endpoint, **fields)

    def _open(self, sealed: Sealed, context: str) -> str:
        self.opened += 1
        return VAULT.open(sealed, context)

    async def next(self) -> tuple[dict[str, str], int]:
        """The headers and the number of keys at the next read."""
        self.clock.advance(FRESH_SECONDS)
        found = await self.cache.reach("a", "default")
        assert found is not None
        return dict(found.webhook.headers), len(found.keys)


async def test_an_unchanged_endpoint_is_opened_once() -> None:
    store = CountingStore()
    for _ in range(5):
        assert await store.next() == ({"x": "1"}, 1)
    assert (store.read, store.opened) == (5, 2)


async def test_an_edit_applies_from_the_next_read() -> None:
    """With any version: an endpoint that was removed and added again starts with the same one."""
    store = CountingStore()
    await store.next()
    store.change(details=details(x="2", y="3"))
    assert await store.next() == ({"x": "2", "y": "3"}, 1)


async def test_a_secret_that_expires_between_two_reads_is_not_used() -> None:
    store = CountingStore()
    until = store.clock.now() + timedelta(seconds=FRESH_SECONDS * 1.5)
    store.change(secrets=(*store.endpoint.secrets, VAULT.seal(f"whsec_{'B' * 32}", "a", until)))
    assert await store.next() == ({"x": "1"}, 2)
    assert await store.next() == ({"x": "1"}, 1)


def test_a_key_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    real: Callable[[bytes], aead.AESGCM] = aead.AESGCM
    monkeypatch.setattr(aead, "AESGCM", lambda key: made.append(key) or real(key))
    vault = Vault([b"k" * 32, b"l" * 32], lambda count: b"n" * count)
    sealed = vault.seal("hush", "a")
    assert [vault.open(sealed, "a") for _ in range(3)] == ["hush"] * 3
    assert made == [b"k" * 32]
