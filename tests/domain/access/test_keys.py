"""Tokens, what is stored of them, and the scopes of keys."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from duly.domain.access.keys import (
    ID_BYTES,
    SECRET_BYTES,
    StoredKey,
    checked_id,
    checked_scope,
    digest,
    id_in,
    is_token_of,
    new_token,
)
from duly.errors import InvalidInput, NotFound
from duly.records.key import KeyWithToken, Scope

NOW = datetime(2026, 8, 1, tzinfo=UTC)
CHANCE = bytes(range(ID_BYTES + SECRET_BYTES))


def key(**changes: object) -> StoredKey:
    plain = {
        "id": "a" * 16,
        "namespace": "default",
        "name": "ops",
        "scope": Scope.READ,
        "created_at": NOW,
    }
    return StoredKey(**plain | changes)  # type: ignore[arg-type]


@pytest.mark.requirement("S2")
def test_a_token_contains_its_id_and_cannot_be_read_from_the_stored_hash() -> None:
    id, token = new_token(CHANCE)
    assert token.startswith(f"duly_{id}_")
    assert id_in(token) == id == checked_id(id)
    assert is_token_of(token, digest(token))
    assert not is_token_of(token[:-1] + ("a" if token[-1] != "a" else "b"), digest(token))
    assert token.encode() not in digest(token)
    made = KeyWithToken(**msgspec.structs.asdict(key().record(NOW)), token=token)
    assert token not in repr(made)


@pytest.mark.parametrize(
    "text", ["", "duly_", "duly_aaaa_bbbb", "Bearer x", f"{new_token(CHANCE)[1]}\n", "duly_\0"]
)
def test_an_invalid_token_is_recognized_without_the_store(text: str) -> None:
    assert id_in(text) is None


@pytest.mark.parametrize("id", ["", "a", "A" * 16, "a" * 16 + "\n", "\0" * 16, "é" * 16])
def test_an_invalid_id_is_not_found(id: str) -> None:
    with pytest.raises(NotFound):
        checked_id(id)


@pytest.mark.requirement("S2")
def test_each_scope_includes_the_scopes_before_it() -> None:
    allowed = {(has, needs): has.allows(needs) for has in Scope for needs in Scope}
    assert [pair for pair, is_allowed in allowed.items() if is_allowed] == [
        (Scope.READ, Scope.READ),
        (Scope.OPERATE, Scope.READ),
        (Scope.OPERATE, Scope.OPERATE),
        *((Scope.ADMIN, each) for each in Scope),
    ]


@pytest.mark.parametrize("value", ["", "root", "READ", None, 1, "x" * 500])
def test_an_unknown_scope_is_refused_with_the_known_ones(value: object) -> None:
    with pytest.raises(InvalidInput, match="read, operate or admin"):
        checked_scope(value)


@pytest.mark.requirement("S2")
def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    ending = key(expires_at=NOW + timedelta(seconds=1))
    assert key().state(NOW) == ending.state(NOW) == "active"
    assert ending.state(NOW + timedelta(seconds=1)) == "expired"
    assert key(revoked_at=NOW).state(NOW) == "revoked"
