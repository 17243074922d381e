"""App, Namespace and Client have the same resources: mypy checks them against the Protocol."""

from duly.app import App
from duly.client.client import Client
from duly.resources import Resources
from duly.services.namespace import Namespace


def held(app: App, namespace: Namespace) -> tuple[Resources, Resources]:
    """Never called: only the types matter."""
    return app, namespace


def held_over_http(client: Client) -> Resources:
    """Never called: only the types matter."""
    return client
