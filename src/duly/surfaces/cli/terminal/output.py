"""Output: JSON or text on stdout, messages on stderr."""

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
"""The least width that a terminal is assumed to have."""


def answer(as_json: bool, document: object, people: Callable[[], str]) -> None:
    """Print the document as JSON or text; control characters are escaped."""
    text = json_text(document) if as_json else visible(people())
    sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def print_message(text: str) -> None:
    """Print a message to stderr."""
    print(visible(text), file=sys.stderr)


def json_text(document: object) -> str:
    """The document as JSON, indented at a terminal."""
    data = msgspec.json.encode(document)
    shown = msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data
    # Stored payloads and answers in it are unchecked and may not be UTF-8.
    return safe_json(shown.decode(errors="replace"))


def items(found: Sequence[object], next_id: str | None = None) -> dict[str, object]:
    """The document of a list."""
    return {"items": found, "next": next_id}


def answer_page(
    as_json: bool,
    page: Sequence[object],
    next_name: str | None,
    people: Callable[[], str],
    flag: str = "--after",
) -> None:
    """Print one page of a list, and the flag for the next page."""
    answer(as_json, items(page, next_name), people)
    if next_name and not as_json:
        print_message(f"there are more: {flag} {next_name}")


def fields(value: msgspec.Struct, **more: object) -> dict[str, Any]:
    """The fields of a record by name, and more."""
    return (
        dict(zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True))
        | more
    )


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], folds: Collection[str] = ()
) -> str:
    """Rows under their headings; on a terminal the columns that `folds` names are folded.

    Ids and names are not folded. There, columns that do not fit are on a line below, times are
    shorter, and a table without rows shows `none`.
    """
    from duly.surfaces.cli.terminal.layout import laid_out

    at_terminal = sys.stdout.isatty()
    shown = _short if at_terminal else cell
    width = max(NARROWEST, shutil.get_terminal_size().columns) if at_terminal else None
    found = [[shown(each) for each in row] for row in rows]
    lines = laid_out(columns, found, folds, width)
    return "\n".join(lines if found or not at_terminal else [*lines, "none"])


def _short(value: object) -> str:
    """Like `cell`, with times to the second."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"
    return cell(value)


def facts(found: Mapping[str, object]) -> str:
    """One line for each value that is not empty."""
    shown = {name: cell(value) for name, value in found.items() if value not in (None, [], "")}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())


def cell(value: object) -> str:
    """A value as text on one line; control characters are escaped."""
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
    """Text of several lines; control characters except line breaks are escaped."""
    return "\n".join(map(cell, text.split("\n")))


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr at a terminal; call the result with the number done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def counted(count: int, most: int) -> str:
    """A number that was counted up to a limit."""
    return f"{count} or more" if count >= most else str(count)
