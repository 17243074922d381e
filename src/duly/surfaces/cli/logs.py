"""Log lines on stderr: one-liners for people at a terminal, JSON for everything else."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

QUIET = ("uvicorn.error", "asyncio")
PLAIN, FAINT = "\x1b[0m", "\x1b[2m"
COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[1;31m"}


def configure() -> None:
    """Send the log of this process to stderr."""
    render = _line if sys.stderr.isatty() else _json
    chain: list[Processor] = [_shaped, structlog.processors.format_exc_info, render]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ProcessorFormatter(processors=chain))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _shaped(_logger: WrappedLogger, _method: str, found: EventDict) -> EventDict:
    """A record of the standard library, with the facts that ours carry."""
    record: logging.LogRecord = found["_record"]
    shaped: dict[str, Any] = {
        "at": datetime.fromtimestamp(record.created, UTC),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": getattr(record, "event", None),
        "message": found["event"],
        **getattr(record, "facts", {}),
    }
    if "exc_info" in found:
        shaped["exc_info"] = found["exc_info"]
    return {name: value for name, value in shaped.items() if value is not None}


def _json(_logger: WrappedLogger, _method: str, found: EventDict) -> str:
    try:
        return msgspec.json.encode(found, enc_hook=str).decode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, as in the name of a file that is no text; escaped, it can be.
        return json.dumps(msgspec.to_builtins(found, enc_hook=str))


def _line(_logger: WrappedLogger, _method: str, found: EventDict) -> str:
    at = found["at"].astimezone().strftime("%H:%M:%S")
    trace = f"\n{found['exception']}" if "exception" in found else ""
    line = f"{found['level']:<7} {found['message']}{trace}"
    if "NO_COLOR" in os.environ:
        return f"{at} {line}"
    return f"{FAINT}{at}{PLAIN} {COLOURS.get(found['level'], '')}{line}{PLAIN}"
