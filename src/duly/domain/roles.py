"""The roles of a process; with PostgreSQL, several processes can share the work."""

from __future__ import annotations

from enum import StrEnum

from duly.errors import BadSetting


class Role(StrEnum):
    """A part of the service that can run in its own process."""

    API = "api"
    """Opens the HTTP port and accepts deliveries."""
    WORKER = "worker"
    """Claims and executes deliveries, and reclaims those of dead workers."""
    PLANNER = "planner"
    """Plans the next occurrence of every schedule."""


Roles = frozenset[Role]
ENGINE: Roles = frozenset({Role.WORKER, Role.PLANNER})
"""The roles that need no port."""


def roles_of(text: str) -> Roles:
    """The roles in a setting, separated by commas or spaces."""
    return frozenset(Role(each) for each in text.replace(",", " ").split())


def refuse_apart(roles: Roles, single_owner: bool) -> None:
    """Raise BadSetting if one process must have all engine roles and lacks some."""
    if single_owner and not roles >= ENGINE:
        lacking = " and ".join(sorted(ENGINE - roles))
        raise BadSetting(
            "role",
            f"a SQLite file belongs to one process, and no other could be its {lacking}; "
            "leave the role out, or use PostgreSQL to spread the work",
        )


def refuse_idle(roles: Roles) -> None:
    """Raise BadSetting if a process without a port has no engine role."""
    if not roles & ENGINE:
        raise BadSetting(
            "role",
            "api alone leaves app.run() nothing to do, since it opens no port; `duly serve` opens "
            "it, and app.run() can be the worker and the planner",
        )


def refuse_several(processes: int, single_owner: bool) -> None:
    """Raise BadSetting for several processes on a store that allows only one."""
    if single_owner and processes > 1:
        raise BadSetting(
            "processes",
            "a SQLite file belongs to one process; leave it out, or use PostgreSQL to run several",
        )
