"""Log lines on stderr: text at a terminal, JSON otherwise."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.safe_text import safe_json, visible

QUIET = ("uvicorn.error", "asyncio", "mcp")
PLAIN, FAINT = "\x1b[0m", "\x1b[2m"
COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[1;31m"}


def configure(level: str = "info") -> None:
    """Log to stderr, from that level on."""
    least = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Shaped(_line if sys.stderr.isatty() else _json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))


class Shaped(logging.Formatter):
    """Formats log records of any library, with the facts of ours."""

    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        shaped: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
            "exception": _trace(self, record),
        }
        return self._render({name: each for name, each in shaped.items() if each is not None})


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    return formatter.formatException(record.exc_info) if record.exc_info else record.exc_text


def _json(found: dict[str, Any]) -> str:
    try:
        return safe_json(msgspec.json.encode(found, enc_hook=str).decode())
    except UnicodeEncodeError:
        # A lone surrogate, as in a file name that is not text: escaped, it can be written.
        return json.dumps(msgspec.to_builtins(found, enc_hook=str))


def _line(found: dict[str, Any]) -> str:
    at = found["at"].astimezone().strftime("%H:%M:%S")
    trace = f"\n{found['exception']}" if "exception" in found else ""
    # Further lines are indented, so that none looks like a record.
    message = visible(f"{found['message']}{trace}").replace("\n", "\n  ")
    line = f"{found['level']:<7} {message}"
    if "NO_COLOR" in os.environ:
        return f"{at} {line}"
    return f"{FAINT}{at}{PLAIN} {COLOURS.get(found['level'], '')}{line}{PLAIN}"
