"""Draws the state of `duly top` as lines of text that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from duly.records.status import Top
from duly.safe_text import one_line
from duly.surfaces.cli.terminal.output import counted
from duly.surfaces.cli.terminal.times import spelled
from duly.surfaces.cli.top.content import Content, Row, Tone
from duly.surfaces.cli.top.model import HELP, Model
from duly.surfaces.cli.top.views import RECORDS, STATES, TABS

GAP = 2
NARROWEST = 6
"""A column with less room is left out."""
LEAST_SHARE = 20
"""One long name does not push the other columns off the screen."""
SILENT_SECONDS = 5.0
"""Longer than an answer usually takes."""
STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.BUSY: "cyan",
    Tone.WARNING: "yellow",
    Tone.BAD: "red",
    Tone.FAINT: "dim",
}
ACCENT, HEADING, FAINT, ALARM = "bold cyan", "bold", "dim", "bold white on red"
HINTS = "? keys  / filter  Enter open  r retry  p pause  q leave"


def drawn(model: Model) -> RenderableType:
    """The whole screen; at its lowest line are the question, the filter, or the keys."""
    body = list(_help(model) if model.has_help else _body(model))[: model.room]
    blank = [Text()] * (model.room - len(body))
    lines = [_tabs(model), _status(model), _title(model), *body, *blank, _footer(model)]
    # In a terminal of a few lines, the selected row and the footer are what counts.
    return Group(*(lines[-model.height :] if model.height < len(lines) else lines))


def _line(text: str, width: int, style: str = "") -> Text:
    """One line; text from outside cannot control the terminal."""
    safe = one_line(text.expandtabs(4))
    if cell_len(safe) > width:
        safe = set_cell_size(safe, max(width - 1, 0)).rstrip() + "…"
    return Text(safe, style=style, no_wrap=True)


def _tabs(model: Model) -> Text:
    names = [f"{number} {kind}" for number, kind in enumerate(TABS, 1)]
    place = TABS.index(model.trail[0].view.kind)
    if sum(map(len, names)) + GAP * len(names) + len("duly") > model.width:
        return _line(f"duly  < {names[place]} >", model.width, ACCENT)
    parts = (
        (f"{' ' * GAP}{name}", ACCENT if at == place else FAINT) for at, name in enumerate(names)
    )
    return Text.assemble(("duly", HEADING), *parts, no_wrap=True)


def _status(model: Model) -> Text:
    """The figures; if the store or server is lost, that."""
    if model.problem:
        return _line(f"! {model.problem}", model.width, ALARM)
    if model.silent_seconds >= SILENT_SECONDS:
        return _line(f"! no answer for {spelled(model.silent_seconds)}", model.width, ALARM)
    if model.figures is None:
        return _line("reading ...", model.width, FAINT)
    return _line("  ".join(_figures(model.figures)), model.width)


def _figures(found: Top) -> Iterator[str]:
    yield f"{found.completed_per_second:g}/s done"
    yield f"{found.failed_per_second:g}/s failed"
    yield f"{counted(found.due, found.counted_up_to)} due{_oldest(found)}"
    yield "1 worker" if len(found.workers) == 1 else f"{len(found.workers)} workers"
    yield f"{found.accepted_per_second:g}/s accepted"
    yield f"{counted(found.retries, found.counted_up_to)} to retry"
    yield f"{found.at.astimezone(UTC):%H:%M:%SZ}"


def _oldest(found: Top) -> str:
    if found.oldest_due_at is None:
        return ""
    seconds = max(0.0, (found.at - found.oldest_due_at).total_seconds())
    return f" (oldest {spelled(seconds)})"


def _title(model: Model) -> Text:
    view = model.view
    parts = [str(view.kind)]
    if view.name:
        parts.append(view.name)
    if view.kind in STATES:
        parts.append(f"state: {view.state or 'all'}")
    if view.text:
        parts.append(f"filter: {view.text}")
    if view.is_list and model.content is not None:
        parts.append(f"{len(model.rows)}{'+' if model.content.more else ''}")
    return _line("  ".join(parts), model.width, HEADING)


def _body(model: Model) -> Iterator[Text]:
    content = model.content
    if content is None:
        return
    if model.view.kind in RECORDS:
        shown = model.lines[model.spot.row : model.spot.row + model.room]
        yield from (_line(each, model.width) for each in shown)
        return
    needed = 1 + min(len(content.rows), model.room // 2)
    above = content.above[: max(model.room - needed, 0)]
    yield from (_line(each, model.width) for each in above)
    yield from _table(model, content, model.room - len(above))


def _table(model: Model, content: Content, room: int) -> Iterator[Text]:
    """The headings, and as many rows as fit around the selected one."""
    rows = _window(content.rows, model.spot.row, max(room - 1, 1))
    widths = _widths(content, [each for _, each in rows], model.width - GAP)
    yield _line(" " * GAP + _joined(content.headings, widths), model.width, FAINT)
    for place, row in rows:
        is_selected = place == model.spot.row
        style = f"{STYLES[row.tone]} reverse" if is_selected else STYLES[row.tone]
        mark = "> " if is_selected else "  "
        yield _line(mark + _joined(row.cells, widths), model.width, style)
    if not rows:
        yield _line(f"  {content.empty}", model.width, FAINT)


def _window(rows: Sequence[Row], selected: int, room: int) -> list[tuple[int, Row]]:
    first = max(0, min(selected - room // 2, len(rows) - room))
    return list(enumerate(rows))[first : first + room]


def _widths(content: Content, rows: Sequence[Row], width: int) -> list[int]:
    """The widths of the columns that fit, from the left; the last one may be cut."""
    found, left = list[int](), width
    for place, heading in enumerate(content.headings):
        natural = max(map(cell_len, (heading, *(row.cells[place] for row in rows))))
        if place < len(content.headings) - 1:
            natural = min(natural, max(LEAST_SHARE, width // 3))
        if left < min(natural, NARROWEST):
            break
        found.append(min(natural, left))
        left -= found[-1] + GAP
    return found


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (_fitted(each, width) for each, width in zip(cells, widths, strict=False))
    return (" " * GAP).join(fitted).rstrip()


def _fitted(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def _help(model: Model) -> Iterator[Text]:
    wide = max(len(keys) for keys, _ in HELP)
    for keys, meaning in HELP:
        yield _line(f"{keys:<{wide}}  {meaning}", model.width)


def _footer(model: Model) -> Text:
    if model.asked is not None:
        return _line(f"{model.asked.question} y/n", model.width, ALARM)
    if model.asks_to_leave:
        return _line(f"{model.running}. Stop it and leave? y/n", model.width, ALARM)
    if model.typed is not None:
        return _line(f"/{model.typed}_", model.width, ACCENT)
    if model.has_help:
        return _line("any key closes this", model.width, FAINT)
    return _line(model.message or model.running or HINTS, model.width, _footer_style(model))


def _footer_style(model: Model) -> str:
    return ACCENT if model.message or model.running else FAINT
