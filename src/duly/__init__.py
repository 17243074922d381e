"""duly delivers everything that is due, once, however long it was away."""

from duly.app import App
from duly.domain.delivery import Accepted, Attempt
from duly.domain.delivery import Delivery as DeliveryRecord
from duly.domain.errors import (
    Conflict,
    DulyError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)
from duly.domain.failures import DependencyFailure, Fail, Reason, Retry, ValidationFailure
from duly.domain.retry import delays, exponential, no_retry
from duly.domain.rules import at, cron, every, yearly
from duly.domain.states import State
from duly.transports.handlers import HandledDelivery as Delivery
from duly.version import __version__

__all__ = [
    "Accepted",
    "App",
    "Attempt",
    "Conflict",
    "Delivery",
    "DeliveryRecord",
    "DependencyFailure",
    "DulyError",
    "Fail",
    "InvalidInput",
    "NotFound",
    "Reason",
    "Retry",
    "State",
    "StoreUnavailable",
    "ValidationFailure",
    "__version__",
    "at",
    "cron",
    "delays",
    "every",
    "exponential",
    "no_retry",
    "yearly",
]
