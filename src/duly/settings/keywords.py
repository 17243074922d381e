"""The settings as keyword arguments of an App, for type checkers."""

from __future__ import annotations

from typing import TypedDict


class Keywords(TypedDict, total=False):
    """All settings but `database`, which is positional; None uses environment, file or default."""

    namespace: str | None
    namespaces: str | None
    server: str | None
    key: str | None
    bootstrap_key: str | None
    host: str | None
    port: int | None
    role: str | None
    processes: int | None
    log_level: str | None
    mcp: bool | None
    loopback_open: bool | None
    allowed_hosts: str | None
    cors_origins: str | None
    key_rate: float | None
    concurrency: int | None
    lease: float | None
    recovery_interval: float | None
    poll: float | None
    drain: float | None
    grace: float | None
    keep_completed: float | None
    keep_dead: float | None
    inbox_retention: float | None
    prune_interval: float | None
    prune_batch: int | None
    sweep_interval: float | None
    sweep_batch: int | None
    payload_limit: int | None
    accept_queue: int | None
    http_connections: int | None
    retry: str | None
    recovery_policies: str | None
    recovery_rate: float | None
    generation: str | None
    generation_held: bool | None
    egress_allow: str | None
    webhook_secret: str | None
    secret_key: str | None
    analytics: str | None
    analytics_keep: float | None
    alert_url: str | None
    alert_late: int | None
    alert_dead: int | None
    program: str | None
    prune_schedules: bool | None
    pooler: bool | None
    connections: int | None
