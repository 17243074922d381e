"""Addresses of databases, `scheme://user:password@host/name?parameter=value`, as people have them.

A password may hold any character as it is, so an address is read from its right end: the last `@`
before the parameters ends the password. Every place that reads or shows an address asks here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

import msgspec

from duly.domain.webhooks import HIDDEN

_NAMES = """
    application_name channel_binding client_encoding connect_timeout connection_limit database
    dbname fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives
    keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts
    max_protocol_version min_protocol_version options passfile password pgbouncer pool_timeout port
    prepared_statement_cache_size require_auth requirepeer schema service socket_timeout ssl
    ssl_max_protocol_version ssl_min_protocol_version sslaccept sslcert sslcertmode sslcompression
    sslcrl sslcrldir sslkey sslmode sslnegotiation sslpassword sslrootcert sslsni
    statement_cache_size target_session_attrs tcp_user_timeout user uselibpqcompat
"""
PARAMETERS = frozenset(_NAMES.split())
"""What libpq and other drivers of PostgreSQL take, whether it means something here or not."""
SECRET_PARAMETERS = frozenset({"password", "sslpassword"})
_QUERY = re.compile(rf"\?(?=(?:{'|'.join(sorted(PARAMETERS))})=)")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Address(msgspec.Struct, frozen=True):
    """An address in its parts; user, password, name and values are decoded."""

    scheme: str
    user: str | None
    password: str | None
    hosts: str
    """One or several with commas between, each with or without a port."""
    name: str | None
    """What follows the slash after the hosts."""
    parameters: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        # It may end in a log or a traceback.
        return f"Address({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address for people: passwords, and parameters of unknown meaning, are hidden."""
        known = PARAMETERS - SECRET_PARAMETERS
        parameters = [(key, each if key in known else HIDDEN) for key, each in self.parameters]
        return self._text(HIDDEN, parameters)

    @property
    def encoded(self) -> str:
        """The same address in which every special character is escaped, for other parsers."""
        password = None if self.password is None else quote(self.password, safe="")
        return self._text(password, self.parameters)

    def _text(self, password: str | None, parameters: Iterable[tuple[str, str]]) -> str:
        owner = "" if self.user is None else quote(self.user, safe="")
        if self.password is not None:
            owner += f":{password}"
        at = "@" if self.user is not None else ""
        name = "" if self.name is None else f"/{quote(self.name, safe='/')}"
        pairs = [f"{quote(key)}={quote(each, safe='*/')}" for key, each in parameters]
        query = f"?{'&'.join(pairs)}" if pairs else ""
        return f"{self.scheme}://{owner}{at}{self.hosts}{name}{query}"


def address(text: str) -> Address:
    """Read an address; whatever it says, it has parts."""
    scheme, _, rest = text.strip().partition("://")
    query = ""
    if found := _QUERY.search(rest):
        rest, query = rest[: found.start()], rest[found.end() :]
    owner, at, place = rest.rpartition("@")
    if not found:
        place, _, query = place.partition("?")
    user, colon, password = owner.partition(":")
    hosts, slash, name = place.partition("/")
    return Address(
        scheme.lower(),
        _decoded(user) if at else None,
        _decoded(password) if colon else None,
        hosts,
        _decoded(name) if slash else None,
        tuple(_pair(each) for each in query.split("&") if each),
    )


def shown(text: str) -> str:
    """An address that may be shown: what is secret in it is left out."""
    if not text or text.startswith("sqlite:"):
        return text
    return address(text).shown if "://" in text else HIDDEN


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return unquote(name), _decoded(value)


def _decoded(text: str) -> str:
    """Without its escapes. What holds a `%` that begins none was not escaped by anybody."""
    if _ESCAPE.search(text):
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
