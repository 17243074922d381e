"""Time from the command to its first line, its announcement and /ready, compared with imports.

python -m benchmarks.start [--rounds 7] [--python .venv/bin/python]
"""

import argparse
import http.client
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.places import folder
from tests.support.postgres import free_port
from tests.surfaces.processes import environment

BARE = "import httptools, starlette, uvicorn, uvloop"
SERVED = {"duly serve": (), "duly serve duly_birthday:app": ("duly_birthday:app",)}
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""The environment may disable compiled files, which normal starts use."""
Seconds = dict[str, float]


def main(python: str, rounds: int) -> None:
    """Run all in turn, so that a slow moment affects all."""
    taken: dict[str, list[Seconds]] = defaultdict(list)
    with folder() as place:
        for number in range(rounds + 1):
            for name, seconds in one_round(python, place / f"round{number}"):
                # The first round warms the caches.
                taken[name] += [seconds] if number else []
    medians = {name: median(each) for name, each in taken.items()}
    report(medians)


def one_round(python: str, place: Path) -> list[tuple[str, Seconds]]:
    """Each once: empty Python, the server's libraries, and duly on a new and an existing file."""
    place.mkdir()
    found = [("python -c pass", ran(python, "pass")), (BARE, ran(python, BARE))]
    for number, (name, arguments) in enumerate(SERVED.items()):
        for age in ("new", "existing"):
            database = f"sqlite:///{place}/duly{number}.db"
            found.append(
                (
                    f"{name}, {age} file",
                    started([python, "-m", "duly", "serve", *arguments], database),
                )
            )
    return found


def ran(python: str, code: str) -> Seconds:
    """How long Python takes for the code."""
    begun = time.perf_counter()
    subprocess.run([python, "-c", code], env=environment(COMPILED), check=True)
    return {"ends": time.perf_counter() - begun}


def started(command: list[str], database: str) -> Seconds:
    """How long a server takes to its first line, to its announcement, and until it is ready."""
    port = free_port()
    begun = time.perf_counter()
    server = subprocess.Popen(
        [*command, "--port", str(port)],
        env=environment({"DULY_DATABASE": database, **COMPILED}),
        stderr=subprocess.PIPE,
    )
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        first = time.perf_counter() - begun
        while b"listens on" not in line:
            line = server.stderr.readline()
            assert line, "the server ended"
        announced = time.perf_counter() - begun
        while not is_ready(port):
            pass
        ready = time.perf_counter() - begun
    finally:
        server.terminate()
        server.communicate()
    return {"first line": first, "announced": announced, "ready": ready}


def is_ready(port: int) -> bool:
    """Whether /ready answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def median(rounds: list[Seconds]) -> Seconds:
    """The median of each value."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def report(medians: dict[str, Seconds]) -> None:
    """Print each in milliseconds, and as a multiple of the bare imports."""
    bare = medians[BARE]["ends"]
    for name, figures in medians.items():
        values = (
            f"{figure} {seconds * 1000:.0f} ms ({seconds / bare:.2f})"
            for figure, seconds in figures.items()
        )
        print(f"{name + ':':<45} {', '.join(values)}")
    print("(in brackets: times the bare imports; wanted: announced within 1000 ms)")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument(
        "--python",
        default=sys.executable,
        help="the Python of another environment, such as that of `make serve`",
    )
    given = arguments.parse_args()
    main(given.python, given.rounds)
