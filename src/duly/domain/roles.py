"""What one process of a service does; several may share the work of one PostgreSQL."""

from __future__ import annotations

from enum import StrEnum

from duly.errors import BadSetting


class Role(StrEnum):
    """A part of the service; each works alone while others do theirs elsewhere."""

    API = "api"
    """Opens the HTTP port and accepts."""
    WORKER = "worker"
    """Claims and attempts, and takes back what dead workers held."""
    PLANNER = "planner"
    """Keeps the next occurrence of every schedule on the books."""


Roles = frozenset[Role]
ENGINE: Roles = frozenset({Role.WORKER, Role.PLANNER})
"""What needs no port."""


def roles_of(text: str) -> Roles:
    """The roles in a setting, which names them with commas or spaces between."""
    return frozenset(Role(each) for each in text.replace(",", " ").split())


def refuse_apart(roles: Roles, single_owner: bool) -> None:
    """BadSetting for a part of the service where one process has to be all of it."""
    if single_owner and not roles >= ENGINE:
        lacking = " and ".join(sorted(ENGINE - roles))
        raise BadSetting(
            "role",
            f"a SQLite file belongs to one process, and no other could be its {lacking}; "
            "leave the role out, or use PostgreSQL to spread the work",
        )


def refuse_idle(roles: Roles) -> None:
    """BadSetting for a process without a port whose roles are all the port's."""
    if not roles & ENGINE:
        raise BadSetting(
            "role",
            "api alone leaves app.run() nothing to do, since it opens no port; `duly serve` opens "
            "it, and app.run() can be the worker and the planner",
        )


def refuse_several(processes: int, single_owner: bool) -> None:
    """BadSetting for several processes where there can be one only."""
    if single_owner and processes > 1:
        raise BadSetting(
            "processes",
            "a SQLite file belongs to one process; leave it out, or use PostgreSQL to run several",
        )
