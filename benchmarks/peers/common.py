"""The command line and the line of output that all scripts of peers share."""

import argparse
import json
from importlib.metadata import version


def parser(description: str | None) -> argparse.ArgumentParser:
    """An argument parser that already has --database and --count."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--database", required=True, help="URL of an empty database")
    arguments.add_argument("--count", type=int, required=True, help="jobs to drain")
    return arguments


def store_of(url: str) -> str:
    """The kind of database of a URL."""
    return "sqlite" if url.startswith("sqlite:") else "postgresql"


def report(
    peer: str, store: str, count: int, handled: int, seconds: float, **settings: object
) -> None:
    """Print the result as one JSON line, refusing one that did not run every job exactly once."""
    if handled != count:
        raise SystemExit(f"{peer} ran {handled} jobs of {count}")
    result = {
        "peer": peer,
        "version": version(peer),
        "store": store,
        "count": count,
        "seconds": round(seconds, 4),
        "per_second": round(count / seconds, 1),
        "settings": settings,
    }
    print(json.dumps(result), flush=True)
