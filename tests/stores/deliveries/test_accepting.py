"""Taking deliveries in: once, whole, and byte for byte."""

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
from tests.stores.books import START, Books, number_id

EXPIRES = START + timedelta(days=40)


async def chunks(*given: Sequence[PreparedDelivery]) -> AsyncIterator[Sequence[PreparedDelivery]]:
    for chunk in given:
        yield chunk


@pytest.mark.requirement("D1")
async def test_every_fact_of_a_request_is_on_the_books(books: Books) -> None:
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
    assert await books.accept(request) == [
        Accepted(id=request.id, due_at=START + timedelta(hours=3))
    ]
    assert await books.ledger(request.id) == {
        "id": number_id(1),
        "lane": None,
        "target": await books.target(),
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
        "token": None,
        "tags": ["red", "green"],
        "retry": '{"type":"none"}',
        "reason": None,
        "error": None,
        "payload": b'{ "spaced" : [1.0, 1e2] }',
    }
    assert await books.lane(request.id) == {
        "due_at": START + timedelta(hours=3),
        "token": None,
        "claimed_at": None,
        "target": await books.target(),
        "priority": 8,
        "crashes": 0,
        "schedule": None,
    }


async def test_a_wait_counts_from_the_stores_own_present(books: Books) -> None:
    answers = await books.accept(
        books.request(), books.request(after=90.25), books.request(due_at=START - timedelta(days=9))
    )
    due = [START, START + timedelta(seconds=90.25), START - timedelta(days=9)]
    assert [each.due_at for each in answers if isinstance(each, Accepted)] == due
    for number, due_at in enumerate(due, 1):
        lane = await books.lane(number_id(number))
        assert lane is not None
        assert lane["due_at"] == (await books.ledger(number_id(number)))["due_at"] == due_at


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


async def test_payloads_come_back_byte_for_byte(books: Books) -> None:
    requests = [books.request(payload=each) for each in PAYLOADS]
    await books.accept(*requests)
    worker = await books.worker()
    claimed = {each.id: each.payload for each in await books.claim(worker)}
    for request in requests:
        assert (await books.ledger(request.id))["payload"] == request.payload
        assert (await books.store.deliveries.get(request.id)).payload_json == msgspec.Raw(
            request.payload
        )
        assert claimed[request.id] == request.payload


@pytest.mark.requirement("D1")
async def test_accepting_twice_by_id_stores_once(books: Books) -> None:
    request = books.request(key="k")
    await books.accept(request)
    books.clock.advance(60)
    (again,) = await books.accept(request)
    assert isinstance(again, Accepted)
    assert (again.id, again.due_at) == (request.id, START)
    assert (await books.count("deliveries"), await books.count("agenda")) == (1, 1)


async def test_a_key_gives_the_same_delivery_again(books: Books) -> None:
    first = await books.deliver(key="invoice:7", payload=b"[7]")
    books.clock.advance(60)
    again = books.request(key="invoice:7", payload=b"[7]")
    assert await books.accept(again) == [Accepted(id=first, due_at=START, known=True)]
    assert (await books.count("deliveries"), await books.count("agenda")) == (1, 1)


@pytest.mark.parametrize("stream", [None, "orders"])
async def test_a_known_key_tells_the_state_that_its_delivery_is_in(
    books: Books, stream: str | None
) -> None:
    held = await books.claimed(key="held", stream=stream)
    dead = await books.finished(Verdict.DEAD, key="dead")
    waits = await books.deliver(key="waits", due_at=START + timedelta(hours=1), stream=stream)
    answers = await books.accept(
        *(books.request(key=key, stream=stream) for key in ("held", "waits")),
        books.request(key="dead"),
    )
    assert [(each.id, each.state) for each in answers if isinstance(each, Accepted)] == [
        (held.id, "processing"),
        (waits, "pending"),
        (dead, "dead"),
    ]


async def test_a_key_is_remembered_after_its_delivery_was_finished(books: Books) -> None:
    first = await books.finished(key="invoice:7")
    (answer,) = await books.accept(books.request(key="invoice:7"))
    assert answer == Accepted(id=first, state=State.COMPLETED, due_at=START, known=True)
    assert await books.count("agenda") == 0


@pytest.mark.parametrize("other", [{"payload": b"[8]"}, {"target": "sms"}])
async def test_a_key_with_another_body_is_a_conflict(
    books: Books, other: dict[str, object]
) -> None:
    same = {"key": "k", "payload": b"[7]"}
    first = await books.deliver(**same)
    beside = books.request(key="another")
    answers = await books.accept(books.request(**same | other), beside)
    assert isinstance(answers[0], Conflict)
    assert first in str(answers[0])
    assert answers[1] == Accepted(id=beside.id, due_at=START)
    assert await books.count("deliveries") == 2


async def test_of_equal_keys_in_one_batch_the_first_is_stored(books: Books) -> None:
    first, second = books.request(key="k"), books.request(key="k")
    third = books.request(key="k", payload=b"[3]")
    answers = await books.accept(first, second, third)
    assert answers[:2] == [
        Accepted(id=first.id, due_at=START),
        Accepted(id=first.id, due_at=START, known=True),
    ]
    assert isinstance(answers[2], Conflict)
    assert await books.count("agenda") == 1


@pytest.mark.requirement("D1")
async def test_of_callers_that_race_with_one_key_all_get_one_delivery(
    books: Books, elsewhere: Books
) -> None:
    await books.target()
    requests = [
        PreparedDelivery(number_id(number), "mail", b"[1]", key=f"k{number % 5}")
        for number in range(1, 41)
    ]
    answers = await asyncio.gather(
        *(
            (books if number % 2 else elsewhere).store.deliveries.accept([each])
            for number, each in enumerate(requests)
        )
    )
    found = [each for (each,) in answers if isinstance(each, Accepted)]
    assert len(found) == 40
    assert len({each.id for each in found}) == 5
    assert (await books.count("deliveries"), await books.count("agenda")) == (5, 5)


async def test_all_or_none_stores_every_chunk_together(books: Books) -> None:
    await books.target()
    first, second = [books.request() for _ in range(3)], [books.request() for _ in range(2)]
    accepted = await books.store.deliveries.accept_all(chunks(first, second))
    assert [each.id for each in accepted] == [each.id for each in [*first, *second]]
    assert await books.count("agenda") == 5
    assert await books.store.deliveries.accept_all(chunks()) == []


async def test_all_or_none_stores_nothing_when_a_later_chunk_conflicts(books: Books) -> None:
    await books.deliver(key="taken")
    good = [books.request(key=f"good{number}") for number in range(3)]
    bad = [books.request(), books.request(key="taken", payload=b"[0]")]
    with pytest.raises(Conflict, match="'taken' already belongs"):
        await books.store.deliveries.accept_all(chunks(good, bad, [books.request()]))
    assert (await books.count("deliveries"), await books.count("agenda")) == (1, 1)


async def test_all_or_none_stores_nothing_when_the_caller_fails(books: Books) -> None:
    await books.target()

    async def failing() -> AsyncIterator[Sequence[PreparedDelivery]]:
        yield [books.request()]
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        await books.store.deliveries.accept_all(failing())
    assert (await books.count("deliveries"), await books.count("agenda")) == (0, 0)
    await books.deliver()


async def test_all_or_none_can_be_repeated_after_a_lost_answer(books: Books) -> None:
    await books.target()
    requests = [books.request(key="a"), books.request()]
    await books.store.deliveries.accept_all(chunks(requests))
    books.clock.advance(5)
    again = await books.store.deliveries.accept_all(chunks(requests))
    assert [(each.id, each.due_at) for each in again] == [(each.id, START) for each in requests]
    assert await books.count("agenda") == 2


async def test_targets_keep_their_numbers(books: Books, elsewhere: Books) -> None:
    assert await books.store.targets.numbers(["mail", "sms"], create=False) == {}
    numbers = await books.store.targets.numbers(["mail", "sms"], create=True)
    assert len(set(numbers.values())) == 2
    assert await elsewhere.store.targets.numbers(["sms", "mail"], create=True) == numbers
    assert await elsewhere.store.targets.refresh() == {
        number: name for name, number in numbers.items()
    }
