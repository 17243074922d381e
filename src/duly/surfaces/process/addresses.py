"""The listening address: bound early, so that an address in use is reported at once."""

from __future__ import annotations

from typing import Any

from duly.errors import DulyError
from duly.system import bound_socket

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""A server that listens on all addresses is called on loopback."""


class CannotListen(DulyError):
    """The address is in use, or this process may not bind it."""

    def __init__(self, host: str, port: int, problem: OSError) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {problem.strerror or problem}; "
            "stop the program that uses it, or choose another port with --port"
        )


def bound(host: str, port: int) -> Any:
    """A socket bound to the address and not listening yet, or CannotListen."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise CannotListen(host, port, error) from error


def url_of(host: str, bound: Any) -> str:
    """The URL of a bound socket, with the actual port if port 0 was given."""
    return _url(host, bound.getsockname()[1])


def local_url(host: str, port: int) -> str:
    """The URL of a server for callers on its machine."""
    return _url(EVERYWHERE.get(host, host), port)


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
