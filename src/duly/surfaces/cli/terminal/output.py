"""Answers on stdout: a JSON document for programs, a table for people; talk on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.safe_text import safe_json, visible

NARROWEST = 20
"""Columns that a terminal is taken to have at least."""


def answer(as_json: bool, document: object, people: Callable[[], str]) -> None:
    """Write the document, or what people read instead; nothing in it controls a terminal."""
    text = json_text(document) if as_json else visible(people())
    sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def talk(text: str) -> None:
    """Say something that is not data."""
    print(visible(text), file=sys.stderr)


def json_text(document: object) -> str:
    """The document as JSON, indented when somebody looks."""
    data = msgspec.json.encode(document)
    shown = msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data
    # A document in it that was stored or answered as it came may be no UTF-8.
    return safe_json(shown.decode(errors="replace"))


def items(found: Sequence[object], next_id: str | None = None) -> dict[str, object]:
    """A list as every list is answered."""
    return {"items": found, "next": next_id}


def answer_page(
    as_json: bool,
    page: Sequence[object],
    next_name: str | None,
    people: Callable[[], str],
    flag: str = "--after",
) -> None:
    """Answer one page of a list, and say how to go on."""
    answer(as_json, items(page, next_name), people)
    if next_name and not as_json:
        talk(f"there are more: {flag} {next_name}")


def fields(value: msgspec.Struct, **more: object) -> dict[str, Any]:
    """A value as a document, with what belongs to it."""
    return (
        dict(zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True))
        | more
    )


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], folds: Collection[str] = ()
) -> str:
    """Rows under their headings; on a terminal the columns that `folds` names are folded.

    Ids and names stay whole. What does not fit on one line goes below, and times are shorter.
    A table without rows says so there.
    """
    from duly.surfaces.cli.terminal.layout import laid_out

    at_terminal = sys.stdout.isatty()
    shown = _short if at_terminal else cell
    width = max(NARROWEST, shutil.get_terminal_size().columns) if at_terminal else None
    found = [[shown(each) for each in row] for row in rows]
    lines = laid_out(columns, found, folds, width)
    return "\n".join(lines if found or not at_terminal else [*lines, "none"])


def _short(value: object) -> str:
    """As `cell`, with moments to the second."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"
    return cell(value)


def facts(found: Mapping[str, object]) -> str:
    """One line for each fact that there is."""
    shown = {name: cell(value) for name, value in found.items() if value not in (None, [], "")}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())


def cell(value: object) -> str:
    """A value as people read it; what would move the cursor is spelled out."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    text = bytes(value).decode(errors="replace") if isinstance(value, msgspec.Raw) else str(value)
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def lines(text: str) -> str:
    """Text of several lines as people read it; only its line breaks are left as they are."""
    return "\n".join(map(cell, text.split("\n")))


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr when somebody watches; call it with how much was done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def counted(many: int, most: int) -> str:
    """A number that was counted up to a limit."""
    return f"{many} or more" if many >= most else str(many)
