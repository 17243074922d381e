"""The picture of `duly top`: fits any terminal, and text from outside cannot control it."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len
from rich.console import Console

from duly.records.status import Top
from duly.surfaces.cli.top.content import Content, Move, Row, Tone, Verb
from duly.surfaces.cli.top.drawing import drawn
from duly.surfaces.cli.top.model import Model, Spot
from duly.surfaces.cli.top.views import Kind, View

NOW = datetime(2026, 11, 16, 9, 8, 7, tzinfo=UTC)
FIGURES = Top(
    at=NOW,
    accepted_per_second=1.5,
    completed_per_second=2.5,
    failed_per_second=3.5,
    counted_up_to=10_000,
    due=10_000,
    oldest_due_at=NOW - timedelta(minutes=3),
    retries=5,
    workers=[],
)
HOSTILE = "evil\x1b]0;title\x07\x1b[2J\u202eemit\r\nnext"
LIST = Spot(View(Kind.STREAMS))
WIDE = "日本語" * 20


def rows(*names: str) -> tuple[Row, ...]:
    return tuple(Row(key=each, cells=(each, "blocked", "x" * 90), tone=Tone.BAD) for each in names)


def streams(*names: str, row: int = 0) -> Model:
    content = Content(headings=("name", "state", "error"), rows=rows(*names))
    return Model(trail=(Spot(View(Kind.STREAMS), row=row),), content=content, figures=FIGURES)


def picture(model: Model) -> list[str]:
    """The lines as a terminal of the model's size gets them."""
    file = io.StringIO()
    console = Console(file=file, width=model.width, height=model.height, color_system=None)
    console.print(drawn(model), end="")
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    "size", [(200, 60), (110, 30), (80, 24), (40, 10), (20, 5), (8, 3), (1, 1)]
)
@pytest.mark.parametrize("view", [View(Kind.STREAMS), View(Kind.STREAM, HOSTILE)])
@pytest.mark.parametrize("has_help", [False, True])
def test_it_fits_every_terminal(size: tuple[int, int], view: View, has_help: bool) -> None:
    content = Content(
        above=("above " * 30,) * 5,
        headings=("name", "state", "error"),
        rows=rows(*map(str, range(80)), WIDE, HOSTILE),
        lines=(WIDE, HOSTILE, "") * 30,
    )
    model = Model(trail=(LIST, Spot(view, row=81)), content=content, figures=FIGURES)
    model = replace(model, width=size[0], height=size[1], has_help=has_help, message=WIDE)
    lines = picture(model)
    assert len(lines) <= size[1]
    assert max(map(cell_len, lines)) <= size[0]


@pytest.mark.requirement("X5")
@pytest.mark.parametrize(
    "model",
    [
        streams(HOSTILE),
        replace(streams("a"), problem=HOSTILE),
        replace(streams("a"), message=HOSTILE),
        replace(streams("a"), typed=HOSTILE),
        replace(streams("a"), asked=Move(Verb.RETRY, Kind.STREAM, "a", HOSTILE)),
        replace(streams("a"), trail=(Spot(View(Kind.STREAMS, text=HOSTILE)),)),
        Model(
            trail=(LIST, Spot(View(Kind.STREAM, HOSTILE))),
            content=Content(lines=(HOSTILE,)),
            figures=FIGURES,
        ),
    ],
)
def test_text_from_outside_cannot_control_the_terminal(model: Model) -> None:
    text = "\n".join(picture(replace(model, width=200)))
    assert "evil\\x1b]0;title\\x07" in text
    assert "\\u202e" in text
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)


def test_markup_in_a_name_is_shown_as_it_is() -> None:
    assert any("[bold]x[/]" in line for line in picture(streams("[bold]x[/]")))


def test_the_selected_row_is_marked_and_in_sight() -> None:
    lines = picture(replace(streams(*(f"s{n}" for n in range(90)), row=77), height=10))
    (marked,) = [line for line in lines if line.startswith("> ")]
    assert marked.split()[1] == "s77"


def test_columns_that_do_not_fit_are_cut_or_left_out() -> None:
    (row,) = [each for each in picture(replace(streams("n" * 200), width=40)) if ">" in each[:1]]
    assert row == f"> {'n' * 19}…  blocked  xxxxxx…"
    (row,) = [each for each in picture(replace(streams("n" * 200), width=24)) if ">" in each[:1]]
    assert row == f"> {'n' * 19}…"


def test_the_figures_are_on_top_until_the_store_is_lost() -> None:
    assert picture(replace(streams("a"), width=110))[1].split("  ") == [
        "2.5/s done",
        "3.5/s failed",
        "10000 or more due (oldest 3m)",
        "0 workers",
        "1.5/s accepted",
        "5 to retry",
        "09:08:07Z",
    ]
    lost = picture(replace(streams("a"), problem="cannot reach it"))
    assert lost[1] == "! cannot reach it"
    assert any(line.startswith("> a") for line in lost)
    silent = replace(streams("a"), silent_seconds=65.0)
    assert picture(silent)[1] == "! no answer for 1m5s"


def test_an_empty_list_says_so() -> None:
    model = replace(streams(), content=Content(headings=("name",), empty="none match"))
    assert "  none match" in picture(model)


def test_a_small_terminal_names_the_list_it_shows() -> None:
    assert picture(replace(streams("a"), width=40))[0] == "duly  < 5 Streams >"
    assert "7 Workers" in picture(replace(streams("a"), width=110))[0]
