"""The state of `duly top`: what each key and each answer makes of it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from duly.records.status import Top
from duly.surfaces.cli.top.content import Content, Move, Row, Verb
from duly.surfaces.cli.top.events import (
    Moved,
    NotRead,
    Pressed,
    Progressed,
    Read,
    Resized,
    Stopped,
    Waited,
)
from duly.surfaces.cli.top.model import HELP, KEYS, Model, Spot, updated
from duly.surfaces.cli.top.views import MOST_ROWS, PAGE_ROWS, TABS, Kind, View

FIGURES = Top(
    at=datetime(2026, 11, 16, 9, tzinfo=UTC),
    accepted_per_second=1.0,
    completed_per_second=2.0,
    failed_per_second=3.0,
    counted_up_to=10_000,
    due=4,
    oldest_due_at=None,
    retries=5,
    workers=[],
)
RETRY = Move(Verb.RETRY, Kind.STREAM, "b")
BULK = Move(Verb.RETRY, Kind.GROUP, "b", "Retry 3 dead letters?")
PAUSE = Move(Verb.PAUSE, Kind.STREAM, "b")


def row(key: str, **more: object) -> Row:
    return Row(key=key, cells=(key,), opens=View(Kind.STREAM, key), **more)  # type: ignore[arg-type]


def listing(*rows: Row, view: View | None = None, more: bool = False) -> Model:
    """The list of streams, as it was read."""
    view = view or View(Kind.STREAMS)
    content = Content(headings=("name",), rows=rows, more=more)
    return updated(Model(trail=(Spot(view),)), Read(view, content, FIGURES))


def record(lines: int, **more: object) -> Model:
    view = View(Kind.STREAM, "b")
    content = Content(lines=tuple(map(str, range(lines))), **more)  # type: ignore[arg-type]
    return updated(
        Model(trail=(Spot(View(Kind.STREAMS)), Spot(view)), height=14), Read(view, content, FIGURES)
    )


def press(model: Model, *keys: str) -> Model:
    for key in keys:
        model = updated(model, Pressed(key))
    return model


THREE = (row("a"), row("b", retry=RETRY, pause=PAUSE), row("c", retry=BULK))


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        ((), "a"),
        (("j",), "b"),
        (("down", "down", "k"), "b"),
        (("up",), "a"),
        (("G",), "c"),
        (("G", "j"), "c"),
        (("end", "home"), "a"),
        (("page_down",), "c"),
        (("page_down", "page_up"), "a"),
    ],
)
def test_keys_move_the_selection_within_the_list(keys: tuple[str, ...], selected: str) -> None:
    found = press(listing(*THREE), *keys).selected
    assert found is not None
    assert found.key == selected


def test_the_selected_row_stays_selected_when_the_list_changes() -> None:
    model = press(listing(*THREE), "j")
    content = Content(rows=(row("new"), *THREE))
    assert updated(model, Read(model.view, content, FIGURES)).spot.row == 2


def test_a_selected_row_that_is_gone_leaves_the_nearest_selected() -> None:
    model = press(listing(*THREE), "G")
    model = updated(model, Read(model.view, Content(rows=THREE[:2]), FIGURES))
    assert model.selected == THREE[1]
    model = updated(model, Read(model.view, Content(), FIGURES))
    assert (model.selected, model.spot.row) == (None, 0)


def test_an_answer_for_another_view_is_dropped() -> None:
    model = press(listing(*THREE), "2")
    later = updated(model, Read(View(Kind.STREAMS), Content(rows=THREE), FIGURES))
    assert later.content is None
    assert updated(model, NotRead(View(Kind.STREAMS), "lost")).problem == ""


@pytest.mark.parametrize(("key", "kind"), [(str(n), kind) for n, kind in enumerate(TABS, 1)])
def test_numbers_switch_between_the_lists(key: str, kind: Kind) -> None:
    assert press(listing(*THREE), key).view == View(kind)


def test_arrows_and_tab_switch_to_the_next_list_and_around() -> None:
    model = Model()
    assert press(model, "right").view.kind is TABS[1]
    assert press(model, "left").view.kind is TABS[-1]
    assert press(model, *["tab"] * len(TABS)).view == model.view
    assert press(model, "tab", "back_tab").view == model.view


def test_enter_opens_the_selected_row_and_escape_returns_to_it() -> None:
    inside = press(listing(*THREE), "j", "enter")
    assert (inside.view, inside.content) == (View(Kind.STREAM, "b"), None)
    back = press(inside, "escape")
    assert back.view == View(Kind.STREAMS)
    assert updated(back, Read(back.view, Content(rows=THREE), FIGURES)).selected == THREE[1]
    assert press(listing(), "enter").view == View(Kind.STREAMS)


def test_the_filter_is_typed_edited_and_applied_by_enter() -> None:
    typing = press(listing(*THREE), "/", "q", "j", "é", "backspace", " ", "x")
    assert (typing.typed, typing.view.text) == ("qj x", "")
    done = press(typing, "enter")
    assert (done.typed, done.view.text, done.content) == (None, "qj x", None)
    assert press(done, "/").typed == "qj x"
    assert press(done, "/", "clear", "enter").view.text == ""
    assert press(done, "/", "z", "escape").view.text == "qj x"
    assert press(done, "escape").view.text == ""


def test_only_lists_are_filtered() -> None:
    model = press(record(3), "/")
    assert (model.typed, model.message) == (None, "only lists can be filtered")


def test_s_goes_through_the_states() -> None:
    model, seen = press(Model(), "5"), list[str]()
    for _ in range(3):
        model = press(model, "s")
        seen.append(model.view.state)
    assert seen == ["blocked", "paused", ""]
    assert "deliveries and streams" in press(Model(), "4", "s").message


def test_a_move_without_a_question_is_ordered_at_once() -> None:
    assert press(listing(*THREE), "j", "r").ordered == RETRY
    assert press(listing(*THREE), "j", "p").ordered == PAUSE
    assert press(record(3, retry=RETRY, pause=PAUSE), "p").ordered == PAUSE


@pytest.mark.parametrize(("reply", "ordered"), [("y", BULK), ("n", None), ("enter", None)])
def test_a_move_with_a_question_is_ordered_only_after_yes(reply: str, ordered: Move | None) -> None:
    asking = press(listing(*THREE), "G", "r")
    assert (asking.asked, asking.ordered) == (BULK, None)
    answered = press(asking, reply)
    assert (answered.asked, answered.ordered) == (None, ordered)
    assert (answered.message == "nothing was changed") is (ordered is None)


def test_a_list_that_changes_does_not_change_the_question() -> None:
    asking = press(listing(*THREE), "G", "r")
    asking = updated(asking, Read(asking.view, Content(rows=THREE[:1]), FIGURES))
    assert press(asking, "y").ordered == BULK


def test_a_row_without_moves_says_so() -> None:
    assert press(listing(*THREE), "r").message == "there is nothing to retry here"
    assert "can be paused" in press(listing(*THREE), "p").message
    assert press(listing(), "r").ordered is None


def test_one_move_runs_at_a_time_and_leaving_asks_first() -> None:
    model = updated(press(listing(*THREE), "j"), Progressed("retrying: 1 of 3"))
    assert press(model, "r").ordered is None
    assert press(model, "r").message == "wait for the end of: retrying: 1 of 3"
    assert not press(model, "q").is_leaving
    assert press(model, "q", "y").is_leaving
    assert not press(model, "q", "n").asks_to_leave
    ended = updated(model, Moved("3 retried"))
    assert (ended.running, ended.message) == ("", "3 retried")
    assert press(ended, "j").message == ""


def test_q_and_a_signal_leave() -> None:
    assert press(Model(), "q").is_leaving
    assert updated(press(listing(*THREE), "/"), Stopped()).is_leaving
    assert not press(listing(*THREE), "/", "q").is_leaving


def test_the_end_of_a_list_makes_it_longer_up_to_a_limit() -> None:
    model = press(listing(*THREE, more=True), "G")
    assert (model.view.limit, model.spot.key) == (3 * PAGE_ROWS, "c")
    assert press(listing(more=True), "j").view.limit == 3 * PAGE_ROWS
    full = listing(*THREE, view=View(Kind.STREAMS, limit=MOST_ROWS), more=True)
    assert press(full, "G").view.limit == MOST_ROWS
    assert "/ filters" in press(full, "G").message
    assert press(listing(*THREE), "G").view.limit == PAGE_ROWS


def test_a_record_scrolls_between_its_first_and_last_line() -> None:
    model = record(25)
    assert press(model, "j").spot.row == 1
    assert press(model, "k").spot.row == 0
    assert press(model, "G").spot.row == 25 - 10
    assert press(model, "G", "page_up").spot.row == 5
    taller = updated(press(model, "G"), Resized(80, 34))
    assert taller.spot.row == 0


def test_a_lost_store_is_a_problem_until_it_answers() -> None:
    model = updated(listing(*THREE), NotRead(View(Kind.STREAMS), "no store"))
    assert (model.problem, model.rows) == ("no store", THREE)
    model = updated(model, Waited(7.5))
    assert model.silent_seconds == 7.5
    model = updated(model, Read(model.view, Content(rows=THREE), FIGURES))
    assert (model.problem, model.silent_seconds) == ("", 0.0)


def test_help_is_shown_until_any_key() -> None:
    helped = press(listing(*THREE), "?")
    assert helped.has_help
    assert press(helped, "q") == replace(helped, has_help=False)


def test_help_names_every_letter_that_does_something() -> None:
    text = " ".join(keys + " " + meaning for keys, meaning in HELP)
    letters = {key for key in KEYS if len(key) == 1 and not key.isspace()} - {"l", "h", "Q", "?"}
    assert {each for each in letters if each not in text} == set()
