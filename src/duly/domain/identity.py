"""Names that duly gives: delivery ids, which sort by time, and fencing tokens."""

from __future__ import annotations

from hashlib import sha256

CLAIMS_PER_WORKER = 1 << 32


def delivery_id(milliseconds: int, chance: int) -> str:
    """A version 7 UUID: the moment first, then 74 bits of chance."""
    moment = f"{milliseconds:012x}"
    return (
        f"{moment[:8]}-{moment[8:]}-7{chance >> 62:03x}-"
        f"{chance >> 48 & 0x3FFF | 0x8000:04x}-{chance & 0xFFFFFFFFFFFF:012x}"
    )


def sibling(id: str, place: int) -> str:
    """The id in that place, below 16 384, of those that are made of one; they sort by place.

    As hard to guess twice as the id itself, and the same whenever it is asked for.
    """
    digest = sha256(f"{id} {place}".encode()).digest()
    chance = place << 60 | int.from_bytes(digest[:8], "big") >> 4
    return delivery_id(int(id[:8] + id[9:13], 16), chance)


def token(worker: int, claim: int) -> int:
    """The fencing token of a worker's n-th claim.

    The worker is readable from it, so that one column says who holds a lane and
    entitles whom to settle it.
    """
    return worker * CLAIMS_PER_WORKER + claim


def worker_of(token: int) -> int:
    """The worker to whom the token was given."""
    return token // CLAIMS_PER_WORKER
