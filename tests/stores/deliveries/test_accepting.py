"""Accepting deliveries: once, all or none, and with unchanged payloads."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import msgspec
import pytest

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict
from duly.records.delivery import Accepted
from duly.records.state import State
from tests.stores.store_probe import START, StoreProbe, number_id

EXPIRES = START + timedelta(days=40)


async def chunks(*given: Sequence[PreparedDelivery]) -> AsyncIterator[Sequence[PreparedDelivery]]:
    for chunk in given:
        yield chunk


@pytest.mark.requirement("D1")
async def test_every_field_of_a_request_is_stored(probe: StoreProbe) -> None:
    request = PreparedDelivery(
        number_id(1),
        "mail",
        b'{ "spaced" : [1.0, 1e2] }',
        START + timedelta(hours=3),
        None,
        "the key",
        8,
        EXPIRES,
        ("red", "green"),
        '{"type":"none"}',
    )
    assert await probe.accept(request) == [
        Accepted(id=request.id, due_at=START + timedelta(hours=3))
    ]
    assert await probe.ledger(request.id) == {
        "id": number_id(1),
        "lane": None,
        "target": await probe.target(),
        "priority": 8,
        "attempt": 0,
        "state": "pending",
        "namespace": "default",
        "stream": None,
        "on_failure": None,
        "position": None,
        "key": "the key",
        "address": None,
        "schedule": None,
        "occurrence": None,
        "occasion": None,
        "due_at": START + timedelta(hours=3),
        "accepted_at": START,
        "expires_at": EXPIRES,
        "started_at": None,
        "finished_at": None,
        "dead_at": None,
        "fingerprint": None,
        "crashes": None,
        "disposition": None,
        "revive_at": None,
        "revivals": None,
        "turn": None,
        "batch": None,
        "unique_key": None,
        "replaced": None,
        "replaced_at": None,
        "generation": None,
        "token": None,
        "tags": ["red", "green"],
        "retry": '{"type":"none"}',
        "reason": None,
        "error": None,
        "payload": b'{ "spaced" : [1.0, 1e2] }',
    }
    assert await probe.lane(request.id) == {
        "due_at": START + timedelta(hours=3),
        "token": None,
        "claimed_at": None,
        "target": await probe.target(),
        "priority": 8,
        "crashes": 0,
        "schedule": None,
        "turn": None,
    }


async def test_a_wait_counts_from_the_time_of_the_store(probe: StoreProbe) -> None:
    answers = await probe.accept(
        probe.request(), probe.request(after=90.25), probe.request(due_at=START - timedelta(days=9))
    )
    due = [START, START + timedelta(seconds=90.25), START - timedelta(days=9)]
    assert [each.due_at for each in answers if isinstance(each, Accepted)] == due
    for number, due_at in enumerate(due, 1):
        lane = await probe.lane(number_id(number))
        assert lane is not None
        assert lane["due_at"] == (await probe.ledger(number_id(number)))["due_at"] == due_at


PAYLOADS = [
    b'{"a":1,"a":2}',
    b" [1,\n\t2 ] ",
    b'"\\u0000 \\ud83d\\ude00 \\/"',
    '"é 漢 \U0001f600 \u2028 \x7f"'.encode(),
    b"1.50",
    b"1e2",
    str(2**70).encode(),
    b"null",
    b'"' + b"x" * 200_000 + b'"',
]


async def test_payloads_are_returned_byte_for_byte(probe: StoreProbe) -> None:
    requests = [probe.request(payload=each) for each in PAYLOADS]
    await probe.accept(*requests)
    worker = await probe.worker()
    claimed = {each.id: each.payload for each in await probe.claim(worker)}
    for request in requests:
        assert (await probe.ledger(request.id))["payload"] == request.payload
        assert (await probe.store.deliveries.get(request.id)).payload_json == msgspec.Raw(
            request.payload
        )
        assert claimed[request.id] == request.payload


@pytest.mark.requirement("D1")
async def test_accepting_twice_by_id_stores_once(probe: StoreProbe) -> None:
    request = probe.request(key="k")
    await probe.accept(request)
    probe.clock.advance(60)
    (second,) = await probe.accept(request)
    assert isinstance(second, Accepted)
    assert (second.id, second.due_at) == (request.id, START)
    assert (await probe.count("deliveries"), await probe.count("agenda")) == (1, 1)


async def test_the_same_key_returns_the_same_delivery(probe: StoreProbe) -> None:
    first = await probe.deliver(key="invoice:7", payload=b"[7]")
    probe.clock.advance(60)
    second = probe.request(key="invoice:7", payload=b"[7]")
    assert await probe.accept(second) == [Accepted(id=first, due_at=START, known=True)]
    assert (await probe.count("deliveries"), await probe.count("agenda")) == (1, 1)


@pytest.mark.parametrize("stream", [None, "orders"])
async def test_a_known_key_returns_the_state_of_its_delivery(
    probe: StoreProbe, stream: str | None
) -> None:
    held = await probe.claimed(key="held", stream=stream)
    dead = await probe.finished(Verdict.DEAD, key="dead")
    waiting = await probe.deliver(key="waiting", due_at=START + timedelta(hours=1), stream=stream)
    answers = await probe.accept(
        *(probe.request(key=key, stream=stream) for key in ("held", "waiting")),
        probe.request(key="dead"),
    )
    assert [(each.id, each.state) for each in answers if isinstance(each, Accepted)] == [
        (held.id, "processing"),
        (waiting, "pending"),
        (dead, "dead"),
    ]


async def test_a_key_is_remembered_after_its_delivery_was_finished(probe: StoreProbe) -> None:
    first = await probe.finished(key="invoice:7")
    (answer,) = await probe.accept(probe.request(key="invoice:7"))
    assert answer == Accepted(id=first, state=State.COMPLETED, due_at=START, known=True)
    assert await probe.count("agenda") == 0


@pytest.mark.parametrize("other", [{"payload": b"[8]"}, {"target": "sms"}])
async def test_a_key_with_another_body_is_a_conflict(
    probe: StoreProbe, other: dict[str, object]
) -> None:
    same = {"key": "k", "payload": b"[7]"}
    first = await probe.deliver(**same)
    unrelated = probe.request(key="another")
    answers = await probe.accept(probe.request(**same | other), unrelated)
    assert isinstance(answers[0], Conflict)
    assert first in str(answers[0])
    assert answers[1] == Accepted(id=unrelated.id, due_at=START)
    assert await probe.count("deliveries") == 2


async def test_the_first_of_equal_keys_in_one_batch_is_stored(probe: StoreProbe) -> None:
    first, second = probe.request(key="k"), probe.request(key="k")
    third = probe.request(key="k", payload=b"[3]")
    answers = await probe.accept(first, second, third)
    assert answers[:2] == [
        Accepted(id=first.id, due_at=START),
        Accepted(id=first.id, due_at=START, known=True),
    ]
    assert isinstance(answers[2], Conflict)
    assert await probe.count("agenda") == 1


@pytest.mark.requirement("D1")
async def test_concurrent_requests_with_one_key_get_one_delivery(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    await probe.target()
    requests = [
        PreparedDelivery(number_id(number), "mail", b"[1]", key=f"k{number % 5}")
        for number in range(1, 41)
    ]
    answers = await asyncio.gather(
        *(
            (probe if number % 2 else other_process).store.deliveries.accept([each])
            for number, each in enumerate(requests)
        )
    )
    found = [each for (each,) in answers if isinstance(each, Accepted)]
    assert len(found) == 40
    assert len({each.id for each in found}) == 5
    assert (await probe.count("deliveries"), await probe.count("agenda")) == (5, 5)


async def test_all_or_none_stores_every_chunk_together(probe: StoreProbe) -> None:
    await probe.target()
    first, second = [probe.request() for _ in range(3)], [probe.request() for _ in range(2)]
    accepted = await probe.store.deliveries.accept_all(chunks(first, second))
    assert [each.id for each in accepted] == [each.id for each in [*first, *second]]
    assert await probe.count("agenda") == 5
    assert await probe.store.deliveries.accept_all(chunks()) == []


async def test_all_or_none_stores_nothing_when_a_later_chunk_conflicts(probe: StoreProbe) -> None:
    await probe.deliver(key="taken")
    good = [probe.request(key=f"good{number}") for number in range(3)]
    bad = [probe.request(), probe.request(key="taken", payload=b"[0]")]
    with pytest.raises(Conflict, match="'taken' already belongs"):
        await probe.store.deliveries.accept_all(chunks(good, bad, [probe.request()]))
    assert (await probe.count("deliveries"), await probe.count("agenda")) == (1, 1)


async def test_all_or_none_stores_nothing_when_the_caller_fails(probe: StoreProbe) -> None:
    await probe.target()

    async def failing() -> AsyncIterator[Sequence[PreparedDelivery]]:
        yield [probe.request()]
        raise RuntimeError("the caller failed")

    with pytest.raises(RuntimeError, match="the caller failed"):
        await probe.store.deliveries.accept_all(failing())
    assert (await probe.count("deliveries"), await probe.count("agenda")) == (0, 0)
    await probe.deliver()


async def test_all_or_none_can_be_repeated_after_a_lost_response(probe: StoreProbe) -> None:
    await probe.target()
    requests = [probe.request(key="a"), probe.request()]
    await probe.store.deliveries.accept_all(chunks(requests))
    probe.clock.advance(5)
    second = await probe.store.deliveries.accept_all(chunks(requests))
    assert [(each.id, each.due_at) for each in second] == [(each.id, START) for each in requests]
    assert await probe.count("agenda") == 2


async def test_targets_keep_their_numbers(probe: StoreProbe, other_process: StoreProbe) -> None:
    assert await probe.store.targets.numbers(["mail", "sms"], create=False) == {}
    numbers = await probe.store.targets.numbers(["mail", "sms"], create=True)
    assert len(set(numbers.values())) == 2
    assert await other_process.store.targets.numbers(["sms", "mail"], create=True) == numbers
    assert await other_process.store.targets.refresh() == {
        number: name for name, number in numbers.items()
    }
