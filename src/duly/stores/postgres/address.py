"""What the parameters of a PostgreSQL address mean to the driver, or why they cannot be had.

asyncpg sends parameters that it does not know to the server, which refuses the connection.
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
"""With a driver's name, as SQLAlchemy writes it, too."""
_HOST = re.compile(r"(\[[^\[\],/]+\]|[^\[\]:,/\s]+)(:(?P<port>[0-9]{1,5}))?\Z")

_DRIVERS = """
    database dbname gsslib host krbsrvname passfile password port service sslcert sslcrl sslkey
    sslmode sslnegotiation sslpassword sslrootcert ssl_max_protocol_version
    ssl_min_protocol_version target_session_attrs user
"""
DRIVERS = frozenset(_DRIVERS.split())
"""What asyncpg understands."""
SERVERS = frozenset({"application_name", "options"})
"""What the server is told when a connection starts."""
OURS = frozenset(
    {"channel_binding", "connect_timeout", "fallback_application_name", "pgbouncer", "ssl"}
    | {"gssencmode", "sslaccept", "sslcertmode", "sslsni"}
)
"""What is translated."""
IGNORED = {
    **dict.fromkeys(
        (
            *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
            *("tcp_user_timeout", "socket_timeout"),
        ),
        "every call has a deadline of its own",
    ),
    **dict.fromkeys(
        ("connection_limit", "pool_timeout"), "the setting `connections` says how many there are"
    ),
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
    "uselibpqcompat": "`sslmode` means what libpq says",
}
"""What changes nothing here, and why."""
REFUSED = {
    "hostaddr": "put the address in place of the host",
    "require_auth": "the driver takes every way to log in; sslmode=verify-full makes sure whose",
    "requirepeer": "the driver cannot check the owner of a socket",
    "sslcrldir": "give one file with sslcrl",
}
"""What cannot be had, and what to do instead."""
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
"""For `sslrootcert`: the authorities that this machine trusts."""


class PostgresAddress(msgspec.Struct, frozen=True):
    """Where a server is and how to reach it, in the driver's terms."""

    dsn: str
    settings: dict[str, str]
    """The server's own, for each session."""
    connect_seconds: float | None
    pooler: bool
    """Whether the address says that a pooler is in front."""
    verified: dict[str, str] | None
    """The files with which the server's certificate is verified, where asyncpg would not do it."""
    ignored: dict[str, str]
    """Parameters that change nothing, each with the reason."""

    def __repr__(self) -> str:
        # It may end in a traceback, and the DSN carries a password.
        return "Place(...)"

    def context(self) -> ssl.SSLContext | None:
        """What verifies the server's certificate and name; None to leave TLS to the driver."""
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
    made = ssl.create_default_context(cafile=None if root == SYSTEM else root)
    if crl := given.get("sslcrl"):
        made.load_verify_locations(cafile=crl)
        made.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if own := given.get("sslcert"):
        password = given.get("sslpassword", "")
        made.load_cert_chain(own, given.get("sslkey"), lambda: password)
    made.minimum_version = _version(given, "ssl_min_protocol_version", "TLSv1.2")
    made.maximum_version = _version(given, "ssl_max_protocol_version", "TLSv1.3")
    made.set_alpn_protocols(["postgresql"])
    return made


def _version(given: Mapping[str, str], name: str, default: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[given.get(name, default).replace(".", "_")]


def place(url: str) -> PostgresAddress:
    """Read an address; BadSetting names the part that cannot be."""
    found = address(url)
    if is_ambiguous(url):
        raise _refused(AMBIGUOUS)
    _check_hosts(found)
    given = _checked(found)
    driven = {name: value for name, value in given.items() if name in DRIVERS}
    verified = _verified(given)
    if verified is not None:
        driven = {name: value for name, value in driven.items() if not name.startswith("ssl")}
        driven |= {name: given[name] for name in ("sslnegotiation",) if name in given}
    elif mode := _sslmode(given):
        driven["sslmode"] = mode
    plain = msgspec.structs.replace(found, scheme="postgresql", parameters=tuple(driven.items()))
    return PostgresAddress(
        dsn=plain.encoded,
        settings=_settings(given),
        connect_seconds=_connect_seconds(given),
        pooler=given.get("pgbouncer") == "true",
        verified=verified,
        ignored={name: IGNORED[name] for name in given if name in IGNORED},
    )


def ignored_parameters(url: str) -> dict[str, str]:
    """The parameters of an address that change nothing, each with the reason."""
    return place(url).ignored if SCHEME.match(address(url).scheme) else {}


def _check_hosts(found: Address) -> None:
    for each in found.hosts.split(",") if found.hosts else ():
        match = _HOST.match(each)
        if match is None or not 0 < int(match["port"] or 5432) < 65536:
            # The value is not shown: it may be a part of a password.
            raise _refused(
                "the host after the last @ will not do; give a name or an address and "
                "perhaps a port from 1 to 65535, as in host:5432"
            )
    if found.user is not None and found.password is None and "/" in found.user:
        raise _refused("the user before the @ holds a /; write %2F, or %40 for another @")


def _checked(found: Address) -> dict[str, str]:
    """The parameters that have a value, each one known and possible."""
    given = {name: value for name, value in found.parameters if value}
    for name in given:
        if name in REFUSED:
            raise _refused(f"the parameter {name} cannot be had: {REFUSED[name]}")
        if name not in DRIVERS | SERVERS | OURS | IGNORED.keys():
            raise _refused(
                f"there is no parameter {name!r}; a setting of the server goes into options, as in "
                "options=-c%20search_path%3Dmine"
            )
        if name in ACCEPTABLE and given[name] not in ACCEPTABLE[name]:
            raise _refused(f"{name} may be {' or '.join(ACCEPTABLE[name])} here")
        if name in FILES and given[name] != SYSTEM and not Path(given[name]).is_file():
            raise _refused(f"{name} names a file that is not there: {given[name]}")
    return given


def _sslmode(given: Mapping[str, str]) -> str | None:
    mode = given.get("sslmode") or given.get("ssl")
    return SSL_WORDS.get(mode, mode) if mode else None


def _verified(given: Mapping[str, str]) -> dict[str, str] | None:
    """What the certificate is verified with, if the address demands more than asyncpg does.

    asyncpg has no channel binding. What that keeps out, a server with a certificate of its own
    in the middle, is kept out by verifying the certificate and the name in it as well.
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
    """The longest that opening a connection may take; None, and 0, for our own limit."""
    text = given.get("connect_timeout", "0")
    if not text.isascii() or not text.isdigit() or int(text) > LONGEST_CONNECT:
        raise _refused(f"connect_timeout is a whole number of seconds up to {LONGEST_CONNECT}")
    return float(text) or None


def _refused(problem: str) -> BadSetting:
    return BadSetting("database", problem)
