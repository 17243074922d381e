"""What a command has to import before it can answer."""

import subprocess
import sys

HEAVY = {"aiohttp", "litestar", "uvicorn"}


def test_no_command_waits_for_the_http_client_or_the_server_to_be_imported() -> None:
    asked = f"import sys, duly.surfaces.cli.options; print(*({HEAVY} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
