"""A failed attempt stores where in the user's code it failed, without the values of variables."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.records.attempt import Attempt
from duly.testing import run_until_idle
from duly.tracebacks import (
    INNER_FRAMES,
    LONGEST_HEAD,
    LONGEST_TAIL,
    MOST_EXCEPTIONS,
    OUTER_FRAMES,
    traceback_text,
)

pytestmark = pytest.mark.requirement("P3")

PASSWORD = "hunter" + "2"


def price(order: Any) -> float:
    password = PASSWORD
    return len(password) / order["pieces"]  # the user's own line


async def asynchronous(delivery: Delivery[Any]) -> None:
    price(delivery.payload)


def plain(delivery: Delivery[Any]) -> None:
    price(delivery.payload)


async def in_transaction(delivery: Delivery[Any]) -> None:
    async with delivery.transaction as transaction:
        await transaction.fetch("select 1")
        price(delivery.payload)


async def in_a_step(delivery: Delivery[Any]) -> None:
    await delivery.do("price", price, delivery.payload)


def in_a_plain_step(delivery: Delivery[Any]) -> None:
    with delivery.step("price") as step:
        if not step.done:
            price(delivery.payload)


async def chained(delivery: Delivery[Any]) -> None:
    try:
        price(delivery.payload)
    except ZeroDivisionError as error:
        raise duly.Fail("no price") from error


async def grouped(delivery: Delivery[Any]) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(price, delivery.payload))


FAILING: tuple[Callable[[Any], Any], ...] = (
    asynchronous,
    plain,
    in_transaction,
    in_a_step,
    in_a_plain_step,
    chained,
    grouped,
)


async def failed(app: App, handler: Callable[[Any], Any], **options: Any) -> Attempt:
    app.handler(handler.__name__, retry=duly.no_retry, **options)(handler)
    accepted = await app.deliver(handler.__name__, {"pieces": 0})
    await run_until_idle(app)
    (attempt,) = await app.attempts(accepted.id)
    return attempt


async def test_every_kind_of_handler_shows_the_line_that_failed(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    for handler in FAILING:
        caplog.clear()
        attempt = await failed(app, handler)
        text = attempt.traceback or ""
        assert f"in {handler.__name__}\n" in text, handler
        assert 'return len(password) / order["pieces"]  # the user' in text
        assert "ZeroDivisionError: division by zero" in text
        assert PASSWORD not in text
        # No frame is above the user's function.
        first = next(line for line in text.splitlines() if "File " in line)
        assert __file__ in first
        (record,) = (each for each in caplog.records if each.exc_text is not None)
        assert record.exc_text == text
        assert "traceback" not in record.facts  # type: ignore[attr-defined]
        assert text in logging.Formatter().format(record)


async def test_a_timeout_shows_where_it_waited(small_app: App) -> None:
    async def waits(delivery: Delivery[Any]) -> None:
        await asyncio.Event().wait()  # forever

    attempt = await failed(small_app, waits, timeout=0.02)
    assert attempt.reason == "timeout_exceeded"
    assert "await asyncio.Event().wait()  # forever" in (attempt.traceback or "")


async def test_a_failure_before_the_users_code_has_no_traceback(small_app: App) -> None:
    async def typed(delivery: Delivery[int]) -> None:
        raise AssertionError

    attempt = await failed(small_app, typed)
    assert (attempt.reason, attempt.traceback) == ("serialization_error", None)


def test_a_deep_stack_shows_its_outermost_and_innermost_frames() -> None:
    text = traceback_text(raised(lambda: dive(100))) or ""
    assert text.count("  File ") <= OUTER_FRAMES + INNER_FRAMES
    assert "frames left out" in text
    assert "dive(100)" in text
    assert 'raise ValueError("the bottom")' in text


def test_a_long_message_hides_no_frame_and_a_long_chain_shows_both_ends() -> None:
    def inner() -> None:
        raise ValueError("x" * 100_000)

    def outer() -> None:
        try:
            inner()
        except ValueError as error:
            raise KeyError("y" * 100_000) from error

    text = traceback_text(raised(outer)) or ""
    assert "in inner" in text
    assert text.partition("direct cause")[2].count("in outer") == 1

    def chain() -> None:
        error: Exception = ValueError("first")
        for number in range(200):
            try:
                raise KeyError(number) from error
            except KeyError as other:
                error = other
        raise error

    text = traceback_text(raised(chain)) or ""
    assert "... 191 exceptions left out ..." in text
    assert text.startswith("ValueError: first")
    assert text.endswith("KeyError: 199")


def test_a_long_text_shows_its_beginning_and_its_end() -> None:
    def outer() -> None:
        raise ExceptionGroup("all", [ValueError(str(each) * 900) for each in range(20)])

    text = traceback_text(raised(outer)) or ""
    assert LONGEST_HEAD + LONGEST_TAIL <= len(text) <= 8192
    assert "in outer" in text[:LONGEST_HEAD]
    assert "characters left out" in text
    assert "... 5 more exceptions left out ..." in text[-LONGEST_TAIL:]


class Counted(Exception):
    """Counts how many were formatted, which costs time on the event loop."""

    formatted = 0

    def __str__(self) -> str:
        Counted.formatted += 1
        return "counted"


def wide() -> Exception:
    return ExceptionGroup("wide", [Counted() for _ in range(1000)])


def nested() -> Exception:
    found: Exception = Counted()
    for _ in range(6):
        found = ExceptionGroup("nested", [found] * 4)
    return found


def long() -> Exception:
    found = first = Counted()
    for _ in range(10_000):
        found.__cause__ = found = Counted()
    return first


def inward() -> Exception:
    found: Exception = Counted()
    for _ in range(500):
        found = ExceptionGroup("inward", [Counted(), found])
    return found


@pytest.mark.parametrize("make", [wide, nested, long, inward])
def test_an_exception_that_is_not_shown_is_not_formatted(make: Callable[[], Exception]) -> None:
    def fail() -> None:
        raise make()

    Counted.formatted = 0
    assert "in fail" in (traceback_text(raised(fail)) or "")
    assert 0 < Counted.formatted <= MOST_EXCEPTIONS


def test_a_traceback_looks_like_pythons() -> None:
    def fail() -> None:
        try:
            try:
                price({"pieces": 0})
            except ZeroDivisionError:
                raise duly.Fail("during") from None
        except duly.Fail as error:
            error.add_note("a note\nof two lines")
            try:
                raise KeyError("key") from error
            except KeyError:
                compile("1 +", "there.py", "exec")

    error = raised(fail)
    lines = "".join(traceback.format_exception(error)).splitlines()
    expected = [each for each in lines if each.strip(" ^~")]
    # Python puts the place of a syntax error elsewhere in the last line.
    found = [each for each in (traceback_text(error) or "").splitlines() if each]
    assert found[:-1] == expected[:-1]
    assert found[-1].startswith(expected[-1])


def test_an_error_that_cannot_be_printed_is_still_shown() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    def fail() -> None:
        raise Mute

    assert (traceback_text(raised(fail)) or "").endswith("Mute failed>")


def dive(left: int) -> None:
    if left:
        dive(left - 1)
    raise ValueError("the bottom")


def raised(fail: Callable[[], None]) -> Exception:
    try:
        fail()
    except Exception as error:
        return error
    raise AssertionError
