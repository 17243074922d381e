"""Deliveries with a unique key: accepted, retried and settled with the key locked.

The row of a key names the delivery that was the last to wait, and the one that ran when it was
added. `domain/deliveries/unique.py` decides what becomes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from duly.domain.deliveries.delivery import Lane, PreparedDelivery
from duly.domain.deliveries.unique import (
    Arrivals,
    Member,
    Replacement,
    Standing,
    standing,
    superseded_by,
)
from duly.errors import Conflict
from duly.failpoints import hit
from duly.records.delivery import Accepted
from duly.records.state import State
from duly.stores.database import Database, Row, Session

Key = tuple[int, str]
"""The number of a target, and a unique key."""
Placed = Mapping[Key, Standing]


class UniqueKeys:
    """The unique keys of all namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def before(self, id: str) -> str | None:
        """The delivery that one waits for because it runs and has the same key."""
        rows = await self._database.fetch_named("unique.before", id=id)
        return rows[0]["id"] if rows else None

    async def tidy_unsettled(self, limit: int) -> int:
        """Look again at keys that were locked when a delivery was settled; returns how many."""
        rows = await self._database.fetch_named("unique.unsettled", limit=limit)
        if not rows:
            return 0
        async with self._database.together() as session:
            free = await try_lock(session, {(row["target"], row["key"]) for row in rows})
            await tidy(session, free)
            if free:
                await session.fetch_batch("unique.settled", columns=_columns(free))
        return len(free)

    async def sweep(self, limit: int) -> None:
        """Remove keys without deliveries, and let those continue that wait for nothing."""
        after: Key | None = (-1, "")
        while after is not None:
            rows = await self._database.fetch(
                "unique.slice", after_target=after[0], after_key=after[1], limit=limit
            )
            if doubtful := {(row[0], row[1]) for row in rows if row[2]}:
                async with self._database.together() as session:
                    await tidy(session, await try_lock(session, doubtful))
            after = (rows[-1][0], rows[-1][1]) if len(rows) == limit else None


async def lock(session: Session, keys: Collection[Key]) -> dict[Key, tuple[Row, Standing]]:
    """Lock keys, in their order, and return their states; waits for other transactions."""
    rows = await session.fetch_batch("unique.lock", "settle", columns=_columns(keys))
    return {(row[0], row[1]): (row, _standing(row)) for row in rows}


def _standing(row: Row) -> Standing:
    _, _, last, last_lane, is_shut, due_at, accepted_at, last_at, other, other_lane, at, _ = row
    waiting = running = None
    if last is not None and last_at is not None:
        waiting = Member(last, last_lane, last_at, bool(is_shut), due_at, accepted_at)
    if other is not None and at is not None:
        running = Member(other, other_lane, at)
    return standing(waiting, running)


async def try_lock(session: Session, keys: Collection[Key]) -> set[Key]:
    """Lock those keys that nobody else has locked."""
    if not keys:
        return set()
    rows = await session.fetch_batch("unique.try_lock", "settle", columns=_columns(keys))
    return {(row[0], row[1]) for row in rows}


async def tidy(session: Session, keys: Collection[Key]) -> None:
    """Of each locked key let at most one wait, and open its lane if none runs."""
    if keys:
        await _write(session, await lock(session, keys))


async def tidy_freed(session: Session, lanes: Sequence[Lane]) -> None:
    """Tidy the keys of lanes that were handed back without a settlement."""
    if lanes:
        rows = await session.fetch("unique.of_lanes", lanes=list(lanes))
        await tidy_or_note(session, {(row[0], row[1]) for row in rows})


async def tidy_or_note(session: Session, keys: Collection[Key]) -> None:
    """Tidy keys; those that others have locked are noted, and a worker tidies them later."""
    free = await try_lock(session, keys)
    await tidy(session, free)
    await note_locked(session, set(keys) - free)


async def note_locked(session: Session, keys: Collection[Key]) -> None:
    """Note keys that were locked while one of their deliveries was settled."""
    if keys:
        await session.fetch_batch("unique.unsettle", "settle", columns=_columns(keys))


async def accept(
    session: Session,
    namespace: str,
    requests: Sequence[PreparedDelivery],
    numbers: Mapping[str, int],
) -> list[Accepted | Conflict]:
    """Accept unique deliveries in a transaction, as if they came one after the other."""
    found = await lock(session, {_key(each, numbers) for each in requests})
    repeated = await _repeated(session, requests)
    arrivals = {key: Arrivals(state) for key, (_, state) in found.items()}
    answers: list[Accepted | Conflict] = []
    for each in requests:
        key = _key(each, numbers)
        if each.id in repeated:
            answers.append(_known(each, key, repeated[each.id]))
            continue
        waits = arrivals[key].accept(each, found[key][0][-1])
        assert waits.due_at is not None
        answers.append(Accepted(id=waits.id, due_at=waits.due_at, known=waits.id != each.id))
    await _store(session, namespace, arrivals)
    await hit("deliver.middle")
    await _write(session, found)
    return answers


def _key(request: PreparedDelivery, numbers: Mapping[str, int]) -> Key:
    assert request.unique_key is not None
    return numbers[request.target], request.unique_key


async def _repeated(session: Session, requests: Sequence[PreparedDelivery]) -> dict[str, Row]:
    """Deliveries that were stored before with the ids that their callers gave."""
    ids = [each.id for each in requests if each.again]
    rows = await session.fetch("unique.same", ids=ids) if ids else []
    return {row[0]: row for row in rows}


def _known(request: PreparedDelivery, key: Key, row: Row) -> Accepted | Conflict:
    id, target, unique_key, due_at, state = row
    if (target, unique_key) == key:
        return Accepted(id=id, state=State(state), due_at=due_at)
    return Conflict(f"id {request.id} already belongs to another delivery; use another id")


async def _store(session: Session, namespace: str, arrivals: Mapping[Key, Arrivals]) -> None:
    new = [
        _contents(each.new)
        | {"due_at": each.new.due_at, "times": each.replaced}
        | {"target": key[0], "unique_key": key[1], "is_shut": each.standing.runs is not None}
        for key, each in arrivals.items()
        if each.new is not None
    ]
    if new:
        await session.fetch_batch("unique.accept", columns=_by_name(new), namespace=namespace)
    replaced = [
        _contents(given.contents)
        | {"id": each.standing.waits.id, "due_at": given.due_at, "times": given.times}
        for each in arrivals.values()
        if isinstance(given := each.replacement, Replacement) and each.standing.waits is not None
    ]
    if replaced:
        await session.fetch_batch("unique.replace", columns=_by_name(replaced))


def _contents(request: PreparedDelivery) -> dict[str, Any]:
    names = ("id", "priority", "address", "expires_at", "retry", "payload")
    tags = msgspec.json.encode(request.tags).decode() if request.tags else None
    return {name: getattr(request, name) for name in names} | {"tags": tags}


async def make_room(
    session: Session, ids: Sequence[str]
) -> tuple[dict[Key, tuple[Row, Standing]], dict[str, str]]:
    """Lock the keys of dead letters that are to be retried, and let these wait.

    Returns the keys, for `settle_in`, and the dead letters that cannot be retried, each with the
    delivery that waits with its key.
    """
    rows = await session.fetch("unique.dead", ids=list(ids))
    if not rows:
        return {}, {}
    found = await lock(session, {(row[1], row[2]) for row in rows})
    taken: dict[str, str] = {}
    for id, target, key in rows:
        row, state = found[target, key]
        if state.waits is None:
            state.waits = Member(id, "free", row[-1])
        else:
            taken[id] = state.waits.id
    return found, taken


async def settle_in(
    session: Session, found: Mapping[Key, tuple[Row, Standing]], moved: Collection[str]
) -> None:
    """Name the dead letters that were retried as those that wait."""
    for row, state in found.values():
        waits = state.waits
        if waits is not None and waits.id not in moved and waits.id != row[2]:
            state.waits = None
    await _write(session, found)


async def admit(session: Session, members: Iterable[tuple[Key, Member]]) -> None:
    """Let deliveries wait that were written otherwise; of two the one with newer contents stays."""
    given = list(members)
    if not given:
        return
    found = await lock(session, {key for key, _ in given})
    for key, member in given:
        found[key][1].place(member)
    await _write(session, found)


async def supersede(session: Session, pairs: Iterable[tuple[str, str]]) -> None:
    """End deliveries, each with the one that has taken its place."""
    rows = [{"id": id, "note": superseded_by(other)} for id, other in pairs if id != other]
    if rows:
        await session.fetch_batch("unique.supersede", columns=_by_name(rows))


async def _write(session: Session, found: Mapping[Key, tuple[Row, Standing]]) -> None:
    """Write what has changed: who ended, who may run, and whom the keys name."""
    state = [each for _, each in found.values()]
    await supersede(session, [pair for each in state for pair in each.superseded])
    if opened := [each.opened for each in state if each.opened is not None]:
        await session.fetch("unique.open", ids=opened)
    if shut := [each.shut for each in state if each.shut is not None]:
        await session.fetch("unique.shut", ids=shut)
    changed = {key: each.names for key, (row, each) in found.items() if each.names != _names(row)}
    if named := {key: names for key, names in changed.items() if any(names)}:
        columns = _columns(named) | {
            "waiting": [waiting for waiting, _ in named.values()],
            "running": [running for _, running in named.values()],
        }
        await session.fetch_batch("unique.point", columns=columns)
    if empty := [key for key, (_, each) in found.items() if not any(each.names)]:
        await session.fetch_batch("unique.drop", columns=_columns(empty))


def _names(row: Row) -> tuple[str | None, str | None]:
    return row[2], row[8]


def _columns(keys: Iterable[Key]) -> dict[str, Sequence[Any]]:
    listed = list(keys)
    return {"target": [target for target, _ in listed], "key": [key for _, key in listed]}


def _by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}
