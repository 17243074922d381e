"""Run one peer's draining script in the peers' environment and return its result."""

import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"
PEERS = ("pgqueuer", "procrastinate", "dbos", "huey")


def drain(
    peer: str, database_url: str, count: int, *, timeout: float = 600, **options: object
) -> dict[str, Any]:
    """Drain count no-op jobs with the peer; options become flags (batch_size=10: --batch-size 10).

    The database must be empty: every script creates its peer's schema in it.
    """
    if peer not in PEERS:
        raise ValueError(f"unknown peer {peer!r}, not one of {', '.join(PEERS)}")
    if not PYTHON.exists():
        raise FileNotFoundError("the peers are not installed: run benchmarks/peers/install.py")
    command = [str(PYTHON), str(HERE / f"{peer}_drain.py")]
    command += ["--database", database_url, "--count", str(count)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{peer} failed to drain:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])
