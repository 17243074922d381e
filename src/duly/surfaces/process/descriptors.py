"""File descriptors: enough for our own work, whatever the clients of the HTTP port do."""

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
"""Listeners, files, pipes, name lookups and what handlers open."""
LEAST_SHARE = 4
"""With a limit that is too low for all, a quarter of it is for clients."""


def own(settings: Settings) -> int:
    """What we need without any client: a connection for each attempt, and those to the store."""
    return settings.concurrency + settings.connections + BESIDE


def room_for_clients(settings: Settings, limit: int) -> int:
    """How many connections clients may have, so that enough descriptors are left for ourselves."""
    return min(settings.http_connections, max(limit - own(settings), limit // LEAST_SHARE))


def have_descriptors(settings: Settings) -> None:
    """Raise the process's limit to what the settings need, or warn that it is too low."""
    clients = settings.http_connections if Role.API in settings.roles else 0
    wanted = own(settings) + clients
    limit = raised_limit(wanted)
    _make_table(min(limit, wanted))
    if limit >= wanted:
        return
    facts = {"limit": limit, "wanted": wanted}
    logger.warning(
        "the limit of open files is %(limit)s, and concurrency and http_connections need "
        "%(wanted)s; raise it (ulimit -n, or LimitNOFILE= in a systemd unit)",
        facts,
        extra={"event": "DescriptorsShort", "facts": facts},
    )


def _make_table(size: int) -> None:
    """Have the kernel make room for so many descriptors now.

    It doubles its table of them when it is full, and in a process with threads that takes tens of
    milliseconds each time: during a burst of connections, nobody is answered meanwhile.
    """
    with suppress(OSError), open(os.devnull) as any_file:
        os.close(fcntl.fcntl(any_file, fcntl.F_DUPFD_CLOEXEC, size - 1))


def descriptor_limit() -> int:
    """How many files and sockets this process may have open."""
    return _bounded(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raised_limit(wanted: int) -> int:
    """Raise it to what is wanted as far as that is allowed; returns what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(wanted, _bounded(hard))
    # No further: programs that handlers start have the same limit, and some close all below it.
    if allowed > _bounded(soft):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()


def _bounded(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
