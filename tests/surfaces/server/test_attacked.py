"""A real server under attack: it answers, delivers, does not grow, and logs the attack."""

import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running

pytestmark = pytest.mark.long

LIMIT, STRANGERS, DELIVERIES = 400, 600, 40
SHOP = f"""
import os, resource, duly
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
app = duly.App()

@app.handler("note")
async def note(delivery):
    with open(f"noted-{{delivery.payload}}", "w") as file:
        file.write("here")
"""
HALF = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-half: "
HEADERS = b"".join(b"x-%d: %s\r\n" % (number, b"a" * 50) for number in range(1000))
ENDLESS_BYTES = 64_000_000
GROWTH_BYTES = 40_000_000


@pytest.mark.requirement("X1", "X2", "S3")
def test_half_requests_and_endless_headers_do_not_stop_the_server(home: Home) -> None:
    home.write("shop.py", SHOP)
    with home.serving("shop:app") as server, ExitStack() as strangers:
        assert server.wait_for("DescriptorsShort")["limit"] == LIMIT
        before = peak_bytes(server)
        for _ in range(STRANGERS):
            strangers.enter_context(connected(server)).sendall(HALF)
        endless = strangers.enter_context(connected(server))
        assert sent_of_endless_head(endless) < ENDLESS_BYTES
        assert b" 431 " in endless.recv(100)
        with httpx.Client(base_url=server.url, timeout=DEADLINE_SECONDS) as client:
            assert client.get("/health").json() == {"status": "ok"}
            for number in range(DELIVERIES):
                given = {"target": "note", "payload": number}
                assert client.post("/v1/deliveries", json=given).status_code == 201
        wait_until_noted(home)
        assert open_descriptors(server) < LIMIT
        assert peak_bytes(server) - before < GROWTH_BYTES
        logged = server.wait_for("ConnectionsClosed")
    assert logged["closed"]["to make room"] > 0
    assert "raise http_connections" in logged["message"]
    assert not any("Traceback" in line for line in server.log)


def connected(server: Running) -> socket.socket:
    at = urlsplit(server.url)
    return socket.create_connection((at.hostname, at.port), timeout=DEADLINE_SECONDS)


def sent_of_endless_head(endless: socket.socket) -> int:
    """How many bytes of headers can be sent until the server closes the connection."""
    sent = 0
    try:
        endless.sendall(HALF + b"\r\n")
        while sent < ENDLESS_BYTES:
            endless.sendall(HEADERS)
            sent += len(HEADERS)
    except OSError:
        """The server closed the connection."""
    return sent


def wait_until_noted(home: Home) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(list(home.folder.glob("noted-*"))) < DELIVERIES:
        assert time.monotonic() < deadline, "some deliveries are missing"


def peak_bytes(server: Running) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def open_descriptors(server: Running) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
