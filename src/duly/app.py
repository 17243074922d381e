"""App: accepts deliveries, and runs them with its handlers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, TypeVar, Unpack, overload

from duly.composition import parts_for
from duly.domain.time.rules import Rule
from duly.failpoints import arm_from
from duly.handlers import Registering
from duly.ports import Chance, Clock
from duly.records.schedule import DeclaredSchedule, ScheduleKeywords
from duly.records.target import Target
from duly.services.schedules.schedules import Declaration
from duly.settings import Keywords, load
from duly.stores.postgres.connections import Connect
from duly.system import SystemChance, SystemClock
from duly.working import Working

Function = TypeVar("Function", bound=Callable[..., Any])


class App(Working):
    """A store, the handlers of this process, and the engine.

    `database` is a URL; on PostgreSQL you may give your own asyncpg `pool` or a `connect` function
    instead. Other settings are given by name, as in `App(concurrency=10)`. `routes` are your own
    routes, which `duly serve` adds to its own, with the same authentication: Starlette routes, or
    any ASGI application.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        pool: Any = None,
        connect: Connect | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        actor: str | None = None,
        environment: Mapping[str, str] = os.environ,
        **settings: Unpack[Keywords],
    ) -> None:
        arm_from(environment)
        chosen = load({"database": database, **settings}, environment)
        clock, chance = clock or SystemClock(), chance or SystemChance()
        super().__init__(parts_for(chosen, clock, chance, pool, connect), actor)
        self.routes: list[Any] = []

    @property
    def handler(self) -> Registering:
        """Registers a function as a handler: `@app.handler`, or `@app.handler("name", timeout=5)`.

        The parameters of the function get the members of the payload with their names, decoded by
        their types. One that is annotated `duly.Delivery` gets the delivery, and so does one
        without a type that is alone or named `delivery`. What it returns is kept as its result.
        Plain functions run in threads. The function is delivered by `function.deliver(...)`, and
        stays callable.

        Options: `name`, that of the target, by default the function's module and name; `retry`, the
        plan for failed attempts; `timeout`, the seconds an attempt may take (300 by default); with
        `keep_result=False` what the function returns is not kept; `rate` and `in_flight`, how many
        deliveries all workers together start a second, and run at once; `limits=duly.per(...)`,
        the same for each key.
        """
        return Registering(self, self._home, self.handlers.add)

    def asgi(
        self,
        *,
        authorize: Callable[[Any], Awaitable[str | None]] | None = None,
        dashboard: bool = False,
    ) -> Any:
        """The HTTP API as an ASGI application, to be mounted at any path of another one.

        It has no lifespan: open the app in that of the outer application. Callers need a key, or
        `authorize(scope)` returns their scope: "read", "operate", "admin" or None. With `dashboard`
        its pages are there too.
        """
        # By name: the app must not depend on the surfaces.
        application = import_module("duly.surfaces.http.application")
        return application.api(self, authorize, dashboard=dashboard)

    @overload
    def schedule(
        self,
        name: str,
        /,
        rule: Rule,
        target: Target,
        payload: Any = None,
        **options: Unpack[Declaration],
    ) -> Coroutine[Any, Any, DeclaredSchedule]: ...

    @overload
    def schedule(
        self,
        rule: Rule,
        /,
        *,
        name: str | None = None,
        payload: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Callable[[Function], Function]: ...

    def schedule(self, first: Any, /, *rest: Any, **options: Any) -> Any:
        """Declare a schedule: by name at run time, or around a handler.

        `await app.schedule("monday", duly.cron("0 9 * * MON"), "report", {"team": 7})` creates or
        changes it; an equal declaration changes nothing. `@app.schedule(duly.cron("0 9 * * *"))` on
        a handler declares it whenever the app opens. Options: catch_up, window, cap, overlap,
        start, end, max_runs, jitter, expires_after, retry, priority, stream, tags; and
        `connection`, an open transaction of duly in which it is declared.
        """
        if isinstance(first, str):
            return self.schedules.declare(first, *rest, **options)
        return self.declarations.around(first, *rest, **options)
