"""File descriptors: HTTP clients cannot use up those that the server itself needs."""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import sys
from contextlib import suppress

from duly.domain.roles import Role
from duly.settings import Settings

logger = logging.getLogger("duly.serve")

BESIDE = 128
"""Reserved for listeners, files, pipes, name lookups and files that handlers open."""
LEAST_SHARE = 4
"""If the limit is too low, clients still get a quarter of it."""


def own(settings: Settings) -> int:
    """Descriptors needed without any HTTP client: connections of attempts and of the store."""
    return settings.concurrency + settings.connections + BESIDE


def room_for_clients(settings: Settings, limit: int) -> int:
    """The number of HTTP connections that leaves enough descriptors for the server itself."""
    return min(settings.http_connections, max(limit - own(settings), limit // LEAST_SHARE))


def ensure_descriptors(settings: Settings) -> None:
    """Raise the process's limit to what the settings need, or warn that it is too low."""
    clients = settings.http_connections if Role.API in settings.roles else 0
    wanted = own(settings) + clients
    limit = raised_limit(wanted)
    _grow_table(min(limit, wanted))
    if limit >= wanted:
        return
    facts = {"limit": limit, "wanted": wanted}
    logger.warning(
        "the limit of open files is %(limit)s, and concurrency and http_connections need "
        "%(wanted)s; raise it (ulimit -n, or LimitNOFILE= in a systemd unit)",
        facts,
        extra={"event": "DescriptorsShort", "facts": facts},
    )


def _grow_table(size: int) -> None:
    """Grow the kernel's descriptor table to its final size now.

    The kernel doubles the table when it is full. In a process with threads each doubling takes
    tens of milliseconds, in which a burst of connections gets no response.
    """
    with suppress(OSError), open(os.devnull) as any_file:
        os.close(fcntl.fcntl(any_file, fcntl.F_DUPFD_CLOEXEC, size - 1))


def descriptor_limit() -> int:
    """The process's current limit of open files and sockets."""
    return _bounded(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raised_limit(wanted: int) -> int:
    """Raise the limit to `wanted`, or as far as is allowed; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(wanted, _bounded(hard))
    # Not higher: child processes of handlers inherit the limit, and some programs close every
    # descriptor below it.
    if allowed > _bounded(soft):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()


def _bounded(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
