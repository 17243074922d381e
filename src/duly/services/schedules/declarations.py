"""Schedules that code declares with decorators.

They are declared when the app opens. When a worker of the program starts, those that its code
declares no longer are recorded as having left it: only a worker is sure to have loaded the whole
program, a script may import a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

from duly.domain.events import OrphansFound, OrphansRemoved
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules.options import checked_options
from duly.domain.schedules.origin import Origin
from duly.domain.time.rules import Rule
from duly.errors import InvalidInput
from duly.ports import Emit, Store
from duly.records.schedule import OrphanedSchedule, ScheduleKeywords
from duly.services.schedules.orphans import Orphans
from duly.services.schedules.program import Program
from duly.services.schedules.schedules import Schedules

Function = TypeVar("Function", bound=Callable[..., Any])
NameOf = Callable[[Callable[..., Any]], str]
CheckPayload = Callable[[str, Any], None]
Decorated = tuple[Callable[..., Any], Rule, str | None, Any, ScheduleKeywords]
SHOWN = 100
"""How many orphans the log names."""


class Declarations:
    """The schedules that decorate functions of this program."""

    def __init__(
        self,
        store: Store,
        schedules: Schedules,
        program: Program,
        emit: Emit,
        module_name: Callable[[str], str],
        is_unloaded: Callable[[str], bool],
        *,
        prune: bool,
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._orphans = Orphans(store, schedules.actor)
        self._program = program
        self._emit = emit
        self._module_name = module_name
        self._is_unloaded = is_unloaded
        self._prune = prune
        self._decorated: list[Decorated] = []

    def around(
        self,
        rule: Rule,
        *,
        name: str | None = None,
        payload: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Callable[[Function], Function]:
        """Remember a schedule for the function that this decorates, until the app opens."""
        schedule_options.timing(rule, checked_options(options))

        def remember(function: Function) -> Function:
            self._decorated.append((function, rule, name, payload, options))
            return function

        return remember

    async def declare_all(self, name_of: NameOf, check: CheckPayload) -> None:
        """Declare the schedules that decorate handlers, if their payloads fit these."""
        named = [(each[2] or name_of(each[0]), each) for each in self._decorated]
        names = [name for name, _ in named]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput("name", f"{twice[0]!r} is declared twice; give one of them a name=")
        for _, (function, _, _, payload, _) in named:
            check(name_of(function), payload)
        self._program.schedules.update(names)
        for name, (function, rule, _, payload, options) in named:
            origin = Origin(self._program.name, self._place(function))
            await self._schedules.declare_in_code(
                origin, name, rule, name_of(function), payload, **options
            )

    def _place(self, function: Callable[..., Any]) -> str:
        module = self._module_name(function.__module__)
        # A partial or an object that can be called has no name of its own.
        return f"{module}.{getattr(function, '__name__', type(function).__name__)}"

    def names(self) -> Sequence[str]:
        """The names of the declared schedules."""
        return sorted(self._program.schedules)

    async def find_orphans(self) -> None:
        """Record which schedules left the code; called when a worker of the program has started.

        Its orphans are logged or, if the settings say so, removed.
        """
        if not self._program.is_known:
            return
        await self._note_left()
        if self._prune:
            await self.prune()
        elif orphans := await self._own_orphans():
            names = [each.name for each in orphans[:SHOWN]]
            self._emit(OrphansFound(orphans=len(orphans), schedules=names))

    async def prune(self) -> None:
        """Remove the orphans of this program."""
        orphans = await self._own_orphans()
        removed = [each.name for each in orphans if await self._orphans.remove_one(each)]
        if removed:
            self._emit(OrphansRemoved(orphans=len(removed), schedules=removed[:SHOWN]))

    async def _own_orphans(self) -> list[OrphanedSchedule]:
        return [each async for each in self._orphans.all(self._program.name)]

    async def _note_left(self) -> None:
        program, declarations = self._program.name, self._store.declarations
        missing = await declarations.undeclared(program, self.names())
        # A module that exists but was not imported here may still declare it.
        left = [name for name, each in missing.items() if not self._is_unloaded(each.module)]
        await declarations.leave(program, left)
