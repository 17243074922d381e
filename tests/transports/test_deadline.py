"""The end to waiting: what it ends, and what it leaves alone."""

import asyncio
import contextlib

import pytest

from duly.transports.webhooks.timeout import Deadline

pytestmark = pytest.mark.requirement("C5")


async def for_ever(seconds: float) -> None:
    with Deadline(seconds):
        await asyncio.Event().wait()


async def test_who_waits_longer_hears_so_and_goes_on() -> None:
    with pytest.raises(TimeoutError):
        await for_ever(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_who_is_done_in_time_hears_nothing_later() -> None:
    with Deadline(0):
        pass
    with Deadline(0):
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        await done
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), Deadline(60):
        raise ZeroDivisionError


async def test_what_the_end_leads_to_stays_what_it_is() -> None:
    """Whoever tidies up may fail at that, and is not cancelled afterwards."""

    async def tidies_up() -> None:
        with Deadline(0):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        await tidies_up()
    await asyncio.sleep(0)


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    task = asyncio.create_task(for_ever(60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_comes_with_the_end_wins() -> None:
    async def both() -> None:
        task = asyncio.current_task()
        assert task is not None
        with Deadline(0):
            # By then the end has come too, and neither was heard of.
            asyncio.get_running_loop().call_later(0, task.cancel)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(both())


async def test_the_end_that_comes_with_a_cancellation_gives_way() -> None:
    async def both() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0, task.cancel)
        with Deadline(0):
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(both())


async def test_who_passed_over_a_cancellation_before_still_hears_of_the_end() -> None:
    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await for_ever(0)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(TimeoutError):
        await task


async def test_of_two_the_one_that_is_over_tells() -> None:
    with Deadline(60):
        with pytest.raises(TimeoutError):
            await for_ever(0)
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), Deadline(0), Deadline(60):
        await asyncio.Event().wait()
