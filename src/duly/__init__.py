"""duly delivers everything that is due, once, however long it was away."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duly.version import __version__

if TYPE_CHECKING:
    from duly.app import App
    from duly.client.client import Client
    from duly.domain.deliveries.failures import DependencyFailure, Fail, Retry, ValidationFailure
    from duly.domain.deliveries.retry import delays, exponential
    from duly.domain.endpoints.endpoint import endpoint
    from duly.domain.endpoints.limits import per
    from duly.domain.endpoints.signatures import SignatureRefused
    from duly.domain.endpoints.webhooks import webhook
    from duly.domain.schedules.schedule import DELIVERY_ID
    from duly.domain.time.rules import any_of, at, cron, every, except_, yearly
    from duly.errors import (
        BadSetting,
        Busy,
        Conflict,
        DulyError,
        InvalidInput,
        NotFound,
        StoreUnavailable,
    )
    from duly.receiving import verify
    from duly.records.attempt import Attempt
    from duly.records.batch import Batch, BatchOutcome
    from duly.records.dead_letter import DeadLetterFilter
    from duly.records.delivery import Accepted
    from duly.records.delivery import Delivery as DeliveryRecord
    from duly.records.limit import PerKey
    from duly.records.reason import Reason
    from duly.records.retry_plan import no_retry
    from duly.records.state import State
    from duly.services.deliveries.handles import DeliveryFailed, Handle, NotEnded
    from duly.services.namespace import Namespace
    from duly.transports.handlers.handled_delivery import HandledDelivery as Delivery

__all__ = [
    "DELIVERY_ID",
    "Accepted",
    "App",
    "Attempt",
    "BadSetting",
    "Batch",
    "BatchOutcome",
    "Busy",
    "Client",
    "Conflict",
    "DeadLetterFilter",
    "Delivery",
    "DeliveryFailed",
    "DeliveryRecord",
    "DependencyFailure",
    "DulyError",
    "Fail",
    "Handle",
    "InvalidInput",
    "Namespace",
    "NotEnded",
    "NotFound",
    "PerKey",
    "Reason",
    "Retry",
    "SignatureRefused",
    "State",
    "StoreUnavailable",
    "ValidationFailure",
    "__version__",
    "any_of",
    "at",
    "cron",
    "delays",
    "endpoint",
    "every",
    "except_",
    "exponential",
    "no_retry",
    "per",
    "verify",
    "webhook",
    "yearly",
]

HOMES = {
    "duly.domain.endpoints.endpoint": ("endpoint",),
    "duly.domain.endpoints.limits": ("per",),
    "duly.app": ("App",),
    "duly.client.client": ("Client",),
    "duly.errors": (
        *("BadSetting", "Busy", "Conflict", "DulyError", "InvalidInput", "NotFound"),
        "StoreUnavailable",
    ),
    "duly.domain.deliveries.failures": (
        *("DependencyFailure", "Fail", "Retry", "ValidationFailure"),
    ),
    "duly.domain.deliveries.retry": ("delays", "exponential"),
    "duly.domain.time.rules": ("any_of", "at", "cron", "every", "except_", "yearly"),
    "duly.domain.schedules.schedule": ("DELIVERY_ID",),
    "duly.domain.endpoints.signatures": ("SignatureRefused",),
    "duly.domain.endpoints.webhooks": ("webhook",),
    "duly.records.dead_letter": ("DeadLetterFilter",),
    "duly.receiving": ("verify",),
    "duly.records.attempt": ("Attempt",),
    "duly.records.batch": ("Batch", "BatchOutcome"),
    "duly.records.delivery": ("Accepted", "DeliveryRecord"),
    "duly.records.limit": ("PerKey",),
    "duly.records.reason": ("Reason",),
    "duly.records.retry_plan": ("no_retry",),
    "duly.records.state": ("State",),
    "duly.services.deliveries.handles": ("DeliveryFailed", "Handle", "NotEnded"),
    "duly.services.namespace": ("Namespace",),
    "duly.transports.handlers.handled_delivery": ("Delivery",),
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}
NAMES_THERE = {"Delivery": "HandledDelivery", "DeliveryRecord": "Delivery"}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Imported on first use: a command that only prints its version needs none of it.
    if name not in HOME_OF:
        raise AttributeError(f"module 'duly' has no attribute {name!r}")
    found = getattr(import_module(HOME_OF[name]), NAMES_THERE.get(name, name))
    globals()[name] = found
    return found
