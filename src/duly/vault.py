"""Encrypts secrets with a key from the settings before they are stored, and decrypts them.

Without a key, secrets are stored as plain text. With several keys, the first one encrypts and all
of them decrypt, so a new key can be put first and all secrets encrypted again
(`duly endpoints reseal`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from duly.domain.endpoints.endpoint import Sealed
from duly.errors import BadSetting, DulyError

KEY_BYTES, NONCE_BYTES, ID_LETTERS = 32, 12, 8


class CannotOpen(DulyError):
    """The secret was sealed with a key that is not configured, or for another endpoint or URL."""


class Vault:
    """Seals (encrypts) and opens secrets; one sealed for an endpoint opens for no other."""

    def __init__(self, keys: Sequence[bytes], random: Callable[[int], bytes]) -> None:
        self._keys = {_id(key): key for key in keys}
        self._first = next(iter(self._keys), None)
        self._random = random
        self._ciphers: dict[str, Any] = {}

    @property
    def seals(self) -> str | None:
        """The id of the key that encrypts; None if secrets stay plain."""
        return self._first

    def seal(self, secret: str, context: str, until: datetime | None = None) -> Sealed:
        """The secret in its stored form, bound to the context."""
        if self._first is None:
            return Sealed(secret, None, until)
        return self._sealed(self._first, self._random(NONCE_BYTES), secret, context, until)

    def seal_repeatably(self, secret: str, context: str) -> Sealed:
        """Like `seal`, but equal input gives equal text, so that SQL can compare it."""
        if self._first is None:
            return Sealed(secret)
        message = f"{context}\n{secret}".encode()
        nonce = hmac.digest(_nonce_key(self._keys[self._first]), message, "sha256")[:NONCE_BYTES]
        return self._sealed(self._first, nonce, secret, context)

    def _sealed(
        self, id: str, nonce: bytes, secret: str, context: str, until: datetime | None = None
    ) -> Sealed:
        ciphertext = self._cipher(id).encrypt(nonce, secret.encode(), context.encode())
        return Sealed(base64.b64encode(nonce + ciphertext).decode(), id, until)

    def open(self, sealed: Sealed, context: str) -> str:
        """The plain secret, or CannotOpen."""
        if sealed.key is None:
            return sealed.text
        if sealed.key not in self._keys:
            raise CannotOpen(
                f"it was sealed with key {sealed.key}, which is not in DULY_SECRET_KEY; add it"
            )
        try:
            whole = base64.b64decode(sealed.text)
            nonce, ciphertext = whole[:NONCE_BYTES], whole[NONCE_BYTES:]
            cipher = self._cipher(sealed.key)
            return str(cipher.decrypt(nonce, ciphertext, context.encode()), "utf-8")
        except Exception as error:
            raise CannotOpen("it was changed, or sealed for another endpoint or URL") from error

    def _cipher(self, id: str) -> Any:
        if id not in self._ciphers:
            # Imported on first use: most apps have no key.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers[id] = AESGCM(self._keys[id])
        return self._ciphers[id]


def sealing_keys(setting: str) -> list[bytes]:
    """The keys in DULY_SECRET_KEY: base64 of 32 bytes each, the encrypting key first."""
    return [_key(text) for text in setting.split()]


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSetting(
            "secret_key",
            f"give base64 of {KEY_BYTES} bytes, as `openssl rand -base64 {KEY_BYTES}` prints them",
        )
    return key


def _nonce_key(key: bytes) -> bytes:
    # Derived, so that no key is used for two algorithms.
    return hashlib.sha256(b"duly secret key nonce" + key).digest()


def _id(key: bytes) -> str:
    return hashlib.sha256(b"duly secret key id" + key).hexdigest()[:ID_LETTERS]
