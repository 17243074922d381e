"""The deadline of a wait: what it cancels, and what it does not."""

import asyncio
import contextlib

import pytest

from duly.transports.webhooks.timeout import Deadline, Deadlines

pytestmark = pytest.mark.requirement("C5")


def within(seconds: float) -> Deadline:
    return Deadlines().within(seconds)


async def wait_forever(seconds: float) -> None:
    with within(seconds):
        await asyncio.Event().wait()


async def test_a_longer_wait_times_out_and_the_task_continues() -> None:
    with pytest.raises(TimeoutError):
        await wait_forever(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_task_that_is_done_in_time_is_not_cancelled_later() -> None:
    with within(0):
        pass
    with within(0):
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        await done
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_another_error_is_not_changed() -> None:
    with pytest.raises(ZeroDivisionError), within(60):
        raise ZeroDivisionError


async def test_an_error_of_the_cleanup_is_not_changed() -> None:
    """A cleanup may fail, and the task is not cancelled afterwards."""

    async def clean_up() -> None:
        with within(0):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        await clean_up()
    await asyncio.sleep(0)


async def test_a_cancellation_by_others_is_not_a_timeout() -> None:
    task = asyncio.create_task(wait_forever(60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_together_with_the_timeout_wins() -> None:
    async def both() -> None:
        task = asyncio.current_task()
        assert task is not None
        with within(0):
            # The deadline has passed too by then, and neither was raised yet.
            asyncio.get_running_loop().call_later(0, task.cancel)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(both())


async def test_a_timeout_together_with_a_cancellation_is_dropped() -> None:
    async def both() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0, task.cancel)
        with within(0):
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(both())


async def test_a_task_that_ignored_a_cancellation_still_times_out() -> None:
    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await wait_forever(0)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(TimeoutError):
        await task


async def test_of_two_deadlines_the_one_that_passed_raises() -> None:
    with within(60):
        with pytest.raises(TimeoutError):
            await wait_forever(0)
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), within(0), within(60):
        await asyncio.Event().wait()


async def test_one_timer_is_enough_for_all_and_none_is_left_at_rest() -> None:
    deadlines = Deadlines()
    for _ in range(3):
        with deadlines.within(60):
            timer = deadlines._timer
            with pytest.raises(TimeoutError), deadlines.within(0):
                await asyncio.Event().wait()
        assert timer is not None
    with pytest.raises(TimeoutError):
        await wait_forever(0)
    assert deadlines._timer is None
    assert not deadlines._ends
