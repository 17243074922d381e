"""Starts and stops the engine in order, and runs its loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from duly.domain.events import Draining, LoopEnded, WorkerStopped
from duly.domain.roles import Role, refuse_apart
from duly.engine.loops import Loop, Runner
from duly.engine.worker import Worker
from duly.ports import Chance, Emit

LEAVE_SECONDS = 5.0
"""How long a stop waits for the last outcomes to be written."""


class Engine:
    """The engine of one process: its roles say whether it runs the worker, the planner, or both.

    `loops` run in every role. `at_start` is awaited when the worker has registered, `at_end` after
    everything is written.
    """

    def __init__(
        self,
        worker: Worker,
        loops: Sequence[Loop],
        chance: Chance,
        emit: Emit,
        *,
        at_start: Callable[[], Awaitable[None]] | None = None,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        roles = worker.settings.roles
        refuse_apart(roles, worker.store.single_owner)
        self.worker = worker
        self._emit = emit
        self._at_start = at_start
        self._at_end = at_end
        self._works, self._plans = Role.WORKER in roles, Role.PLANNER in roles
        self._loops: list[Loop] = [
            *(worker.loops() if self._works else ()),
            *((worker.planner,) if self._plans else ()),
            *loops,
        ]
        self._runner = Runner(emit, chance.fraction)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failure: RuntimeError | None = None
        self._on_failed: Callable[[], None] | None = None
        self.is_ready = False
        """Whether the start is complete, with everything reclaimed and planned; not stopping."""

    @property
    def running(self) -> int:
        """The number of running attempts."""
        return self.worker.runner.running

    async def start(self, on_failed: Callable[[], None] | None = None) -> None:
        """Reclaim what dead workers held, then begin to claim.

        `on_failed` is called if a loop ends that was not stopped.
        """
        self._on_failed = on_failed
        try:
            await self.prepare()
        except BaseException:
            await self.worker.membership.stop_beating()
            raise
        if self._works:
            self.worker.store.wakeups.listen(self.worker.signal.hint)
            for loop in self._last:
                self._run(loop)
        for loop in self._loops:
            self._run(loop)

    async def prepare(self) -> None:
        """Everything a start does before the loops."""
        worker = self.worker
        await worker.store.own()
        if self._works:
            await worker.join()
            if self._at_start is not None:
                await self._at_start()
        if self._plans:
            await worker.planner.at_start()
        elif self._works:
            # Another process plans, but an occurrence that will be merged must not be claimed.
            await worker.planner.catch_up()
        self.is_ready = True

    def _run(self, loop: Loop) -> None:
        task = asyncio.create_task(self._runner.run(loop), name=loop.name)
        task.add_done_callback(self._report_end)
        self._tasks[loop.name] = task

    def _report_end(self, task: asyncio.Task[None]) -> None:
        """Report a loop that ended without being stopped: its work is no longer done."""
        error = None if task.cancelled() else task.exception()
        # A program that ends cancels all tasks at once, also the one that stops the engine.
        if not self.is_ready or (error is None and not task.cancelled()):
            return
        name = task.get_name()
        problem = "it was cancelled" if error is None else f"{type(error).__name__}: {error}"
        self._failure = RuntimeError(f"the engine's loop {name!r} ended by itself: {problem}")
        self._failure.__cause__ = error
        self.is_ready = False
        self._emit(LoopEnded(loop=name, problem=problem))
        if self._on_failed is not None:
            self._on_failed()

    def raise_failure(self) -> None:
        """Raise the error of a loop that ended without being stopped, if there is one."""
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop claiming, let running attempts end, hand back the rest, and unregister."""
        self.is_ready = False
        for loop in self._loops:
            self._runner.stop(loop)
        self.worker.runner.hand_back_held()
        seconds = self.worker.settings.drain
        if self.running:
            self._emit(Draining(running=self.running, seconds=seconds))
        await self._end(loop.name for loop in self._loops)
        if self._works:
            released = await self.worker.runner.drain(seconds)
            await self._leave()
            worker = self.worker.membership.worker
            self._emit(WorkerStopped(worker=worker, released=released, held=self.running))
        if self._at_end is not None:
            await self._at_end()

    async def _end(self, names: Iterable[str]) -> None:
        tasks = [self._tasks.pop(name) for name in list(names) if name in self._tasks]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                # A cancelled settler keeps its outcomes; they are written after this.
                await asyncio.wait(late, timeout=LEAVE_SECONDS)

    @property
    def _last(self) -> Sequence[Loop]:
        """Loops that attempts need until they have ended."""
        return self.worker.settler, self.worker.running_monitor

    async def _leave(self) -> None:
        for loop in self._last:
            self._runner.stop(loop)
        await self._end([loop.name for loop in self._last])
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.worker.leave()
        except TimeoutError:
            pass  # the lease runs out, and other workers reclaim the rest
        finally:
            await self.worker.membership.stop_beating()
