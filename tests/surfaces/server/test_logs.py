"""The log of a server on stderr: JSON, or text at a terminal."""

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


def test_a_record_of_any_logger_is_one_json_line_with_its_fields_and_traceback(shop: Home) -> None:
    with shop.running("work", "shop:app") as worker:
        logged = worker.wait_for("Tripped")
    assert datetime.fromisoformat(logged["at"]).tzinfo is not None
    assert (logged["level"], logged["logger"], logged["message"]) == ("error", "shop", "no luck")
    assert logged["place"] == 3
    assert re.match(
        r"Traceback .*\n.*ZeroDivisionError: division by zero", logged["exception"], re.S
    )


@pytest.mark.parametrize("coloured", [True, False])
def test_at_a_terminal_a_record_is_a_line_of_text(shop: Home, coloured: bool) -> None:
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


def test_a_record_is_one_line_of_json_whatever_its_characters() -> None:
    done = subprocess.run([sys.executable, "-c", SAID], capture_output=True, check=True)
    lines = [json.loads(each) for each in done.stderr.splitlines()]
    assert [each["message"] for each in lines] == ["two\nlines", "no text: caf\udce9", "it broke"]
    assert lines[2]["exception"].endswith("ValueError: caf\udce9")
    assert all(each["at"].endswith("Z") for each in lines)


async def test_a_completion_is_logged_only_at_debug(
    sqlite_home: Home,
) -> None:
    with sqlite_home.serving("--log-level", "debug") as server:
        assert server.wait_for("WorkerStarted")["message"].endswith("slots for log")
        id = await sqlite_home.deliver("log")
        logged = server.wait_for("DeliveryCompleted")
    assert (logged["level"], logged["delivery"], logged["target"]) == ("debug", id, "log")
    assert (logged["attempt"], logged["seconds"] >= 0) == (1, True)
    app = App(sqlite_home.database, environment={})
    # At other levels only these look at what was settled: the counts of targets and schedules,
    # turns, and who wakes others after a hand-back.
    counts, *others = app.engine().worker.settler._observers
    assert counts == app.rollup_writer.parts.note
    assert [each.__name__ for each in others] == ["settled", "_share_handed_back"]
    await app.close()


@pytest.mark.parametrize("by", ["environment", "app"])
async def test_a_level_hides_lower_levels_and_an_unknown_one_is_refused(
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
