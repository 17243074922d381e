"""Addresses of databases, `scheme://user:password@host/name?parameter=value`, as people have them.

A password may hold any character as it is, so an address is read from its right end: the last `@`
before the parameters ends the password. Every place that reads or shows an address asks here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import quote, unquote

import msgspec

from duly.domain.endpoints.webhooks import HIDDEN

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
AMBIGUOUS = (
    "what stands before the last @ holds a ? and a parameter that is not known; write %40 for an "
    "@ in a parameter or a password, and %3F for a ? in a password"
)
_PARAMETER = re.compile(r"[@/].*\?[\w.-]+=", re.DOTALL)
_NO_PORT = re.compile(r":(?!\d{1,5}(?:,|$))")
_BRACKETS = re.compile(r"\[[^\]]*\]")
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
        if self._may_be_cut(known):
            return f"{self.scheme}://{HIDDEN}"
        parameters = [(key, each if key in known else HIDDEN) for key, each in self.parameters]
        return self._text(HIDDEN, parameters)

    def _may_be_cut(self, known: Collection[str]) -> bool:
        """Whether a password that holds `?name=` may have been read as hosts and parameters."""
        if _NO_PORT.search(_BRACKETS.sub("", self.hosts)):
            return True
        return self.user is None and any(
            "@" in name or ("@" in value and name in known) for name, value in self.parameters
        )

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


def is_ambiguous(text: str) -> bool:
    """Whether what is read as user and password may be an address with a mistyped parameter.

    The host after the `@` in its value would be sent the password.
    """
    rest = text.partition("://")[2]
    if found := _QUERY.search(rest):
        rest = rest[: found.start()]
    return _PARAMETER.search(rest.rpartition("@")[0]) is not None


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
