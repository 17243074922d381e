"""Accepting deliveries: confirmed only after the commit, and with shared commits."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from duly import App, Conflict
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.failpoints import FailpointRaised, arm
from duly.services.deliveries.acceptor import AcceptBatch
from tests.engine.cluster import Barrier, Cluster


async def with_work(cluster: Cluster) -> App:
    app = cluster.app()
    app.handler("work")(Barrier().handle)
    await app.open()
    return app


@pytest.mark.requirement("D1")
async def test_a_failure_before_the_commit_is_an_error_and_nothing_is_stored(
    any_cluster: Cluster,
) -> None:
    app = await with_work(any_cluster)
    arm("deliver.before=raise")
    with pytest.raises(FailpointRaised):
        await app.deliver("work", 1)
    with pytest.raises(FailpointRaised):
        await app.deliver_many([("work", 1)])
    arm("")
    assert await app.list() == []


@pytest.mark.requirement("D1")
async def test_after_a_lost_response_the_same_key_finds_the_delivery(any_cluster: Cluster) -> None:
    app = await with_work(any_cluster)
    arm("deliver.after=drop@1")
    with pytest.raises(ConnectionError):
        await app.deliver("work", 1, key="k")
    second = await app.deliver("work", 1, key="k")
    assert second.known
    assert [each.id for each in await app.list()] == [second.id]


@pytest.mark.requirement("D1")
async def test_an_accepted_delivery_is_visible_to_other_processes(any_cluster: Cluster) -> None:
    app = await with_work(any_cluster)
    other = any_cluster.app()
    await other.open()
    for number in range(3):
        accepted = await app.deliver("work", number)
        assert (await other.get(accepted.id)).state == "pending"


async def test_concurrent_callers_get_their_own_responses(any_cluster: Cluster) -> None:
    app = await with_work(any_cluster)
    first = await app.deliver("work", "taken", key="taken")
    calls = [app.deliver("work", number, key=f"k{number}") for number in range(50)]
    conflict = app.deliver("work", "other", key="taken")
    known = app.deliver("work", "taken", key="taken")
    answers = await asyncio.gather(*calls, conflict, known, return_exceptions=True)
    for number, answer in enumerate(answers[:50]):
        assert not isinstance(answer, BaseException)
        assert (await app.get(answer.id)).key == f"k{number}"
    assert isinstance(answers[50], Conflict)
    assert not isinstance(answers[51], BaseException)
    assert (answers[51].id, answers[51].known) == (first.id, True)


async def test_a_cancelled_caller_does_not_affect_others(cluster: Cluster) -> None:
    app = await with_work(cluster)
    gone = asyncio.create_task(app.deliver("work", "gone"))
    stays = asyncio.create_task(app.deliver("work", "stays"))
    for _ in range(3):
        await asyncio.tasks.sleep(0)
    gone.cancel()
    accepted = await asyncio.wait_for(stays, 10)
    assert (await app.get(accepted.id)).target == "work"


@pytest.mark.parametrize(
    ("after", "hinted"), [(0, True), (59, True), (61, False), (timedelta(days=9), False)]
)
async def test_only_deliveries_due_soon_wake_the_workers(
    any_cluster: Cluster, after: float | timedelta, hinted: bool
) -> None:
    app, hints = await with_work(any_cluster), []
    app.store.wakeups.listen(lambda: hints.append(1))
    await app.deliver("work", after=after)
    assert bool(hints) == hinted
    hints.clear()
    await app.deliver_many([{"target": "work", "after": after}])
    assert bool(hints) == hinted


class Answered:
    """A caller without a task."""

    error: BaseException | None = None

    def done(self) -> bool:
        return self.error is not None

    def set_result(self, _: object) -> None:
        raise AssertionError("nothing was stored")

    def set_exception(self, error: BaseException) -> None:
        self.error = error


async def test_all_that_wait_hear_that_the_write_was_cancelled() -> None:
    entered = asyncio.Event()

    class Endless:
        async def store(self, _: object) -> list[Any]:
            entered.set()
            return await asyncio.get_running_loop().create_future()

    request = PreparedDelivery("id", "target", b"null")
    acceptor: Any = Endless()
    batch, answers = AcceptBatch(acceptor), [Answered(), Answered()]
    batch.put(request, answers[0])
    await entered.wait()
    batch.put(request, answers[1])
    assert batch._writing is not None
    batch._writing.cancel()
    await asyncio.wait([batch._writing])
    assert [type(each.error) for each in answers] == [asyncio.CancelledError] * 2
