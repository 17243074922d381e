"""Schedules that left the code, with real processes: rolling deploys, commands and a client."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import duly
from tests.support.commands import DEADLINE_SECONDS
from tests.surfaces.processes import Home, Running, environment

pytestmark = pytest.mark.requirement("P9")

SHOP = """
import duly

app = duly.App()


@app.handler
async def work(delivery):
    pass
"""
WEEKLY = """

@app.schedule(duly.cron("0 0 1 1 *"), name="weekly")
@app.handler
async def send_weekly(delivery):
    pass
"""
DAILY = WEEKLY.replace("weekly", "daily")
WORKS = """
import asyncio


async def main():
    async with app.worker():
        pass


asyncio.run(main())
"""
PRUNES = {"DULY_PRUNE_SCHEDULES": "true"}


@pytest.fixture
def shared_home(tmp_path: Path, postgres_url: str) -> Home:
    """On PostgreSQL, where several processes may work at once."""
    return Home(tmp_path, postgres_url)


def deploy(home: Home, *parts: str, module: str = "shop") -> None:
    """Write a version of a program."""
    home.write(f"{module}.py", SHOP + "".join(parts))


def stop(server: Running) -> None:
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def start_and_stop(home: Home, *parts: str, module: str = "shop") -> None:
    """Deploy a version, start it and stop it."""
    deploy(home, *parts, module=module)
    with home.serving(f"{module}:app") as server:
        stop(server)


def run_script(home: Home, name: str, **environ: str) -> str:
    """Run a Python file to its end; returns its output."""
    done = subprocess.run(
        [sys.executable, name],
        cwd=home.folder,
        env=environment({"DULY_DATABASE": home.database, **environ}),
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def orphans(home: Home) -> list[str]:
    return [each["name"] for each in home.json("schedules", "orphans")["items"]]


def names(home: Home) -> list[str]:
    return [each["name"] for each in home.json("schedules", "list")["items"]]


def warnings(server: Running, event: str = "OrphansFound") -> list[list[str]]:
    """The schedules of the log lines of this event."""
    records = [json.loads(line) for line in server.log if line.startswith("{")]
    return [each["schedules"] for each in records if each.get("event") == event]


def test_a_start_warns_once_and_health_and_commands_name_what_left_the_code(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    assert orphans(home) == []
    deploy(home, DAILY)
    with home.serving("shop:app") as server:
        assert server.get("/health?verbose=true")[2]["orphaned_schedules"] == ["weekly"]
        stop(server)
    assert warnings(server) == [["weekly"]]
    (found,) = home.json("schedules", "orphans")["items"]
    assert (found["declared_in"], found["program"]) == ("shop.send_weekly", "shop")
    shown = home.ok("schedules", "orphans")
    assert "declared in" in shown
    assert "shop.send_weekly" in shown


def test_orphans_are_removed_after_a_confirmation_and_in_the_audit_trail(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    home.ok("schedules", "add", "by-hand", "shop.work", "--every", "1h")
    start_and_stop(home)
    remove = ("schedules", "orphans", "--remove")
    asked = home.duly(*remove)
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert "weekly, declared in shop.send_weekly" in asked.stderr
    assert home.ok(*remove, stdin="n\n") == "0 removed"
    assert orphans(home) == ["daily", "weekly"]
    assert home.json(*remove, "--yes") == {"removed": ["daily", "weekly"]}
    assert home.json(*remove, "--yes") == {"removed": []}
    assert (names(home), orphans(home)) == (["by-hand"], [])
    entries = home.json("audit")["items"]
    removed = {each["subject"] for each in entries if each["action"] == "schedule.removed"}
    assert removed == {"daily", "weekly"}


def test_pages_of_orphans_are_listed(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    start_and_stop(home)
    first = home.json("schedules", "orphans", "--limit", "1")
    assert ([each["name"] for each in first["items"]], first["next"]) == (["daily"], "daily")
    more = home.json("schedules", "orphans", "--after", first["next"])
    assert ([each["name"] for each in more["items"]], more["next"]) == (["weekly"], None)


def test_a_killed_removal_leaves_whole_schedules_and_can_be_repeated(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    start_and_stop(home)
    remove = ("schedules", "orphans", "--remove", "--yes")
    killed = home.process(*remove, environ={"DULY_FAILPOINTS": "schedule.middle=kill@2"})
    assert killed.returncode == -signal.SIGKILL
    assert names(home) == ["weekly"]
    assert home.json("schedules", "show", "weekly")["next_id"] is not None
    pending = home.json("deliveries", "list", "--state", "pending")["items"]
    assert [each["schedule"] for each in pending] == ["weekly"]
    assert home.json(*remove) == {"removed": ["weekly"]}


def test_the_setting_removes_them_at_the_start(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    deploy(home, DAILY)
    with home.serving("shop:app", environ=PRUNES) as server:
        assert server.get("/health?verbose=true")[2]["orphaned_schedules"] == []
        stop(server)
    assert (warnings(server, "OrphansRemoved"), warnings(server)) == ([["weekly"]], [])
    assert names(home) == ["daily"]


def test_while_an_old_process_lives_nothing_that_it_declares_is_removed(
    shared_home: Home,
) -> None:
    home = shared_home
    deploy(home, WEEKLY, DAILY)
    with home.serving("shop:app") as old:
        deploy(home, DAILY)
        with home.serving("shop:app", environ=PRUNES) as new:
            assert (names(home), orphans(home)) == (["daily", "weekly"], [])
            assert home.json("schedules", "orphans", "--remove", "--yes") == {"removed": []}
            stop(old)
            assert orphans(home) == ["weekly"]
            stop(new)
        assert warnings(new) == warnings(new, "OrphansRemoved") == []
    with home.serving("shop:app", environ=PRUNES) as later:
        stop(later)
    assert warnings(later, "OrphansRemoved") == [["weekly"]]
    assert names(home) == ["daily"]


def test_a_new_process_removes_them_when_the_last_old_one_has_ended(shared_home: Home) -> None:
    home = shared_home
    deploy(home, WEEKLY)
    with home.serving("shop:app") as old:
        deploy(home)
        environ = {**PRUNES, "DULY_SWEEP_INTERVAL": "1"}
        with home.serving("shop:app", environ=environ) as new:
            assert names(home) == ["weekly"]
            stop(old)
            assert new.wait_for("OrphansRemoved")["schedules"] == ["weekly"]
            assert names(home) == []


def test_a_killed_process_protects_its_schedules_no_longer_than_its_lease(
    shared_home: Home,
) -> None:
    home = shared_home
    deploy(home, WEEKLY)
    with home.serving("shop:app", environ={"DULY_LEASE": "0.5"}) as old:
        old.signal(signal.SIGKILL)
        old.end()
    deploy(home)
    with home.serving("shop:app") as new:
        found = new.health_when(lambda each: each["orphaned_schedules"] != [])
        assert found["orphaned_schedules"] == ["weekly"]


def test_an_old_process_does_not_create_a_removed_schedule_again(shared_home: Home) -> None:
    home = shared_home
    deploy(home, WEEKLY)
    with home.serving("shop:app", "--role", "api") as old:
        deploy(home)
        with home.serving("shop:app", environ=PRUNES) as new:
            assert names(home) == []
            stop(new)
        assert old.get("/v1/schedules")[2]["items"] == []
        stop(old)
    assert names(home) == []


def test_two_programs_share_a_namespace_and_keep_their_schedules(home: Home) -> None:
    start_and_stop(home, WEEKLY, module="mail")
    deploy(home, DAILY, module="reports")
    with home.serving("reports:app", environ=PRUNES) as server:
        stop(server)
    assert (names(home), orphans(home)) == (["daily", "weekly"], [])


def test_a_script_that_only_opens_the_app_decides_nothing(home: Home) -> None:
    start_and_stop(home, WEEKLY)
    deploy(home)
    home.write(
        "script.py",
        "import asyncio, shop\n"
        "async def main():\n"
        "    async with shop.app as app:\n"
        "        print([each.name for each in await app.schedules.list()])\n"
        "asyncio.run(main())\n",
    )
    assert run_script(home, "script.py", **PRUNES) == "['weekly']\n"
    assert orphans(home) == []


def test_a_program_that_is_run_as_a_script_is_the_same_as_when_it_is_served(home: Home) -> None:
    start_and_stop(home, WEEKLY)
    deploy(home, DAILY, WORKS)
    run_script(home, "shop.py")
    assert (names(home), orphans(home)) == (["daily", "weekly"], ["weekly"])


async def test_the_client_lists_and_removes_them(home: Home) -> None:
    start_and_stop(home, WEEKLY, DAILY)
    deploy(home)
    with home.serving("shop:app") as server:
        async with duly.Client(server.url) as client:
            found = await client.schedules.orphans(limit=1)
            assert [each.declared_in for each in found] == ["shop.send_daily"]
            (rest,) = await client.schedules.orphans(after="daily")
            assert rest.name == "weekly"
            assert await client.schedules.remove_orphans([]) == []
            assert await client.schedules.remove_orphans(["weekly", "unknown"]) == ["weekly"]
            assert await client.schedules.remove_orphans() == ["daily"]
            with pytest.raises(duly.InvalidInput, match="names"):
                await client.schedules.remove_orphans("daily")
        assert names(home) == []


def test_commands_list_and_remove_through_a_server(home: Home) -> None:
    start_and_stop(home, WEEKLY)
    deploy(home)
    with home.serving("shop:app") as server:
        through = ("--server", server.url)
        listed = home.json("schedules", "orphans", *through)["items"]
        assert [each["name"] for each in listed] == ["weekly"]
        removed = home.json("schedules", "orphans", "--remove", "--yes", *through)
        assert removed == {"removed": ["weekly"]}
    assert names(home) == []
