"""How many transactions a worker with nothing to do makes on PostgreSQL, now and before.

python -m benchmarks.rest [--seconds 30] [--before FOLDER]

FOLDER is a worktree of an earlier commit; both run at the same time, each on a database of its own.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import duly
from benchmarks.places import ROOT, commits, folder, fresh, server

SETTLE_SECONDS = 5.0
"""What a start does is not counted."""


async def rest(url: str, seconds: float) -> dict[str, float]:
    """Transactions a second."""
    app = duly.App(url)

    @app.handler("noop")
    async def noop(_: duly.Delivery[object]) -> None:
        pass

    async with app:
        running = asyncio.create_task(app.run(signals=False))
        await asyncio.sleep(SETTLE_SECONDS)
        before = await commits(app)
        await asyncio.sleep(seconds)
        made = await commits(app) - before
        app.stop()
        await running
    return {"transactions": made / seconds}


def start(root: Path, url: str, seconds: float) -> subprocess.Popen[str]:
    """A process with the code of that folder."""
    command = [sys.executable, "-m", "benchmarks.rest", "--database", url, "--seconds", seconds]
    environment = {"PYTHONPATH": f"{root / 'src'}:{ROOT}", "PATH": ""}
    return subprocess.Popen(
        [str(each) for each in command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def main(seconds: float, before: Path | None) -> None:
    """Start all at once, and print what each made."""
    with server() as postgres, folder() as place:
        started = {}
        for name, root in {"now": ROOT, "before": before}.items():
            if root is not None:
                url = asyncio.run(fresh("postgresql", postgres, place))
                started[name] = start(root, url, seconds)
        for name, process in started.items():
            found = json.loads(process.communicate()[0].splitlines()[-1])
            print(f"{name}: {found['transactions']:.1f} transactions a second at rest")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=30.0)
    arguments.add_argument("--before", type=Path)
    arguments.add_argument("--database")
    given = arguments.parse_args()
    if given.database is None:
        main(given.seconds, given.before)
    else:
        print(json.dumps(asyncio.run(rest(given.database, given.seconds))))
