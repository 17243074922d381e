"""The address that a server of ours takes: bound early, so that a taken one is known at once."""

from __future__ import annotations

from typing import Any

from duly.errors import DulyError
from duly.system import bound_socket


class CannotListen(DulyError):
    """The address is taken, or not ours to take."""

    def __init__(self, host: str, port: int, problem: OSError) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {problem.strerror or problem}; "
            "stop whoever has it, or choose another with --port"
        )


def bound(host: str, port: int) -> Any:
    """A socket that has the address and does not listen yet, or CannotListen."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise CannotListen(host, port, error) from error


def url_of(host: str, taken: Any) -> str:
    """A taken address for people; its port is known even if any would do."""
    return f"http://{f'[{host}]' if ':' in host else host}:{taken.getsockname()[1]}"
