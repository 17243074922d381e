"""Translates the parameters of a PostgreSQL address for the driver, or refuses them.

asyncpg sends unknown parameters to the server, which refuses the connection.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

from duly.domain.database_urls import AMBIGUOUS, Address, address, is_ambiguous
from duly.errors import BadSetting

SCHEME = re.compile(r"postgres(ql)?(\+\w+)?\Z")
"""Also with a driver's name, as in SQLAlchemy's URLs."""
_HOST = re.compile(r"(\[[^\[\],/]+\]|[^\[\]:,/\s]+)(:(?P<port>[0-9]{1,5}))?\Z")

_DRIVERS = """
    database dbname gsslib host krbsrvname passfile password port service sslcert sslcrl sslkey
    sslmode sslnegotiation sslpassword sslrootcert ssl_max_protocol_version
    ssl_min_protocol_version target_session_attrs user
"""
DRIVERS = frozenset(_DRIVERS.split())
"""Parameters that asyncpg understands."""
SERVERS = frozenset({"application_name", "options"})
"""Parameters sent to the server when a connection starts."""
OURS = frozenset(
    {"channel_binding", "connect_timeout", "fallback_application_name", "pgbouncer", "ssl"}
    | {"gssencmode", "sslaccept", "sslcertmode", "sslsni"}
)
"""Parameters that are translated here."""
IGNORED = {
    **dict.fromkeys(
        (
            *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
            *("tcp_user_timeout", "socket_timeout"),
        ),
        "every call has its own timeout",
    ),
    **dict.fromkeys(("connection_limit", "pool_timeout"), "use the setting `connections`"),
    **dict.fromkeys(
        ("prepared_statement_cache_size", "statement_cache_size"),
        "behind a pooler, set DULY_POOLER=true",
    ),
    "client_encoding": "it is always UTF8",
    "gssdelegation": "credentials are never delegated",
    "load_balance_hosts": "hosts are tried in their order",
    "max_protocol_version": "the protocol is 3.0",
    "min_protocol_version": "the protocol is 3.0",
    "schema": "the tables are always in the schema `duly`",
    "sslcompression": "nothing is compressed",
    "uselibpqcompat": "`sslmode` always means the same as in libpq",
}
"""Parameters that have no effect, each with the reason."""
REFUSED = {
    "hostaddr": "give the address as the host",
    "require_auth": "the driver cannot limit it; use sslmode=verify-full to verify the server",
    "requirepeer": "the driver cannot check the owner of a socket",
    "sslcrldir": "give one file with sslcrl",
}
"""Parameters that are not supported, each with what to do instead."""
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
ACCEPTABLE = {
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer"),
    "sslaccept": ("accept_invalid_certs", "strict"),
    "sslcertmode": ("allow", "disable"),
    "sslsni": ("1",),
    "pgbouncer": ("true", "false"),
    "gsslib": ("gssapi", "sspi"),
    "sslmode": MODES,
    "ssl": (*MODES, "true", "false", "1", "0"),
    "sslnegotiation": ("postgres", "direct"),
    "ssl_max_protocol_version": ("TLSv1.2", "TLSv1.3"),
    "ssl_min_protocol_version": ("TLSv1.2", "TLSv1.3"),
    "target_session_attrs": (
        *("any", "primary", "standby", "read-write", "read-only", "prefer-standby"),
    ),
}
FILES = ("sslcert", "sslcrl", "sslkey", "sslrootcert")
LONGEST_CONNECT = 600
SSL_WORDS = {"true": "require", "1": "require", "false": "disable", "0": "disable"}
SYSTEM = "system"
"""Value of `sslrootcert`: the certificate authorities that this machine trusts."""


class PostgresAddress(msgspec.Struct, frozen=True):
    """The address of a server, in the driver's terms."""

    dsn: str
    settings: dict[str, str]
    """Settings of the server for each session."""
    connect_seconds: float | None
    pooler: bool
    """Whether the address declares a pooler."""
    verified: dict[str, str] | None
    """Parameters to verify the server's certificate with, if asyncpg would not verify it."""
    ignored: dict[str, str]
    """Parameters that have no effect, each with the reason."""

    def __repr__(self) -> str:
        # The DSN contains a password, and a traceback may show this text.
        return "Place(...)"

    def context(self) -> ssl.SSLContext | None:
        """The context that verifies the server's certificate; None to leave TLS to the driver."""
        if self.verified is None:
            return None
        try:
            return _context(self.verified)
        except OSError as error:
            raise _refused(
                f"the files in sslrootcert, sslcert, sslkey or sslcrl cannot be used: {error}"
            ) from error


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    root = given.get("sslrootcert", SYSTEM)
    context = ssl.create_default_context(cafile=None if root == SYSTEM else root)
    if crl := given.get("sslcrl"):
        context.load_verify_locations(cafile=crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if certificate := given.get("sslcert"):
        password = given.get("sslpassword", "")
        context.load_cert_chain(certificate, given.get("sslkey"), lambda: password)
    context.minimum_version = _version(given, "ssl_min_protocol_version", "TLSv1.2")
    context.maximum_version = _version(given, "ssl_max_protocol_version", "TLSv1.3")
    context.set_alpn_protocols(["postgresql"])
    return context


def _version(given: Mapping[str, str], name: str, default: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[given.get(name, default).replace(".", "_")]


def place(url: str) -> PostgresAddress:
    """Parse an address; BadSetting names the part that is not possible."""
    found = address(url)
    if is_ambiguous(url):
        raise _refused(AMBIGUOUS)
    _check_hosts(found)
    given = _checked(found)
    driver = {name: value for name, value in given.items() if name in DRIVERS}
    verified = _verified(given)
    if verified is not None:
        driver = {name: value for name, value in driver.items() if not name.startswith("ssl")}
        driver |= {name: given[name] for name in ("sslnegotiation",) if name in given}
    elif mode := _sslmode(given):
        driver["sslmode"] = mode
    plain = msgspec.structs.replace(found, scheme="postgresql", parameters=tuple(driver.items()))
    return PostgresAddress(
        dsn=plain.encoded,
        settings=_settings(given),
        connect_seconds=_connect_seconds(given),
        pooler=given.get("pgbouncer") == "true",
        verified=verified,
        ignored={name: IGNORED[name] for name in given if name in IGNORED},
    )


def ignored_parameters(url: str) -> dict[str, str]:
    """The parameters of an address that have no effect, each with the reason."""
    return place(url).ignored if SCHEME.match(address(url).scheme) else {}


def _check_hosts(found: Address) -> None:
    for each in found.hosts.split(",") if found.hosts else ():
        match = _HOST.match(each)
        if match is None or not 0 < int(match["port"] or 5432) < 65536:
            # The value is not shown: it may be part of a password.
            raise _refused(
                "the host after the last @ will not do; give a name or an address and "
                "perhaps a port from 1 to 65535, as in host:5432"
            )
    if found.user is not None and found.password is None and "/" in found.user:
        raise _refused("the user before the @ holds a /; write %2F, or %40 for another @")


def _checked(found: Address) -> dict[str, str]:
    """The parameters that have a value, all known and supported."""
    given = {name: value for name, value in found.parameters if value}
    for name in given:
        if name in REFUSED:
            raise _refused(f"the parameter {name} is not supported: {REFUSED[name]}")
        if name not in DRIVERS | SERVERS | OURS | IGNORED.keys():
            raise _refused(
                f"there is no parameter {name!r}; a setting of the server goes into options, as in "
                "options=-c%20search_path%3Dmine"
            )
        if name in ACCEPTABLE and given[name] not in ACCEPTABLE[name]:
            raise _refused(f"{name} may be {' or '.join(ACCEPTABLE[name])} here")
        if name in FILES and given[name] != SYSTEM and not Path(given[name]).is_file():
            raise _refused(f"the file in {name} does not exist: {given[name]}")
    return given


def _sslmode(given: Mapping[str, str]) -> str | None:
    mode = given.get("sslmode") or given.get("ssl")
    return SSL_WORDS.get(mode, mode) if mode else None


def _verified(given: Mapping[str, str]) -> dict[str, str] | None:
    """Parameters to verify the certificate with, if the address demands more than asyncpg does.

    asyncpg has no channel binding. Verifying the certificate and its host name also prevents the
    attack that it prevents: a server in the middle with another certificate.
    """
    demands = [f"{name}={given[name]}" for name in ("channel_binding", "sslaccept", "sslrootcert")
               if given.get(name) in ("require", "strict", SYSTEM)]  # fmt: skip
    if not demands:
        return None
    if _sslmode(given) == "disable":
        raise _refused(f"{demands[0]} needs TLS, which sslmode=disable turns off")
    return {name: value for name, value in given.items() if name in DRIVERS}


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    name = given.get("fallback_application_name")
    settings = {"application_name": name} if name else {}
    return settings | {each: given[each] for each in SERVERS if each in given}


def _connect_seconds(given: Mapping[str, str]) -> float | None:
    """The time limit for opening a connection; None, from 0 or no value, for our default."""
    text = given.get("connect_timeout", "0")
    if not text.isascii() or not text.isdigit() or int(text) > LONGEST_CONNECT:
        raise _refused(f"connect_timeout is a whole number of seconds up to {LONGEST_CONNECT}")
    return float(text) or None


def _refused(problem: str) -> BadSetting:
    return BadSetting("database", problem)
