"""File descriptors: enough for our own work, whatever the clients of the HTTP port do."""

from __future__ import annotations

import logging

from duly.domain.roles import Role
from duly.settings import Settings
from duly.system import raise_descriptor_limit

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
    limit = raise_descriptor_limit(wanted)
    if limit >= wanted:
        return
    facts = {"limit": limit, "wanted": wanted}
    logger.warning(
        "the limit of open files is %(limit)s, and concurrency and http_connections need "
        "%(wanted)s; raise it (ulimit -n, or LimitNOFILE= in a systemd unit)",
        facts,
        extra={"event": "DescriptorsShort", "facts": facts},
    )
