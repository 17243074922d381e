"""Active and past alerts, and the webhook that reports them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from duly.domain import checks
from duly.domain.endpoints.endpoint import endpoint
from duly.domain.endpoints.webhooks import is_webhook, webhook
from duly.domain.monitoring.alerts import KEY
from duly.errors import InvalidInput
from duly.ports import Store
from duly.records.alert import Alert

Deliver = Callable[..., Awaitable[object]]


class Alerts:
    """The alerts of one namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def raised(self) -> Sequence[Alert]:
        """The alerts that are active now, oldest first."""
        return await self._store.alerts.raised()

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[Alert]:
        """All alerts, newest first; `before` is the last id of the previous page."""
        if before is not None and not 0 <= before < 2**62:
            raise InvalidInput("before", "give the id of an alert")
        return await self._store.alerts.page(before, checks.checked_limit(limit))


class AlertWebhook:
    """Reports alerts of a namespace to the URL or endpoint in the setting `alert_url`."""

    def __init__(self, address: str, namespace: str, deliver: Deliver) -> None:
        self._address = address
        self._namespace = namespace
        self._deliver = deliver

    async def send(self, alert: Alert, change: str) -> None:
        """Deliver that the alert was `raised` or `cleared`; the key prevents a second delivery."""
        payload = {
            "alert": alert.kind,
            "is": change,
            "subject": alert.subject,
            "detail": alert.detail,
            "namespace": self._namespace,
            "raised_at": alert.raised_at,
            "cleared_at": alert.cleared_at,
        }
        to = self._address
        target = webhook(to) if is_webhook(to) else endpoint(to)
        await self._deliver(target, payload, key=f"{KEY}{alert.id}.{change}")
