"""An interrupted bulk operation prints how to continue, whatever runs at that moment."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from duly.records.dead_letter import BulkProgress
from duly.surfaces.cli.terminal import bulk


@pytest.mark.requirement("C10")
def test_a_second_interrupt_right_after_the_first_still_prints_how_to_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[str] = []

    def print_message(text: str) -> None:
        printed.append(text)
        if text.startswith("stopping; "):
            # As asyncio does on the second SIGINT, in the middle of any Python code.
            raise KeyboardInterrupt

    async def never() -> AsyncIterator[BulkProgress]:
        await asyncio.Event().wait()
        yield BulkProgress(done=0, total=1, until=None)  # type: ignore[arg-type]

    async def interrupted() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await bulk.run_bulk("retrying", 1, never(), ("dead", "retry", "--all"))

    monkeypatch.setattr(bulk, "print_message", print_message)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())
    assert printed[-1] == "stopped after at least 0; to continue: duly dead retry --all"
