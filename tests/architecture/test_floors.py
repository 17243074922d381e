"""The floors of the code: imports go only to lower floors, and no file is too long."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "birthday" / "src")

# Lowest first. Packages on one floor do not import each other. `duly` is the public module, so
# only packages above it may import it.
FLOORS = (
    {"duly.errors", "duly.version", "duly.safe_text"},
    {"duly.records"},
    {"duly.domain"},
    {"duly.ports", "duly.settings", "duly.failpoints", "duly.tracebacks"},
    {
        *("duly.stores", "duly.transports", "duly.engine", "duly.services"),
        *("duly.telemetry", "duly.telemetry.tracing", "duly.vault", "duly.system", "duly.signals"),
        *("duly.modules", "duly.schedule_resources"),
    },
    {"duly.composition", "duly.resources"},
    {"duly.sync"},
    {"duly.working", "duly.client", "duly.handlers"},
    {"duly.app", "duly.receiving"},
    {"duly"},
    {"duly.surfaces", "duly.testing"},
    {"duly.__main__"},
    {"duly_birthday"},
)
FLOOR_OF = {package_of: number for number, rooms in enumerate(FLOORS) for package_of in rooms}
LINES_LIMIT = 400
CONTEXTS = {
    "duly_birthday.users": ("duly_birthday.users.",),
    "duly_birthday.greetings": ("duly_birthday.greetings.", "duly_birthday.users.events.", "duly."),
}
"""What each context may import: greetings see only the published events of users."""

ImportGraph = dict[str, set[str]]


def test_imports_go_downwards_and_have_no_cycle() -> None:
    assert violations(*SOURCES) == []


@pytest.mark.requirement("B6")
def test_greetings_import_only_published_events_of_users() -> None:
    assert forbidden_imports(*SOURCES) == []


def test_forbidden_imports_of_contexts_are_reported(tmp_path: Path) -> None:
    write_module(
        tmp_path, "duly_birthday/users/user.py", "import duly\nimport duly_birthday.greetings.a"
    )
    write_module(tmp_path, "duly_birthday/users/checks.py", "from duly.domain import zones")
    write_module(
        tmp_path, "duly_birthday/greetings/a.py", "from duly_birthday.users import user, events"
    )
    write_module(
        tmp_path, "duly_birthday/greetings/b.py", "from duly_birthday.wire import x\nimport duly"
    )
    write_module(tmp_path, "duly_birthday/users/events.py", "")
    write_module(tmp_path, "duly/domain/zones.py", "")
    assert forbidden_imports(tmp_path) == [
        "forbidden: duly_birthday.greetings.a -> duly_birthday.users.user",
        "forbidden: duly_birthday.greetings.b -> duly_birthday.wire",
        "forbidden: duly_birthday.users.checks -> duly.domain.zones",
        "forbidden: duly_birthday.users.user -> duly",
        "forbidden: duly_birthday.users.user -> duly_birthday.greetings.a",
    ]


def test_no_file_reaches_400_lines() -> None:
    assert long_files(*SOURCES) == []


def test_an_upward_import_is_reported(tmp_path: Path) -> None:
    write_module(tmp_path, "duly/domain/states.py", "from duly.stores import sqlite")
    write_module(tmp_path, "duly/stores/sqlite.py", "")
    assert violations(tmp_path) == ["upward: duly.domain.states -> duly.stores.sqlite"]


def test_an_import_between_siblings_is_reported(tmp_path: Path) -> None:
    write_module(tmp_path, "duly/engine/planner.py", "import duly.stores.sqlite")
    write_module(tmp_path, "duly/stores/sqlite.py", "")
    assert violations(tmp_path) == ["upward: duly.engine.planner -> duly.stores.sqlite"]


def test_an_import_for_type_checking_only_is_reported(tmp_path: Path) -> None:
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..app import App\n"
    write_module(tmp_path, "duly/engine/planner.py", hidden)
    write_module(tmp_path, "duly/app.py", "class App: ...")
    assert violations(tmp_path) == ["upward: duly.engine.planner -> duly.app"]


def test_only_higher_floors_may_import_the_public_module(tmp_path: Path) -> None:
    write_module(tmp_path, "duly/app.py", "from duly import exponential")
    write_module(tmp_path, "duly/settings.py", "from duly import domain")
    write_module(tmp_path, "duly/domain/__init__.py", "")
    write_module(tmp_path, "duly/surfaces/cli/main.py", "import duly")
    write_module(tmp_path, "duly/__init__.py", "from duly.domain import retry")
    assert violations(tmp_path) == ["upward: duly.app -> duly", "upward: duly.settings -> duly"]


def test_a_cycle_is_reported(tmp_path: Path) -> None:
    write_module(
        tmp_path,
        "duly/domain/states.py",
        "from duly.domain.retry import plan",
    )
    write_module(tmp_path, "duly/domain/retry.py", "def plan():\n    from . import states\n")
    (cycle,) = violations(tmp_path)
    assert cycle.startswith("cycle: ")
    assert {"duly.domain.states", "duly.domain.retry"} == set(cycle[7:].split(" -> "))


def test_folders_do_not_import_each_other_in_a_cycle() -> None:
    graph = read_graph(*SOURCES)
    packages = {module for module in graph if any(m.startswith(f"{module}.") for m in graph)}
    assert len(packages) > 40
    found = [
        each for package in sorted(packages - {"duly"}) for each in folder_cycles(graph, package)
    ]
    assert found == []


def test_a_cycle_of_folders_is_reported() -> None:
    graph = {"a.b.x": {"a.c.y"}, "a.c.z": {"a.b.w"}, "a.c.y": set(), "a.b.w": set()}
    assert cycles(graph) == []
    (cycle,) = folder_cycles(graph, "a")
    assert {"a.b", "a.c"} == set(cycle[7:].split(" -> "))


def test_a_package_without_a_floor_is_reported(tmp_path: Path) -> None:
    write_module(tmp_path, "duly/attic.py", "")
    assert violations(tmp_path) == ["no floor: duly.attic"]


def test_a_file_of_400_lines_is_reported(tmp_path: Path) -> None:
    write_module(tmp_path, "duly/app.py", "\n" * 400)
    write_module(tmp_path, "duly/settings.py", "\n" * 399)
    assert long_files(tmp_path) == ["duly/app.py: 400 lines"]


def violations(*sources: Path) -> list[str]:
    graph = read_graph(*sources)
    unplaced = [f"no floor: {module}" for module in sorted(graph) if package_of(module) is None]
    upward = [
        f"upward: {module} -> {target}"
        for module in sorted(graph)
        for target in sorted(graph[module])
        if not is_downward(module, target)
    ]
    return unplaced + upward + cycles(graph)


def forbidden_imports(*sources: Path) -> list[str]:
    """Imports of the contexts of the birthday service that are not allowed."""
    return [
        f"forbidden: {module} -> {target}"
        for module, targets in sorted(read_graph(*sources).items())
        for context, allowed in CONTEXTS.items()
        if module.startswith(context)
        for target in sorted(targets)
        if not f"{target}.".startswith(allowed)
    ]


def long_files(*sources: Path) -> list[str]:
    return [
        f"{path.relative_to(source)}: {size} lines"
        for source in sources
        for path in files(source, "py", "sql")
        if (size := len(path.read_text().splitlines())) >= LINES_LIMIT
    ]


def is_downward(module: str, target: str) -> bool:
    here, there = package_of(module), package_of(target)
    if here is None or there is None:
        return True
    return here == there or FLOOR_OF[there] < FLOOR_OF[here]


def cycles(graph: ImportGraph) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"cycle: {' -> '.join(error.args[1])}"]
    return []


def folder_cycles(graph: ImportGraph, package: str) -> list[str]:
    """Circles among what is directly in a package, a folder taken as one."""
    depth = package.count(".") + 2

    def part(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    inside = f"{package}."
    folders: ImportGraph = {}
    for module, targets in graph.items():
        if module.startswith(inside):
            known = {part(each) for each in targets if each.startswith(inside)}
            folders.setdefault(part(module), set()).update(known - {part(module)})
    return cycles(folders)


def package_of(module: str) -> str | None:
    """`duly.stores.sqlite` is in `duly.stores`; None if it has no floor."""
    depth = 2 if module.startswith("duly.") else 1
    candidate = ".".join(module.split(".")[:depth])
    return candidate if candidate in FLOOR_OF else None


@cache
def read_graph(*sources: Path) -> ImportGraph:
    modules = {
        module_name(source, path): path for source in sources for path in files(source, "py")
    }
    return {
        module: set(imports(module, path, set(modules))) - {module}
        for module, path in modules.items()
    }


def imports(module: str, path: Path, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and is_ours(origin := absolute(module, path, node)):
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                # `from duly import stores` runs the public module too.
                yield submodule if submodule in modules and origin != "duly" else origin


def absolute(module: str, path: Path, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def is_ours(name: str) -> bool:
    return name.split(".")[0] in ("duly", "duly_birthday")


def module_name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files(source: Path, *suffixes: str) -> list[Path]:
    return sorted(path for suffix in suffixes for path in source.rglob(f"*.{suffix}"))


def write_module(source: Path, path: str, text: str) -> None:
    file = source / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
