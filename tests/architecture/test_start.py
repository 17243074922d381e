"""What a command has to import before it can answer."""

import subprocess
import sys

import pytest

HEAVY = {"aiohttp", "http.client", "starlette", "redis", "rich", "uvicorn"}


@pytest.mark.parametrize("module", ["terminal.flags", "server.serve"])
def test_no_command_waits_for_the_http_client_or_the_server_to_be_imported(module: str) -> None:
    """Nor does `duly serve` itself, before it knows that it is to open a port."""
    asked = f"import sys, duly.surfaces.cli.{module}; print(*({HEAVY} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
