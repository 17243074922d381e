"""Views of synchronous frameworks, called by many threads at once."""

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from wsgiref.util import setup_testing_defaults

import django
import flask
import psycopg
import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, JsonResponse
from django.test import override_settings
from django.urls import path

from duly import App

pytestmark = pytest.mark.requirement("P2")
Application = Callable[[dict[str, Any], Any], Any]
current: list[App] = []


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    made = App(database_url, environment={})
    made.expect("welcome")
    current[:] = [made]
    yield made
    made.sync.close()


@contextmanager
def in_flask() -> Iterator[Application]:
    site = flask.Flask("shop")

    @site.get("/users/<name>")
    def register(name: str) -> dict[str, str]:
        return {"id": current[0].sync.deliver("welcome", {"name": name}).id}

    yield site


def register(_request: HttpRequest, name: str) -> JsonResponse:
    return JsonResponse({"id": current[0].sync.deliver("welcome", {"name": name}).id})


urlpatterns = [path("users/<name>", register)]


@contextmanager
def in_django() -> Iterator[Application]:
    # Other tests in this process may have configured it for themselves.
    if not settings.configured:
        settings.configure(SECRET_KEY="x")
        django.setup()
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"]):
        yield WSGIHandler()


def get(application: Application, address: str) -> int:
    environ: dict[str, Any] = {"PATH_INFO": address, "wsgi.input": io.BytesIO()}
    setup_testing_defaults(environ)
    statuses: list[str] = []
    answer = application(environ, lambda status, *_: statuses.append(status))
    b"".join(answer)
    getattr(answer, "close", lambda: None)()
    return int(statuses[0].split()[0])


@pytest.mark.parametrize("make", [in_flask, in_django])
def test_a_view_delivers(app: App, make: Callable[[], AbstractContextManager[Application]]) -> None:
    with make() as application, ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda n: get(application, f"/users/{n}"), range(24))
        assert set(answers) == {200}
    names = {each.payload["name"] for each in app.sync.list(limit=100)}
    assert names == {str(number) for number in range(24)}


def test_a_drivers_connection_is_used_in_the_calling_thread(postgres_url: str) -> None:
    app = App(postgres_url, environment={})

    @app.handler
    def weekly(team: int) -> None: ...

    with app.sync, psycopg.connect(postgres_url) as connection:
        app.sync.stats.status()
        app.sync.deliver(weekly, {"team": 7}, connection=connection)
        weekly.using(connection=connection).sync.deliver(8)
        assert app.sync.list() == []
        connection.rollback()
        weekly.using(connection=connection).sync.deliver(9)
        connection.commit()
        assert [each.payload for each in app.sync.list()] == [{"team": 9}]
