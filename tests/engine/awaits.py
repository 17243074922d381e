"""Every await of some modules, found in their syntax trees and made to fail on demand.

The code of the functions is replaced by the same code in which each `await` and `async with` passes
through here. Faults are raised only where code waits for I/O: an await of a function that is
itself instrumented fails inside that function.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

HOOK = "__await_hook__"
AROUND = "__around_hook__"
UNKNOWN = (ast.AsyncFor,)


class Fault(NamedTuple):
    """An error at a point: before the awaited call took effect, or after."""

    point: str
    when: str
    strike: Callable[[], Awaitable[None]]
    is_cancellation: bool

    def can_strike(self, awaitable: object) -> bool:
        """Whether it can happen there: awaiting a thread does not use the store."""
        return self.is_cancellation or inspect.iscoroutine(awaitable)


class Awaits:
    """The points of some modules, which of them were reached, and the fault to raise.

    Only code for which `within` returns True counts.
    """

    def __init__(self, *modules: ModuleType, within: Callable[[], bool]) -> None:
        self._modules = modules
        self._within = within
        self._codes: set[CodeType] = set()
        self.found: set[str] = set()
        self.reached: list[str] = []
        self.passed: set[str] = set()
        """Reached, but the awaited function is instrumented itself."""
        self.fault: Fault | None = None

    @contextmanager
    def instrumented(self) -> Iterator[Awaits]:
        """Make the modules pass through here."""
        before: list[tuple[FunctionType, CodeType]] = []
        for module in self._modules:
            codes = self._instrument(module)
            vars(module)[HOOK], vars(module)[AROUND] = self.wait, self.around
            for function in functions_of(module):
                before.append((function, function.__code__))
                function.__code__ = codes[function.__code__.co_qualname]
                self._codes.add(function.__code__)
        try:
            yield self
        finally:
            for function, code in before:
                function.__code__ = code
            for module in self._modules:
                del vars(module)[HOOK], vars(module)[AROUND]

    def _instrument(self, module: ModuleType) -> dict[str, CodeType]:
        path = Path(str(module.__file__))
        tree = _Hooks(module.__name__.removeprefix("duly."), self.found).visit(
            ast.parse(path.read_text())
        )
        compiled = compile(ast.fix_missing_locations(tree), str(path), "exec")
        codes = {each.co_qualname: each for each in _codes_in(compiled)}
        # Functions within functions are instrumented with those that contain them.
        self._codes.update(codes.values())
        return codes

    async def wait(self, point: str, awaitable: Any) -> Any:
        """Await it, and fail before or after if a fault is set."""
        if not self._within():
            return await awaitable
        if self._is_instrumented(awaitable):
            self.passed.add(point)
            return await awaitable
        fault = self._at(point)
        if fault is None or not fault.can_strike(awaitable):
            return await awaitable
        if fault.when == "before":
            await _raise_before(fault, awaitable)
        result = await awaitable
        if fault.when == "after":
            try:
                await fault.strike()
            except BaseException:
                # Close the connection that the caller never gets, as the driver would.
                if hasattr(result, "terminate"):
                    result.terminate()
                raise
        return result

    def around(self, point: str, manager: Any) -> _Around:
        """The same for an `async with`."""
        return _Around(self, point, manager)

    def _at(self, point: str) -> Fault | None:
        self.reached.append(point)
        if self.fault is None or self.fault.point != point:
            return None
        fault, self.fault = self.fault, None
        return fault

    def _is_instrumented(self, awaitable: Any) -> bool:
        code = getattr(awaitable, "cr_code", None) or getattr(awaitable, "ag_code", None)
        return code in self._codes


class _Around:
    def __init__(self, awaits: Awaits, point: str, manager: Any) -> None:
        self._awaits = awaits
        self._point = point
        self._manager = manager
        generator = getattr(manager, "gen", None)
        self._is_ours = awaits._is_instrumented(generator)

    async def __aenter__(self) -> Any:
        if not self._awaits._within():
            return await self._manager.__aenter__()
        if self._is_ours:
            self._awaits.passed.add(self._point)
            return await self._manager.__aenter__()
        fault = self._awaits._at(self._point)
        if fault is not None and fault.when == "before":
            await _raise_before(fault, self._manager)
        entered = await self._manager.__aenter__()
        if fault is not None and fault.when == "after":
            try:
                await fault.strike()
            except BaseException as error:
                # A failed enter must leave nothing entered.
                await self._manager.__aexit__(type(error), error, error.__traceback__)
                raise
        return entered

    async def __aexit__(self, *error: Any) -> Any:
        return await self._manager.__aexit__(*error)


class _Hooks(ast.NodeTransformer):
    """Wraps each awaited expression in a call that names the point."""

    def __init__(self, module: str, found: set[str]) -> None:
        self._module = module
        self._found = found
        self._within: list[str] = []

    def visit(self, node: ast.AST) -> Any:
        assert not isinstance(node, UNKNOWN), (
            f"{self._module}: this test does not support {type(node)}"
        )
        assert not (isinstance(node, ast.comprehension) and node.is_async), self._module
        is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_named:
            self._within.append(node.name)  # type: ignore[attr-defined]
        visited = super().visit(node)
        if is_named:
            self._within.pop()
        return visited

    def visit_Await(self, node: ast.Await) -> ast.Await:
        point = self._point(ast.unparse(node.value))
        self.generic_visit(node)
        return ast.copy_location(ast.Await(_called(HOOK, point, node.value)), node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AsyncWith:
        points = [self._point(f"async with {ast.unparse(each)}") for each in node.items]
        self.generic_visit(node)
        for each, point in zip(node.items, points, strict=True):
            each.context_expr = _called(AROUND, point, each.context_expr)
        return node

    def _point(self, awaited: str) -> str:
        where = f"{self._module}:{'.'.join(self._within)}"
        point, count = f"{where}: {awaited}", 1
        while point in self._found:
            count += 1
            point = f"{where}: {awaited} ({count})"
        self._found.add(point)
        return point


def _called(hook: str, point: str, value: ast.expr) -> ast.Call:
    name = ast.Name(hook, ast.Load())
    return ast.copy_location(ast.Call(name, [ast.Constant(point), value], []), value)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that the module itself defines."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        members = vars(value).values() if inspect.isclass(value) else [value]
        for each in members:
            found = inspect.unwrap(getattr(each, "__func__", each))
            found = getattr(found, "fget", found)
            if isinstance(found, FunctionType) and found.__code__.co_filename == module.__file__:
                yield found


async def _raise_before(fault: Fault, awaitable: Any) -> None:
    """Raise before the call; if that ends the caller, close what would have been awaited."""
    try:
        await fault.strike()
    except BaseException:
        end = getattr(awaitable, "cancel", None) or getattr(awaitable, "close", None)
        if end is not None:
            end()
        raise


async def yield_to_tasks(turns: int = 10) -> None:
    """Let other tasks run, and notice a cancellation."""
    for _ in range(turns):
        await asyncio.tasks.sleep(0)
