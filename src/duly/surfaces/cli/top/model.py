"""The state of `duly top`, and what each event makes of it; without a terminal or a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from duly.records.status import Top
from duly.surfaces.cli.top.content import Content, Move, Row, folded
from duly.surfaces.cli.top.events import (
    Event,
    Moved,
    NotRead,
    Pressed,
    Progressed,
    Read,
    Resized,
    Stopped,
    Waited,
)
from duly.surfaces.cli.top.views import MOST_ROWS, PAGE_ROWS, RECORDS, STATES, TABS, Kind, View

CHROME_LINES = 4
"""Tabs, figures, title and footer."""
MORE_ROWS = 3
"""How much longer a list becomes when its end is reached: so many times."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A view and the place in it: the selected row, or the first line of a record.

    `key` is that of the selected row, which stays selected when rows come and go.
    """

    view: View
    row: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Everything that is drawn. The last spot of the trail is shown; Escape leads back along it.

    `typed` is the filter while it is edited, `asked` the move that waits for a yes, `ordered` the
    one to run next, and `running` describes the one under way.
    """

    trail: tuple[Spot, ...] = (Spot(View(Kind.OVERVIEW)),)
    content: Content | None = None
    figures: Top | None = None
    width: int = 80
    height: int = 24
    typed: str | None = None
    asked: Move | None = None
    ordered: Move | None = None
    running: str = ""
    message: str = ""
    problem: str = ""
    silent_seconds: float = 0.0
    has_help: bool = False
    asks_to_leave: bool = False
    is_leaving: bool = False

    @property
    def spot(self) -> Spot:
        """Where the user is."""
        return self.trail[-1]

    @property
    def view(self) -> View:
        """What is shown."""
        return self.spot.view

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that were read, if any."""
        return () if self.content is None else self.content.rows

    @property
    def selected(self) -> Row | None:
        """The row that the keys act on."""
        return self.rows[self.spot.row] if self.spot.row < len(self.rows) else None

    @property
    def lines(self) -> list[str]:
        """The lines of a record, as wide as the terminal."""
        return [] if self.content is None else folded(self.content.lines, self.width)

    @property
    def room(self) -> int:
        """How many lines there are between title and footer."""
        return max(self.height - CHROME_LINES, 1)


def updated(model: Model, event: Event) -> Model:
    """The state after an event."""
    match event:
        case Pressed(key):
            return pressed(model, key)
        case Resized(width, height):
            return _scrolled(replace(model, width=width, height=height), 0)
        case Read() if event.view == model.view:
            return _read(model, event)
        case NotRead(view, problem) if view == model.view:
            return replace(model, problem=problem)
        case Waited(seconds):
            return replace(model, silent_seconds=seconds)
        case Progressed(text):
            return replace(model, running=text)
        case Moved(text):
            return replace(model, running="", message=text)
        case Stopped():
            return replace(model, is_leaving=True)
    return model


def _read(model: Model, answer: Read) -> Model:
    model = replace(
        model, content=answer.content, figures=answer.figures, problem="", silent_seconds=0.0
    )
    if model.view.kind in RECORDS:
        return _scrolled(model, 0)
    keys = [each.key for each in model.rows]
    key = model.spot.key
    return _selected(model, keys.index(key) if key in keys else model.spot.row)


def pressed(model: Model, key: str) -> Model:
    """The state after a key."""
    if model.has_help:
        return replace(model, has_help=False)
    if model.asked is not None or model.asks_to_leave:
        return _answered(model, key in ("y", "Y"))
    if model.typed is not None:
        return _typed(model, model.typed, key)
    model = replace(model, message="")
    if key.isdigit() and 1 <= int(key) <= len(TABS):
        return _shown(model, View(TABS[int(key) - 1]))
    return KEYS[key](model) if key in KEYS else model


def _answered(model: Model, is_yes: bool) -> Model:
    asked, leaves = model.asked, model.asks_to_leave
    model = replace(model, asked=None, asks_to_leave=False)
    if not is_yes:
        return replace(model, message="nothing was changed")
    return replace(model, is_leaving=True) if leaves else replace(model, ordered=asked)


def _typed(model: Model, text: str, key: str) -> Model:
    match key:
        case "enter":
            model = replace(model, typed=None)
            return _replaced(model, replace(model.view, text=text.strip(), limit=PAGE_ROWS))
        case "escape":
            return replace(model, typed=None)
        case "backspace":
            return replace(model, typed=text[:-1])
        case "clear":
            return replace(model, typed="")
    return replace(model, typed=text + key) if len(key) == 1 else model


def _shown(model: Model, view: View) -> Model:
    """Switch to a view; the way back begins anew."""
    return replace(model, trail=(Spot(view),), content=None, problem="")


def _replaced(model: Model, view: View) -> Model:
    """Show another part of the same list, from its beginning."""
    if view == model.view:
        return model
    return replace(model, trail=(*model.trail[:-1], Spot(view)), content=None, problem="")


def _entered(model: Model) -> Model:
    row = model.selected
    if row is None or row.opens is None:
        return model
    return replace(model, trail=(*model.trail, Spot(row.opens)), content=None, problem="")


def _back(model: Model) -> Model:
    if len(model.trail) > 1:
        return replace(model, trail=model.trail[:-1], content=None, problem="")
    if model.view.text:
        return _replaced(model, replace(model.view, text="", limit=PAGE_ROWS))
    return model


def _tab(model: Model, step: int) -> Model:
    place = TABS.index(model.trail[0].view.kind)
    return _shown(model, View(TABS[(place + step) % len(TABS)]))


def _state(model: Model) -> Model:
    states = STATES.get(model.view.kind)
    if states is None:
        return replace(model, message="s chooses the state of deliveries and streams")
    following = states[(states.index(model.view.state) + 1) % len(states)]
    return _replaced(model, replace(model.view, state=following, limit=PAGE_ROWS))


def _filter(model: Model) -> Model:
    if not model.view.is_list:
        return replace(model, message="only lists can be filtered")
    return replace(model, typed=model.view.text)


def _moved(model: Model, step: int) -> Model:
    """Move the selection, or scroll; at its end, a list becomes longer."""
    if model.view.kind in RECORDS:
        return _scrolled(model, step)
    moved = _selected(model, model.spot.row + step)
    at_end = step > 0 and moved.spot.row >= len(model.rows) - 1
    return _longer(moved) if at_end and model.content and model.content.more else moved


def _longer(model: Model) -> Model:
    view = model.view
    if view.limit >= MOST_ROWS:
        return replace(model, message=f"{MOST_ROWS} are shown at most; / filters")
    view = replace(view, limit=min(view.limit * MORE_ROWS, MOST_ROWS))
    return replace(model, trail=(*model.trail[:-1], replace(model.spot, view=view)))


def _selected(model: Model, row: int) -> Model:
    row = max(0, min(row, len(model.rows) - 1))
    key = model.rows[row].key if model.rows else ""
    return replace(model, trail=(*model.trail[:-1], replace(model.spot, row=row, key=key)))


def _scrolled(model: Model, step: int) -> Model:
    if model.view.kind not in RECORDS:
        return model
    row = max(0, min(model.spot.row + step, len(model.lines) - model.room))
    return replace(model, trail=(*model.trail[:-1], replace(model.spot, row=row)))


def _retry(model: Model) -> Model:
    found = model.selected or model.content
    move = None if found is None else found.retry
    return _ordered(model, move, "there is nothing to retry here")


def _pause(model: Model) -> Model:
    found = model.selected or model.content
    move = None if found is None else found.pause
    return _ordered(model, move, "schedules, streams, endpoints and workers can be paused")


def _ordered(model: Model, move: Move | None, otherwise: str) -> Model:
    if move is None:
        return replace(model, message=otherwise)
    if model.running:
        return replace(model, message=f"wait for the end of: {model.running}")
    return replace(model, asked=move) if move.question else replace(model, ordered=move)


def _leave(model: Model) -> Model:
    return replace(model, asks_to_leave=True) if model.running else replace(model, is_leaving=True)


def _help(model: Model) -> Model:
    return replace(model, has_help=True)


FAR = 10**6
KEYS: dict[str, Callable[[Model], Model]] = {
    **dict.fromkeys(("up", "k"), lambda model: _moved(model, -1)),
    **dict.fromkeys(("down", "j"), lambda model: _moved(model, 1)),
    "page_up": lambda model: _moved(model, -model.room),
    **dict.fromkeys(("page_down", " "), lambda model: _moved(model, model.room)),
    **dict.fromkeys(("home", "g"), lambda model: _moved(model, -FAR)),
    **dict.fromkeys(("end", "G"), lambda model: _moved(model, FAR)),
    **dict.fromkeys(("right", "l", "tab"), lambda model: _tab(model, 1)),
    **dict.fromkeys(("left", "h", "back_tab"), lambda model: _tab(model, -1)),
    **dict.fromkeys(("escape", "backspace"), _back),
    "enter": _entered,
    "/": _filter,
    "s": _state,
    "r": _retry,
    "p": _pause,
    "?": _help,
    **dict.fromkeys(("q", "Q"), _leave),
}
HELP = (
    ("1-7, left, right", "switch between the lists"),
    ("up, down, j, k", "select a row, or scroll"),
    ("page up, page down", "a screen at a time; g and G: first and last"),
    ("Enter, Escape", "open what is selected, and go back"),
    ("/", "filter: text, or target:NAME stream:NAME tag:NAME reason:NAME"),
    ("s", "choose the state of deliveries and streams"),
    ("r", "retry a delivery, a group of dead letters, or the head of a stream"),
    ("p", "pause or resume a schedule, stream, endpoint or worker"),
    ("q, Ctrl-C", "leave"),
)
"""What the keys do, in words."""
