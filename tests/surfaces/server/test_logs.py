"""What a server writes to stderr: JSON for programs, lines for people."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from datetime import datetime

import pytest

from duly import App
from tests.support.forks import start
from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment

pytestmark = pytest.mark.requirement("S3")

SHOP = """
import logging, duly
app = duly.App()

@app.handler("trip")
async def trip(delivery):
    try:
        1 / 0
    except ZeroDivisionError:
        facts = {"place": 3}
        extra = {"event": "Tripped", "facts": facts}
        logging.getLogger("shop").exception("no %s", "luck", extra=extra)
"""


SAID = """
import logging
from duly.surfaces.cli.server.log_format import configure
configure()
log = logging.getLogger("mine")
log.info("two\\nlines")
log.info("no text: caf\\udce9")
try:
    raise ValueError("caf\\udce9")
except ValueError:
    log.exception("it broke", extra={"facts": {"file": "caf\\udce9"}})
"""


@pytest.fixture
async def shop(sqlite_home: Home) -> Home:
    sqlite_home.write("shop.py", SHOP)
    await sqlite_home.deliver("trip")
    return sqlite_home


def test_a_record_of_anybodys_is_one_json_line_with_its_facts_and_trace(shop: Home) -> None:
    with shop.running("work", "shop:app") as worker:
        told = worker.wait_for("Tripped")
    assert datetime.fromisoformat(told["at"]).tzinfo is not None
    assert (told["level"], told["logger"], told["message"]) == ("error", "shop", "no luck")
    assert told["place"] == 3
    assert re.match(r"Traceback .*\n.*ZeroDivisionError: division by zero", told["exception"], re.S)


@pytest.mark.parametrize("coloured", [True, False])
def test_at_a_terminal_it_is_a_line_for_people(shop: Home, coloured: bool) -> None:
    wanted = environment({"DULY_DATABASE": shop.database, "NO_COLOR": ""})
    if coloured:
        del wanted["NO_COLOR"]
    ours, its = pty.openpty()
    with start("duly", "work", "shop:app", stderr=its, cwd=shop.folder, env=wanted) as worker:
        seen, deadline = b"", time.monotonic() + DEADLINE_SECONDS
        while b"ZeroDivisionError" not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(ours, 65536)
        worker.kill()
    os.close(its)
    os.close(ours)
    assert re.search(rb"\d\d:\d\d:\d\d\S* \S*error   no luck\r\n  Traceback", seen)
    assert (b"\x1b[31m" in seen) == coloured


def test_each_is_one_line_of_json_whatever_characters_it_has() -> None:
    done = subprocess.run([sys.executable, "-c", SAID], capture_output=True, check=True)
    lines = [json.loads(each) for each in done.stderr.splitlines()]
    assert [each["message"] for each in lines] == ["two\nlines", "no text: caf\udce9", "it broke"]
    assert lines[2]["exception"].endswith("ValueError: caf\udce9")
    assert all(each["at"].endswith("Z") for each in lines)


async def test_a_completion_is_logged_at_debug_and_costs_nothing_otherwise(
    sqlite_home: Home,
) -> None:
    with sqlite_home.serving("--log-level", "debug") as server:
        assert server.wait_for("WorkerStarted")["message"].endswith("slots for log")
        id = await sqlite_home.deliver("log")
        told = server.wait_for("DeliveryCompleted")
    assert (told["level"], told["delivery"], told["target"]) == ("debug", id, "log")
    assert (told["attempt"], told["seconds"] >= 0) == (1, True)
    app = App(sqlite_home.database, environment={})
    assert not app.engine().worker.settler._observers
    await app.close()


@pytest.mark.parametrize("by", ["environment", "app"])
async def test_a_level_leaves_out_what_is_below_it_and_a_strange_one_is_refused(
    shop: Home, by: str
) -> None:
    quiet = {"DULY_LOG_LEVEL": "error"} if by == "environment" else {}
    if by == "app":
        shop.write("shop.py", SHOP.replace("App()", 'App(log_level="error")'))
    with shop.running("work", "shop:app", environ=quiet) as worker:
        worker.wait_for("Tripped")
        worker.signal(signal.SIGTERM)
        worker.end()
    assert {json.loads(line)["level"] for line in worker.log} == {"error"}
    refused = shop.process("serve", "--log-level", "loud")
    assert refused.returncode == 2
    assert "log_level: 'loud' from flag is not valid; give debug, info, warning" in refused.stderr
