"""Under systemd, and as the first process of a container."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.surfaces.process.notify import for_systemd
from tests.surfaces.processes import DEADLINE_SECONDS, Home, children, environment
from tests.surfaces.server.test_start import HANGS, is_open

UNIT = Path(__file__).parents[3] / "deploy" / "duly.service"


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The address and the socket on which systemd would receive notifications."""
    mark, first = ("", "") if request.param == "path" else ("@", "\0")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(DEADLINE_SECONDS)
        listening.bind(f"{first}{tmp_path}/notify")
        yield f"{mark}{tmp_path}/notify", listening


@pytest.mark.requirement("S1", "D13")
def test_systemd_is_notified_of_the_start_the_heartbeats_and_the_stop(
    sqlite_home: Home, manager: tuple[str, socket.socket]
) -> None:
    address, socket_of_systemd = manager
    sqlite_home.write("shop.py", HANGS)
    asyncio.run(sqlite_home.deliver("hang"))
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000", "DULY_DRAIN": "0.5"}
    with sqlite_home.serving("shop:app", environ=environ) as server:
        assert after_heartbeats(socket_of_systemd) == f"READY=1\nSTATUS=listens on {server.url}"
        assert is_open(int(server.url.rpartition(":")[2]))
        assert [socket_of_systemd.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        assert after_heartbeats(socket_of_systemd) == "STOPPING=1"
        assert socket_of_systemd.recv(4096) == b"WATCHDOG=1"  # running deliveries may end
        assert server.end() == 0


def after_heartbeats(socket_of_systemd: socket.socket) -> str:
    """The next notification that is not a heartbeat."""
    while (notice := socket_of_systemd.recv(4096)) == b"WATCHDOG=1":
        pass
    return notice.decode()


def test_a_missing_socket_is_ignored(tmp_path: Path) -> None:
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with full:
        full.bind(f"{tmp_path}/full")
        for address in (f"{tmp_path}/nowhere", "@duly/nowhere", f"{tmp_path}/full", "vsock:1:2"):
            notices = for_systemd({"NOTIFY_SOCKET": address})
            for _ in range(1000):
                notices.alive()


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_used_only_if_it_is_for_this_process(
    given: dict[str, str], seconds: float | None
) -> None:
    assert for_systemd({"NOTIFY_SOCKET": "@here", **given}).watchdog == seconds


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    text = UNIT.read_text().replace("/opt/duly/bin/duly", sys.executable)
    (tmp_path / "duly.service").write_text(text)
    done = subprocess.run(
        [analyze, "verify", str(tmp_path / "duly.service")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "duly.service" not in done.stderr, done.stderr


ORPHANS = """
import logging, subprocess, duly
app = duly.App()

@app.handler("orphan")
def orphan(delivery):
    subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)
    logging.getLogger("shop").info("made", extra={"event": "Made"})
"""


@pytest.mark.requirement("S1", "D13")
def test_as_the_first_process_it_handles_signals_and_reaps_orphans(sqlite_home: Home) -> None:
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow a new PID namespace")
    sqlite_home.write("shop.py", ORPHANS)
    asyncio.run(sqlite_home.deliver("orphan"))
    with subprocess.Popen(
        [*alone, sys.executable, "-m", "duly", "serve", "shop:app", "--port", "0"],
        cwd=sqlite_home.folder,
        env=environment({"DULY_DATABASE": sqlite_home.database}),
        stderr=subprocess.PIPE,
        text=True,
    ) as outside:
        assert outside.stderr is not None
        for line in outside.stderr:
            if '"Made"' in line:
                break
        (first,) = children(outside.pid)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(children(first)) > 1:
            assert time.monotonic() < deadline, "an orphan was not reaped"
        os.kill(first, signal.SIGTERM)
        log = outside.stderr.read()
        assert outside.wait(DEADLINE_SECONDS) == 0
    assert '"WorkerStopped"' in log
