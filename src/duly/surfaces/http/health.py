"""`GET /health`: whether this process lives, and on request what it lives on."""

from __future__ import annotations

from typing import Literal

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery
from msgspec import UNSET, UnsetType

from duly.app import App
from duly.domain.errors import StoreUnavailable
from duly.domain.zones import zone_data_version
from duly.engine.backlog import Recovering
from duly.engine.supervisor import Engine
from duly.stores.statements import migrations
from duly.surfaces.http.door import OPEN
from duly.version import __version__


class StoreHealth(msgspec.Struct, frozen=True):
    """The store: its kind, the schema that this process brought it to, and if it answers."""

    kind: Literal["sqlite", "postgresql"]
    schema: int
    reachable: bool


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    status: Literal["ok", "stopping"]
    version: str | UnsetType = UNSET
    store: StoreHealth | UnsetType = UNSET
    zones: str | UnsetType = UNSET
    workers: int | UnsetType | None = UNSET
    running: int | UnsetType = UNSET
    recovering: Recovering | UnsetType | None = UNSET


class Pulse:
    """What the answer is made from."""

    def __init__(self, app: App, engine: Engine) -> None:
        self._app = app
        self._engine = engine
        self.stopping = False

    def brief(self) -> Health:
        """Whether it lives."""
        return Health(status="stopping" if self.stopping else "ok")

    async def full(self) -> Health:
        """All that is known, as far as the store answers."""
        workers = await self._workers_alive()
        single = self._app.store.single_owner
        steps = migrations("sqlite" if single else "postgres")
        kind: Literal["sqlite", "postgresql"] = "sqlite" if single else "postgresql"
        return Health(
            status=self.brief().status,
            version=__version__,
            store=StoreHealth(kind, steps[-1].number, workers is not None),
            zones=zone_data_version(),
            workers=workers,
            running=self._engine.dispatcher.running,
            recovering=self._engine.backlog.recovering,
        )

    async def _workers_alive(self) -> int | None:
        try:
            return sum(each.alive for each in await self._app.store.workers.roster())
        except StoreUnavailable:
            return None


def health_route(pulse: Pulse) -> HTTPRouteHandler:
    """The route over a pulse."""

    @get("/health", opt={"scope": OPEN, "unless": "verbose"})
    async def health(verbose: FromQuery[bool] = False) -> Response[Health]:
        answer = await pulse.full() if verbose else pulse.brief()
        code = 503 if answer.status == "stopping" else 200
        return Response(answer, status_code=code, headers={"cache-control": "no-store"})

    return health
