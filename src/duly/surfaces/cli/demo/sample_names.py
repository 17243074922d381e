"""The names of the sample traffic, by which it is recognised and removed."""

from __future__ import annotations

HOST = "127.0.0.1"
"""Where its receiver listens."""
TAG = "demo"
HEALTHY, SLOW, FLAKY, FAILING, PICKY = ENDPOINTS = (
    "demo-healthy",
    "demo-slow",
    "demo-flaky",
    "demo-failing",
    "demo-picky",
)
HEARTBEAT, DIGEST, NIGHTLY, HOLIDAY = SCHEDULES = (
    "demo-heartbeat",
    "demo-digest",
    "demo-nightly",
    "demo-holiday",
)
CARTS = ("demo-cart-1", "demo-cart-2", "demo-cart-3")
INVOICES, RETURNS = "demo-invoices", "demo-returns"
STREAMS = (*CARTS, INVOICES, RETURNS)
