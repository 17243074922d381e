"""Database URLs, `scheme://user:password@host/name?parameter=value`: parse, encode and redact.

A password may contain any character unescaped, so a URL is parsed from its right end: the last `@`
before the parameters ends the password. All code that reads or shows a database URL uses this.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import quote, unquote

import msgspec

from duly.records.target import HIDDEN

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
"""Parameter names of libpq and other PostgreSQL drivers, including those that duly ignores."""
SECRET_PARAMETERS = frozenset({"password", "sslpassword"})
_QUERY = re.compile(rf"\?(?=(?:{'|'.join(sorted(PARAMETERS))})=)")
AMBIGUOUS = (
    "the part before the last @ has a ? and an unknown parameter; write %40 for an "
    "@ in a parameter or a password, and %3F for a ? in a password"
)
_PARAMETER = re.compile(r"[@/].*\?[\w.-]+=", re.DOTALL)
_NO_PORT = re.compile(r":(?!\d{1,5}(?:,|$))")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Address(msgspec.Struct, frozen=True):
    """The parts of a database URL; user, password, name and values are decoded."""

    scheme: str
    user: str | None
    password: str | None
    hosts: str
    """One or more hosts separated by commas, each with or without a port."""
    name: str | None
    """The part after the slash that follows the hosts."""
    parameters: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        # A repr may appear in a log or a traceback.
        return f"Address({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URL with passwords and the values of unknown parameters hidden."""
        known = PARAMETERS - SECRET_PARAMETERS
        if self._may_be_misparsed(known):
            return f"{self.scheme}://{HIDDEN}"
        parameters = [(key, each if key in known else HIDDEN) for key, each in self.parameters]
        return self._text(HIDDEN, parameters)

    def _may_be_misparsed(self, known: Collection[str]) -> bool:
        """Whether a password containing `?name=` may have been parsed as hosts and parameters."""
        if _NO_PORT.search(_BRACKETS.sub("", self.hosts)):
            return True
        return self.user is None and any(
            "@" in name or ("@" in value and name in known) for name, value in self.parameters
        )

    @property
    def encoded(self) -> str:
        """The URL with every special character escaped, for other parsers."""
        password = None if self.password is None else quote(self.password, safe="")
        return self._text(password, self.parameters)

    def _text(self, password: str | None, parameters: Iterable[tuple[str, str]]) -> str:
        credentials = "" if self.user is None else quote(self.user, safe="")
        if self.password is not None:
            credentials += f":{password}"
        at = "@" if self.user is not None else ""
        name = "" if self.name is None else f"/{quote(self.name, safe='/')}"
        pairs = [f"{quote(key)}={quote(each, safe='*/')}" for key, each in parameters]
        query = f"?{'&'.join(pairs)}" if pairs else ""
        return f"{self.scheme}://{credentials}{at}{self.hosts}{name}{query}"


def address(text: str) -> Address:
    """Parse a database URL; any text is accepted."""
    scheme, _, rest = text.strip().partition("://")
    query = ""
    if found := _QUERY.search(rest):
        rest, query = rest[: found.start()], rest[found.end() :]
    credentials, at, location = rest.rpartition("@")
    if not found:
        location, _, query = location.partition("?")
    user, colon, password = credentials.partition(":")
    hosts, slash, name = location.partition("/")
    return Address(
        scheme.lower(),
        _decoded(user) if at else None,
        _decoded(password) if colon else None,
        hosts,
        _decoded(name) if slash else None,
        tuple(_pair(each) for each in query.split("&") if each),
    )


def is_ambiguous(text: str) -> bool:
    """Whether the part parsed as user and password may include a host and a misspelled parameter.

    The text after the `@` in that parameter's value would become the host and receive the password.
    """
    rest = text.partition("://")[2]
    if found := _QUERY.search(rest):
        rest = rest[: found.start()]
    return _PARAMETER.search(rest.rpartition("@")[0]) is not None


def shown(text: str) -> str:
    """A database URL with its secrets hidden."""
    if not text or text.startswith("sqlite:"):
        return text
    return address(text).shown if "://" in text else HIDDEN


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return unquote(name), _decoded(value)


def _decoded(text: str) -> str:
    """The text unescaped, or unchanged if a `%` in it does not begin a valid escape."""
    if _ESCAPE.search(text):
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
