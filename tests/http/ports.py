"""The site of an app with given settings, and requests to it from given addresses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from httpx import ASGITransport, AsyncClient, Response

from duly import App
from duly.surfaces.dashboard.files import dashboard_files
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.surfaces.http.openapi.document import describe
from duly.surfaces.http.site import Site
from duly.testing import VirtualClock

ANOTHER_MACHINE = "203.0.113.7"
DASHBOARD = {f"/dashboard/{path}" for path in dashboard_files()}
OUTSIDE_API = DASHBOARD | {
    *("/", "/docs", "/docs/openapi.json", "/openapi.json", "/health", "/ready", "/metrics"),
}
"""The paths that do not belong to the API."""


def document_of(site: Site) -> dict[str, Any]:
    """The OpenAPI document of a site, as it is served."""
    routes = [each for each in site.routes if each.path not in OUTSIDE_API]
    return describe(routes, needs_keys=site.authenticator.needs_keys)


class Port:
    """The site of an app, and requests to it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.process_health = ProcessHealth(app, app.engine())
        self.site = site(app, self.process_health)

    async def request(
        self,
        path: str = "/v1/deliveries/01980000-0000-7000-8000-000000000000",
        method: str = "GET",
        *,
        key: str | None = None,
        peer: str = ANOTHER_MACHINE,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> Response:
        """Send a request, from another machine unless a `peer` is given."""
        given = {"authorization": f"Bearer {key}"} if key else {}
        transport = ASGITransport(self.site, client=(peer, 4711))
        async with AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1",
            headers={"content-type": "application/json"},
        ) as client:
            return await client.request(method, path, headers=given | (headers or {}), **options)

    async def status(self, *arguments: Any, **options: Any) -> int:
        """Send a request; returns only the status."""
        return (await self.request(*arguments, **options)).status_code

    async def token(self, scope: str, namespace: str = "default") -> str:
        """Create a key with that scope; returns its token."""
        return (await self.app.within(namespace).keys.create(scope, scope=scope)).token


@asynccontextmanager
async def port(database_url: str, clock: VirtualClock, **settings: Any) -> AsyncIterator[Port]:
    """Open an app with those settings; yields its port."""
    app = App(database_url, clock=clock, environment={}, **settings)
    app.expect("work")
    async with app:
        yield Port(app)
