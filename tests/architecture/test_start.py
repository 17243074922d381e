"""What a command imports before it starts."""

import subprocess
import sys

import pytest

HEAVY = {"aiohttp", "http.client", "starlette", "redis", "rich", "uvicorn"}


@pytest.mark.parametrize("module", ["terminal.flags", "server.serve"])
def test_no_command_imports_the_http_client_or_the_server_at_its_start(module: str) -> None:
    """Nor does `duly serve` itself, before it opens a port."""
    program = f"import sys, duly.surfaces.cli.{module}; print(*({HEAVY} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
