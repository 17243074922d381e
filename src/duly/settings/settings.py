"""All settings: type, allowed values, default and description."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from duly.domain.deliveries.retry_texts import plan_from_text
from duly.domain.roles import Roles, roles_of
from duly.records.retry_plan import RetryPlan

DAY = 86400.0
CENTURY = 36500 * DAY
SECRETS = frozenset({"key", "bootstrap_key", "webhook_secret", "secret_key", "alert_url"})
ADDRESSES = frozenset({"database", "server", "analytics"})
"""Settings that may contain a password."""
DEFAULT_NAMESPACE = "default"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The loaded settings; durations are in seconds."""

    database: Annotated[
        str,
        Meta(
            title="sqlite:///file.db or postgresql://user@host/name",
            description="where deliveries are kept",
        ),
    ] = "sqlite:///duly.db"
    namespace: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z",
            title="letters, digits and _ . : / -, at most 200",
            description="the namespace; each sees only its own deliveries",
        ),
    ] = DEFAULT_NAMESPACE
    namespaces: Annotated[
        str,
        Meta(
            pattern=r"^$|^\*\Z|^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}"
            r"([, ]+[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199})*\Z",
            title="names separated by commas, * for all, or nothing",
            description="the namespaces this process works for; nothing means all of them in the "
            "namespace `default`, and only its own in any other",
        ),
    ] = ""
    server: Annotated[
        str,
        Meta(
            pattern=r"^$|^https?://[^/?#@\s]+(/[A-Za-z0-9._~%/-]*)?\Z",
            title="http://host:8787, or nothing",
            description="the server that commands go through, instead of to the database",
        ),
    ] = ""
    key: Annotated[
        str,
        Meta(
            pattern=r"^$|^duly_[a-z2-7]{16}_[a-z2-7]{52}\Z",
            title="duly_..., as `duly keys create` prints it, or nothing",
            description="the key that commands send to that server",
        ),
    ] = ""
    bootstrap_key: Annotated[
        str,
        Meta(
            pattern=r"^$|^duly_[a-z2-7]{16}_[a-z2-7]{52}\Z",
            title="duly_..., as `duly keys bootstrap` prints it, or nothing",
            description="the first admin key: `duly serve` creates it if the store has no key",
        ),
    ] = ""
    host: Annotated[
        str,
        Meta(
            title="an address or a name of this machine",
            description="the address `duly serve` listens on",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port it listens on")] = 8787
    role: Annotated[
        str,
        Meta(
            pattern=r"^(api|worker|planner)([, ]+(api|worker|planner))*\Z",
            title="some of api, worker and planner, separated by commas",
            description="the roles of `duly serve` here; on PostgreSQL others may do the rest",
        ),
    ] = "api,worker,planner"
    processes: Annotated[
        int, Meta(ge=1, le=256, description="how many processes `duly serve` runs, on PostgreSQL")
    ] = 1
    log_level: Annotated[
        str,
        Meta(
            pattern=r"^(debug|info|warning|error)\Z",
            title="debug, info, warning or error",
            description="the lowest level that `duly serve` and `duly work` log; debug has a line "
            "for each completed delivery",
        ),
    ] = "info"
    mcp: Annotated[
        bool,
        Meta(description="`duly serve` offers tools to MCP clients at /mcp; needs the extra mcp"),
    ] = False
    loopback_open: Annotated[
        bool, Meta(description="callers on this machine need no key while it listens on loopback")
    ] = True
    allowed_hosts: Annotated[
        str,
        Meta(
            title="names separated by spaces, or * for any",
            description="host names, besides its own, by which the server may be called",
        ),
    ] = ""
    cors_origins: Annotated[
        str,
        Meta(
            pattern=r"^[ ,]*(\*|https?://[^/?#@\s,]+([ ,]+https?://[^/?#@\s,]+)*)?[ ,]*\Z",
            title="origins as in https://app.example separated by spaces, or * for any",
            description="other sites whose pages may call the server and read its responses",
        ),
    ] = ""
    key_rate: Annotated[
        float,
        Meta(
            ge=0.01,
            le=1_000_000,
            description="requests a second that a key may make, on all servers together",
        ),
    ] = 5000.0
    concurrency: Annotated[
        int, Meta(ge=1, le=10_000, description="deliveries attempted at once by one process")
    ] = 100
    lease: Annotated[
        float, Meta(ge=0.5, le=3600, description="silence after which a worker is declared dead")
    ] = 12.0
    recovery_interval: Annotated[
        float, Meta(ge=0.1, le=600, description="time between checks for dead workers")
    ] = 3.0
    poll: Annotated[
        float, Meta(ge=0.01, le=60, description="time between polls without a wake-up")
    ] = 1.0
    drain: Annotated[
        float, Meta(ge=0, le=3600, description="time for running deliveries to finish at a stop")
    ] = 30.0
    grace: Annotated[float, Meta(ge=0, le=DAY, description="lateness that causes no warning")] = (
        60.0
    )
    keep_completed: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long completed deliveries are kept")
    ] = 7 * DAY
    keep_dead: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long dead letters are kept")
    ] = 90 * DAY
    inbox_retention: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long the inbox keeps a message")
    ] = 7 * DAY
    prune_interval: Annotated[
        float, Meta(ge=1, le=CENTURY, description="time between prunings")
    ] = 3600.0
    prune_batch: Annotated[
        int, Meta(ge=1, le=100_000, description="deliveries checked in a step of pruning")
    ] = 500
    sweep_interval: Annotated[
        float, Meta(ge=1, le=CENTURY, description="time between two sweeps")
    ] = 300.0
    sweep_batch: Annotated[
        int, Meta(ge=1, le=100_000, description="deliveries checked in a step of a sweep")
    ] = 500
    payload_limit: Annotated[
        int, Meta(ge=1, le=1_048_576, description="bytes that a payload may have")
    ] = 262_144
    accept_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="requests that may wait in one process for their deliveries to be stored",
        ),
    ] = 1000
    http_connections: Annotated[
        int,
        Meta(
            ge=10,
            le=100_000,
            description="connections to the HTTP port that one process keeps open",
        ),
    ] = 2000
    retry: Annotated[
        str,
        Meta(
            title="none, webhook, delays:30,2m,10m or exponential:base=30s,cap=1h,attempts=10",
            description="the retry plan where delivery, schedule, endpoint and handler have none",
        ),
    ] = ""
    recovery_policies: Annotated[
        str,
        Meta(
            pattern=r"^(presets)?\Z",
            title="presets, or nothing",
            description="presets turns on the built-in recovery policies for dead letters",
        ),
    ] = ""
    recovery_rate: Annotated[
        float,
        Meta(
            ge=0.01,
            le=1000,
            description="dead letters a second that policies and generations retry in a namespace",
        ),
    ] = 10.0
    generation: Annotated[
        str,
        Meta(
            pattern=r"^$|^[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}\Z",
            title="one word, as in v42, or nothing",
            description="the generation of this deployment: when a new one starts, dead letters "
            "with a recovery policy get one try in it",
        ),
    ] = ""
    generation_held: Annotated[
        bool, Meta(description="a new generation tries held dead letters, too")
    ] = False
    egress_allow: Annotated[
        str,
        Meta(
            title="networks and hosts separated by spaces",
            description="private networks and hosts that webhooks may reach",
        ),
    ] = ""
    webhook_secret: Annotated[
        str,
        Meta(
            title="whsec_..., several separated by spaces",
            description="the secret that signs webhooks; several while it is being changed",
        ),
    ] = ""
    secret_key: Annotated[
        str,
        Meta(
            title="base64 of 32 bytes, several with spaces between",
            description="encrypts secrets of endpoints, and headers; several to change it",
        ),
    ] = ""
    analytics: Annotated[
        str,
        Meta(
            pattern=r"^$|^(rediss?|unix)://",
            title="redis://user:password@host:6379/0, or nothing",
            description="where schedules' deliveries are counted by the minute",
        ),
    ] = ""
    analytics_keep: Annotated[
        float, Meta(ge=60, le=CENTURY, description="how long these counts are kept")
    ] = 7 * DAY
    alert_url: Annotated[
        str,
        Meta(
            title="a URL, or the name of an endpoint",
            description="where alerts are sent, if anywhere",
        ),
    ] = ""
    alert_late: Annotated[
        int, Meta(ge=1, le=10_000, description="late deliveries that raise an alert")
    ] = 100
    alert_dead: Annotated[
        int, Meta(ge=1, le=50_000, description="dead letters in 15 minutes that raise an alert")
    ] = 10
    program: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z|^$",
            title="letters, digits and _ . : / -, at most 200, or nothing",
            description="the name of your program, if several programs share a namespace; nothing "
            "means the module that creates the App",
        ),
    ] = ""
    prune_schedules: Annotated[
        bool,
        Meta(description="workers remove schedules that left the code of their program"),
    ] = False
    pooler: Annotated[
        bool, Meta(description="PostgreSQL is behind a transaction pooler: poll, do not listen")
    ] = False
    connections: Annotated[
        int,
        Meta(ge=6, le=1000, description="connections to PostgreSQL that one process may open"),
    ] = 10
    origins: dict[str, str] = {}

    @property
    def plan(self) -> RetryPlan | None:
        """The default retry plan; None for the built-in ones."""
        return plan_from_text("retry", self.retry) if self.retry else None

    @property
    def roles(self) -> Roles:
        """The roles of this process."""
        return roles_of(self.role)

    @property
    def served(self) -> list[str] | None:
        """The namespaces this process works for; None for all that the store has."""
        if not self.namespaces:
            return None if self.namespace == DEFAULT_NAMESPACE else [self.namespace]
        names = sorted(set(self.namespaces.replace(",", " ").split()))
        return None if names == ["*"] else names

    def __repr__(self) -> str:
        # A repr may appear in a log, and values such as the database URL contain passwords.
        shown = ", ".join(f"{name} from {origin}" for name, origin in self.origins.items())
        return f"Settings({shown})"
