"""`duly top` at a terminal: a real process, keys, and what its screen shows."""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import run_until_idle
from tests.support.postgres import Server
from tests.surfaces.processes import Home
from tests.surfaces.top.pseudo_terminal import PseudoTerminal

WAYS_TO_LEAVE = {
    "q": lambda terminal: terminal.press("xq"),
    "ctrl-c": lambda terminal: terminal.process.send_signal(signal.SIGINT),
    "sigterm": lambda terminal: terminal.process.send_signal(signal.SIGTERM),
}


@pytest.mark.requirement("S6")
@pytest.mark.parametrize("leave", WAYS_TO_LEAVE)
async def test_it_runs_until_the_user_leaves_and_restores_the_terminal(
    home: Home, leave: str
) -> None:
    await home.know("log")
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("duly  1 Overview", "nothing needs attention", "q leave")
        assert not terminal.is_restored
        WAYS_TO_LEAVE[leave](terminal)
        assert terminal.end() == 0
        assert terminal.is_restored


async def add_dead_letters(app: App, count: int, error: str = "no route") -> list[str]:
    """Dead letters with the same error."""

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        raise ValueError(error)

    ids = [(await app.deliver("fails", number)).id for number in range(count)]
    await run_until_idle(app)
    return ids


@pytest.mark.requirement("S5", "F4")
async def test_a_group_of_dead_letters_is_retried_after_a_yes(home: Home) -> None:
    async with home.app() as app:
        ids = await add_dead_letters(app, 3)
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("3 dead letters need a decision")
        terminal.press("3")
        terminal.wait_for("no route")
        terminal.press("r")
        terminal.wait_for("Retry 3 dead letters of fails? y/n")
        terminal.press("n")
        terminal.wait_for("nothing was changed")
        assert {(await home.find(id)).state for id in ids} == {"dead"}
        terminal.press("ry")
        terminal.wait_for("3 retried", "  none")
    assert {(await home.find(id)).state for id in ids} == {"pending"}


@pytest.mark.requirement("S5", "F4")
async def test_enter_leads_from_what_needs_attention_to_one_dead_letter(home: Home) -> None:
    async with home.app() as app:
        (first, second) = await add_dead_letters(app, 2)
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("dead letters need a decision")
        terminal.press("\r")
        terminal.wait_for("Dead letters  1", "no route")
        terminal.press("\r")
        terminal.wait_for("Group", f"> {second[:18]}", first[:18])
        terminal.press("\x1b[B\r")
        terminal.wait_for(f"Delivery  {first}", "fingerprint")
        terminal.press("r")
        terminal.wait_for(f"{first} pending")
        terminal.press("\x1b")
        terminal.wait_for("Group", without=first[:18])
    assert (await home.find(first)).state == "pending"
    assert (await home.find(second)).state == "dead"


async def add_pausable(app: App) -> None:
    await app.schedule("nightly", duly.every(3600), "log")
    await app.endpoints.add("billing", "https://example.org/hook")
    for number in range(2):
        await app.deliver("log", number, stream="orders", after=3600)


async def paused(app: App) -> list[bool]:
    schedule = await app.schedules.get("nightly")
    stream, endpoint = await app.streams.get("orders"), await app.endpoints.get("billing")
    return [schedule.paused_at is not None, stream.state == "paused", endpoint.state == "paused"]


@pytest.mark.requirement("S5", "F7")
@pytest.mark.parametrize("through_server", [False, True])
async def test_p_pauses_and_resumes(home: Home, through_server: bool) -> None:
    async with home.app() as app:
        await add_pausable(app)
    with ExitStack() as stack:
        where = list[str]()
        if through_server:
            where = ["--server", stack.enter_context(home.serving()).url]
        environ = {"NO": "database"} if through_server else None
        terminal = stack.enter_context(PseudoTerminal(home, *where, environ=environ))
        terminal.wait_for("q leave")
        for page, name in (("4", "nightly"), ("5", "orders"), ("6", "billing")):
            terminal.press(page)
            terminal.wait_for(f"> {name}")
            terminal.press("p")
            terminal.wait_for(f"{name} paused")
        async with home.app() as app:
            assert await paused(app) == [True, True, True]
        terminal.press("4")
        terminal.wait_for("nightly  paused")
        terminal.press("p")
        terminal.wait_for("nightly active")
        terminal.press("5")
        terminal.wait_for("orders  paused")
        terminal.press("p")
        terminal.wait_for("Resume orders? 2 deliveries wait for it. y/n")
        terminal.press("y")
        terminal.wait_for("orders waiting")
        async with home.app() as app:
            assert await paused(app) == [False, False, True]


@pytest.mark.requirement("S6")
async def test_a_filter_limits_the_list_and_a_bad_one_is_explained(home: Home) -> None:
    async with home.app() as app:
        await app.deliver("log", "blue whale", after=3600)
        await app.deliver("log", "red ant", after=3600, tags=["small"])
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("q leave")
        terminal.press("2")
        terminal.wait_for("Deliveries  state: all  2")
        terminal.press("/whale\r")
        terminal.wait_for("filter: whale  1")
        terminal.press("/\x15tag:small\r")
        terminal.wait_for("filter: tag:small  1")
        terminal.press("/\x15fingerprint:x\r")
        terminal.wait_for("! filter: fingerprint: does not apply here")
        terminal.press("\x1b")
        terminal.wait_for("Deliveries  state: all  2")
        terminal.press("s")
        terminal.wait_for("state: pending  2")
        terminal.press("s")
        terminal.wait_for("state: processing  0", "  none")


@pytest.mark.requirement("S6", "X5")
async def test_an_error_with_control_characters_stays_text_in_a_small_terminal(home: Home) -> None:
    async with home.app() as app:
        await add_dead_letters(app, 2, "bad\x1b[2J\x1b]0;title\x07")
    with PseudoTerminal(home, width=40, height=10) as terminal:
        terminal.wait_for("< 1 Overview >", "> 2 dead letters need a decision", "? keys")
        terminal.press("2")
        terminal.wait_for("< 2 Deliveries >", "dead")
        terminal.press("\r")
        terminal.wait_for("Delivery", "namespace")
        terminal.press("j" * 14)
        terminal.wait_for("bad\\x1b[2J\\x1b")
        terminal.resize(110, 30)
        terminal.wait_for("7 Workers", "bad\\x1b[2J\\x1b]0;title\\x07")
        terminal.resize(12, 3)
        terminal.wait_for("? keys  / f…", without="duly")
        terminal.press("q")
        assert terminal.end() == 0
    assert b"bad\x1b" not in terminal.output


@pytest.mark.long
@pytest.mark.requirement("S6")
async def test_a_lost_server_is_shown_until_it_is_back(home: Home) -> None:
    await home.know("log")
    with ExitStack() as stack:
        first = stack.enter_context(home.serving())
        port = first.url.rpartition(":")[2]
        terminal = stack.enter_context(
            PseudoTerminal(home, "--server", first.url, environ={"NO": "database"})
        )
        terminal.wait_for("1 worker ", "nothing needs attention")
        first.signal(signal.SIGKILL)
        first.end()
        terminal.wait_for("! trying again: cannot reach", "nothing needs attention")
        await home.lease_ran_out()
        with home.running("serve", "--port", port) as second:
            second.wait_for("Serving")
            terminal.wait_for("1 worker ", without="trying again")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored


@pytest.mark.requirement("S6")
async def test_a_lost_database_is_shown_until_it_is_back(
    tmp_path: Path, own_postgres: Server
) -> None:
    home = Home(tmp_path, await own_postgres.create_database("top"))
    home.ok("migrate", "up")
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("0 workers", "nothing needs attention")
        own_postgres.stop("immediate")
        terminal.wait_for("! trying again: ", "nothing needs attention")
        own_postgres.start()
        terminal.wait_for("0 workers", without="! ")
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.requirement("S6")
async def test_a_suspended_command_gives_the_terminal_back_meanwhile(home: Home) -> None:
    await home.know("log")
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("nothing needs attention")
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.wait_until_stopped()
        assert terminal.is_restored
        terminal.process.send_signal(signal.SIGCONT)
        terminal.press("2")
        terminal.wait_for("Deliveries  state: all  0")
        assert not terminal.is_restored
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored


@pytest.mark.requirement("S6")
async def test_an_unexpected_error_ends_it_and_restores_the_terminal(home: Home) -> None:
    await home.know("log")
    with PseudoTerminal(home) as terminal:
        terminal.wait_for("nothing needs attention")
        await home.execute("drop table duly.alerts")
        assert terminal.end() == 1
        assert terminal.is_restored


@pytest.mark.requirement("S5")
async def test_a_key_that_may_only_read_sees_why_it_cannot_pause(home: Home) -> None:
    async with home.app() as app:
        await add_pausable(app)
    key = home.ok("keys", "create", "reader", "--scope", "read")
    with (
        home.serving() as server,
        PseudoTerminal(home, "--server", server.url, environ={"DULY_KEY": key}) as terminal,
    ):
        terminal.wait_for("q leave")
        terminal.press("4")
        terminal.wait_for("> nightly")
        terminal.press("p")
        terminal.wait_for("error: key: ")
    async with home.app() as app:
        assert await paused(app) == [False, False, False]
