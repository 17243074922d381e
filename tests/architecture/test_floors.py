"""The floors of the house: imports point downwards only, and no file outgrows its story."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "birthday" / "src")

# Lowest first. Rooms on one floor do not import each other. `duly` is the public face itself, so
# only what stands above it may say `import duly`.
FLOORS = (
    {"duly.errors", "duly.version", "duly.safe_text"},
    {"duly.records"},
    {"duly.domain"},
    {"duly.ports", "duly.settings", "duly.failpoints", "duly.tracebacks"},
    {
        *("duly.stores", "duly.transports", "duly.engine", "duly.services"),
        *("duly.telemetry", "duly.telemetry.tracing", "duly.vault", "duly.system", "duly.signals"),
    },
    {"duly.composition", "duly.resources"},
    {"duly.working", "duly.client"},
    {"duly.app", "duly.receiving"},
    {"duly"},
    {"duly.surfaces", "duly.testing"},
    {"duly.__main__"},
    {"duly_birthday"},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LINES_LIMIT = 400
CONTEXTS = {
    "duly_birthday.users": ("duly_birthday.users.",),
    "duly_birthday.greetings": ("duly_birthday.greetings.", "duly_birthday.users.events.", "duly."),
}
"""What a context may know of the rest: the two meet in the events that users publish."""

Arrows = dict[str, set[str]]


def test_imports_point_downwards_and_never_in_a_circle() -> None:
    assert violations(*SOURCES) == []


@pytest.mark.requirement("B6")
def test_users_and_greetings_meet_in_published_events_only() -> None:
    assert acquaintances(*SOURCES) == []


def test_contexts_that_know_too_much_are_reported(tmp_path: Path) -> None:
    plant(tmp_path, "duly_birthday/users/user.py", "import duly\nimport duly_birthday.greetings.a")
    plant(tmp_path, "duly_birthday/users/checks.py", "from duly.domain import zones")
    plant(tmp_path, "duly_birthday/greetings/a.py", "from duly_birthday.users import user, events")
    plant(tmp_path, "duly_birthday/greetings/b.py", "from duly_birthday.wire import x\nimport duly")
    plant(tmp_path, "duly_birthday/users/events.py", "")
    plant(tmp_path, "duly/domain/zones.py", "")
    assert acquaintances(tmp_path) == [
        "stranger: duly_birthday.greetings.a -> duly_birthday.users.user",
        "stranger: duly_birthday.greetings.b -> duly_birthday.wire",
        "stranger: duly_birthday.users.checks -> duly.domain.zones",
        "stranger: duly_birthday.users.user -> duly",
        "stranger: duly_birthday.users.user -> duly_birthday.greetings.a",
    ]


def test_no_file_reaches_400_lines() -> None:
    assert overgrown(*SOURCES) == []


def test_an_upward_arrow_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "duly/domain/states.py", "from duly.stores import sqlite")
    plant(tmp_path, "duly/stores/sqlite.py", "")
    assert violations(tmp_path) == ["upward: duly.domain.states -> duly.stores.sqlite"]


def test_an_arrow_between_siblings_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "duly/engine/planner.py", "import duly.stores.sqlite")
    plant(tmp_path, "duly/stores/sqlite.py", "")
    assert violations(tmp_path) == ["upward: duly.engine.planner -> duly.stores.sqlite"]


def test_an_arrow_for_type_checking_only_is_reported(tmp_path: Path) -> None:
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..app import App\n"
    plant(tmp_path, "duly/engine/planner.py", hidden)
    plant(tmp_path, "duly/app.py", "class App: ...")
    assert violations(tmp_path) == ["upward: duly.engine.planner -> duly.app"]


def test_the_public_face_is_for_those_above_it(tmp_path: Path) -> None:
    plant(tmp_path, "duly/app.py", "from duly import exponential")
    plant(tmp_path, "duly/settings.py", "from duly import domain")
    plant(tmp_path, "duly/domain/__init__.py", "")
    plant(tmp_path, "duly/surfaces/cli/main.py", "import duly")
    plant(tmp_path, "duly/__init__.py", "from duly.domain import retry")
    assert violations(tmp_path) == ["upward: duly.app -> duly", "upward: duly.settings -> duly"]


def test_a_circle_is_reported(tmp_path: Path) -> None:
    plant(
        tmp_path,
        "duly/domain/states.py",
        "from duly.domain.retry import plan",
    )
    plant(tmp_path, "duly/domain/retry.py", "def plan():\n    from . import states\n")
    (circle,) = violations(tmp_path)
    assert circle.startswith("circle: ")
    assert {"duly.domain.states", "duly.domain.retry"} == set(circle[8:].split(" -> "))


def test_folders_do_not_import_each_other_in_a_circle() -> None:
    arrows = read_arrows(*SOURCES)
    packages = {module for module in arrows if any(m.startswith(f"{module}.") for m in arrows)}
    assert len(packages) > 40
    found = [each for package in sorted(packages - {"duly"}) for each in rounds(arrows, package)]
    assert found == []


def test_a_circle_of_folders_is_reported() -> None:
    arrows = {"a.b.x": {"a.c.y"}, "a.c.z": {"a.b.w"}, "a.c.y": set(), "a.b.w": set()}
    assert circles(arrows) == []
    (circle,) = rounds(arrows, "a")
    assert {"a.b", "a.c"} == set(circle[8:].split(" -> "))


def test_a_room_without_a_floor_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "duly/attic.py", "")
    assert violations(tmp_path) == ["no floor: duly.attic"]


def test_a_file_of_400_lines_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "duly/app.py", "\n" * 400)
    plant(tmp_path, "duly/settings.py", "\n" * 399)
    assert overgrown(tmp_path) == ["duly/app.py: 400 lines"]


def violations(*sources: Path) -> list[str]:
    arrows = read_arrows(*sources)
    homeless = [f"no floor: {module}" for module in sorted(arrows) if room(module) is None]
    upward = [
        f"upward: {module} -> {target}"
        for module in sorted(arrows)
        for target in sorted(arrows[module])
        if not is_downward(module, target)
    ]
    return homeless + upward + circles(arrows)


def acquaintances(*sources: Path) -> list[str]:
    """What the contexts of the birthday service know besides what they may."""
    return [
        f"stranger: {module} -> {target}"
        for module, targets in sorted(read_arrows(*sources).items())
        for context, may_know in CONTEXTS.items()
        if module.startswith(context)
        for target in sorted(targets)
        if not f"{target}.".startswith(may_know)
    ]


def overgrown(*sources: Path) -> list[str]:
    return [
        f"{path.relative_to(source)}: {size} lines"
        for source in sources
        for path in files(source, "py", "sql")
        if (size := len(path.read_text().splitlines())) >= LINES_LIMIT
    ]


def is_downward(module: str, target: str) -> bool:
    here, there = room(module), room(target)
    if here is None or there is None:
        return True
    return here == there or FLOOR_OF[there] < FLOOR_OF[here]


def circles(arrows: Arrows) -> list[str]:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return [f"circle: {' -> '.join(error.args[1])}"]
    return []


def rounds(arrows: Arrows, package: str) -> list[str]:
    """Circles among what is directly in a package, a folder taken as one."""
    depth = package.count(".") + 2

    def part(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    inside = f"{package}."
    folders: Arrows = {}
    for module, targets in arrows.items():
        if module.startswith(inside):
            known = {part(each) for each in targets if each.startswith(inside)}
            folders.setdefault(part(module), set()).update(known - {part(module)})
    return circles(folders)


def room(module: str) -> str | None:
    """`duly.stores.sqlite` is in `duly.stores`; None when nobody gave it a floor."""
    depth = 2 if module.startswith("duly.") else 1
    candidate = ".".join(module.split(".")[:depth])
    return candidate if candidate in FLOOR_OF else None


def read_arrows(*sources: Path) -> Arrows:
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
                # `from duly import stores` runs the public face, whatever it is after.
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


def plant(source: Path, path: str, text: str) -> None:
    file = source / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
