"""The engine's life: an ordered start, loops that outlive their failures, an ordered stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from duly.domain.events import Draining, LoopEnded, WorkerStopped
from duly.domain.roles import Role, refuse_apart
from duly.engine.loops import Loop, Runner
from duly.engine.worker import Worker
from duly.ports import Chance, Emit

LAST_WORD_SECONDS = 5.0
"""How long a stop waits for the store to take the last outcomes."""


class Engine:
    """One process: its roles say whether it runs the worker's loops, the planner's, or both.

    `loops` run beside them from the start to the stop, in every role; `at_end` is awaited
    when everything is written.
    """

    def __init__(
        self,
        worker: Worker,
        loops: Sequence[Loop],
        chance: Chance,
        emit: Emit,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        roles = worker.settings.roles
        refuse_apart(roles, worker.store.single_owner)
        self.worker = worker
        self._emit = emit
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
        """What dead workers held is taken back and what was missed is planned; not stopping."""

    @property
    def running(self) -> int:
        """How many deliveries are being attempted."""
        return self.worker.runner.running

    async def start(self, on_failed: Callable[[], None] | None = None) -> None:
        """Take back what dead workers held, and only then begin to claim.

        `on_failed` is called when a loop ends that was not stopped.
        """
        self._on_failed = on_failed
        try:
            await self.prepare()
        except BaseException:
            await self.worker.membership.stop_beating()
            raise
        if self._works:
            self.worker.store.wakeups.listen(self.worker.signal.hint)
            self._run(self.worker.settler)
        for loop in self._loops:
            self._run(loop)

    async def prepare(self) -> None:
        """All of a start but the loops."""
        worker = self.worker
        await worker.store.own()
        if self._works:
            await worker.join()
        if self._plans:
            await worker.planner.at_start()
        elif self._works:
            # Another process plans, but what is merged into a later one must not be claimed before.
            await worker.planner.catch_up()
        self.is_ready = True

    def _run(self, loop: Loop) -> None:
        task = asyncio.create_task(self._runner.run(loop), name=loop.name)
        task.add_done_callback(self._notice_end)
        self._tasks[loop.name] = task

    def _notice_end(self, task: asyncio.Task[None]) -> None:
        """Say so when a loop has ended that nobody stopped: what it does is no longer done."""
        error = None if task.cancelled() else task.exception()
        # A program that ends cancels all tasks at once, those that stop the engine among them.
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
        """Raise what ended a loop that nobody stopped, if one did."""
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop claiming at once, let running work end, hand back the rest, say goodbye."""
        self.is_ready = False
        for loop in self._loops:
            self._runner.stop(loop)
        seconds = self.worker.settings.drain
        if self.running:
            self._emit(Draining(running=self.running, seconds=seconds))
        await self._end(loop.name for loop in self._loops)
        if self._works:
            released = await self.worker.runner.drain(seconds)
            await self._last_words()
            worker = self.worker.membership.worker
            self._emit(WorkerStopped(worker=worker, released=released, held=self.running))
        if self._at_end is not None:
            await self._at_end()

    async def _end(self, names: Iterable[str]) -> None:
        tasks = [self._tasks.pop(name) for name in list(names) if name in self._tasks]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LAST_WORD_SECONDS)
            for task in late:
                task.cancel()
            if late:
                # A settler that is cut off puts its outcomes back; they are written after this.
                await asyncio.wait(late, timeout=LAST_WORD_SECONDS)

    async def _last_words(self) -> None:
        self._runner.stop(self.worker.settler)
        await self._end([self.worker.settler.name])
        try:
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self.worker.say_goodbye()
        except TimeoutError:
            pass  # the lease runs out, and others take back what is left
        finally:
            await self.worker.membership.stop_beating()
