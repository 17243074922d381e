"""How many next moments a second cron expressions give, compared with cronsim and croniter.

python -m benchmarks.cron [--rounds 7]

Each library parses once and continues from the start of 2026, in turn, in one process. The peers
are pure Python and imported from their own environment; first it is checked that all agree.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from benchmarks.peers.install import ENVIRONMENT, install
from duly.domain.time.rules import cron
from duly.domain.time.zones import zone

EXPRESSIONS = (
    "*/15 * * * *",
    "0 9 * * MON",
    "0 0 1 * *",
    "0 9 * * *",
    "30 4 1,15 * 5",
    "0 0 29 2 *",
)
ZONES = ("UTC", "Europe/Oslo")
START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = 10
WALKS = 60
WANTED = {"cronsim": 1, "croniter": 5}

Step = Callable[[], datetime]


def ours(expression: str, tz: str) -> Step:
    """The moment after the previous one."""
    next_after, moment = cron(expression, tz).next_after, START

    def step() -> datetime:
        nonlocal moment
        moment = next_after(moment) or START
        return moment

    return step


def with_cronsim(expression: str, tz: str) -> Step:
    """The peer's own iterator."""
    from cronsim import CronSim  # type: ignore[import-not-found]

    return CronSim(expression, START.astimezone(zone(tz))).__next__


def with_croniter(expression: str, tz: str) -> Step:
    """The peer's own iterator."""
    from croniter import croniter  # type: ignore[import-not-found,import-untyped]

    get_next = croniter(expression, START.astimezone(zone(tz))).get_next
    return lambda: get_next(datetime)


WALKERS = {"duly": ours, "cronsim": with_cronsim, "croniter": with_croniter}


def check(expression: str, tz: str) -> None:
    """Check that all give the same moments."""
    walks = {name: begin(expression, tz) for name, begin in WALKERS.items()}
    for _ in range(STEPS):
        found = {name: step().astimezone(UTC) for name, step in walks.items()}
        assert len(set(found.values())) == 1, f"{expression} in {tz}: {found}"


def rate(begin: Callable[[str, str], Step], expression: str, tz: str) -> float:
    """Moments a second, without parsing."""
    walks = [begin(expression, tz) for _ in range(WALKS)]
    started = time.perf_counter()
    for step in walks:
        for _ in range(STEPS):
            step()
    return WALKS * STEPS / (time.perf_counter() - started)


def main(rounds: int) -> None:
    """Measure all in turn and print medians and ratios."""
    for tz in ZONES:
        for expression in EXPRESSIONS:
            check(expression, tz)
            rates: dict[str, list[float]] = {name: [] for name in WALKERS}
            for _ in range(rounds):
                for name, begin in WALKERS.items():
                    rates[name].append(rate(begin, expression, tz))
            print(line(expression, tz, {name: statistics.median(r) for name, r in rates.items()}))


def line(expression: str, tz: str, rates: dict[str, float]) -> str:
    """One expression: our rate, and how many times each peer's it is."""
    comparison = ", ".join(
        f"{name} {rates[name]:,.0f}/s: {rates['duly'] / rates[name]:.1f} times (wanted {least})"
        for name, least in WANTED.items()
    )
    return f"{tz:12}{expression:15} duly {rates['duly']:,.0f}/s · {comparison}"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    install()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(ENVIRONMENT / "lib" / version / "site-packages"))
    main(arguments.parse_args().rounds)
