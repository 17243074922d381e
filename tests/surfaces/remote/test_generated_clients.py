"""Clients that other tools generate from the OpenAPI document, against a real server.

`make test-long` generates one in Python, `make clients` those that need npm.
"""

import importlib
import json
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running, environment

pytestmark = pytest.mark.requirement("S2")
SOURCES = Path(__file__).with_name("clients")
NPM_SECONDS = 300
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
WORK = """
import duly
from duly_birthday.service import BirthdayApp

app = BirthdayApp()

@app.handler("work")
async def work(delivery):
    if delivery.payload == "bad":
        raise duly.ValidationFailure("it is bad")
"""


@pytest.fixture
def server(sqlite_home: Home) -> Iterator[Running]:
    """A server with a handler, and its OpenAPI document in its folder."""
    sqlite_home.write("work.py", WORK)
    with sqlite_home.serving("work:app") as process:
        document = httpx.get(f"{process.url}/openapi.json", timeout=DEADLINE_SECONDS)
        sqlite_home.write("openapi.json", document.text)
        yield process


@pytest.mark.long
def test_a_generated_python_client_works(server: Running, tmp_path: Path) -> None:
    package = python_client(tmp_path)
    client = package.Client(base_url=server.url, raise_on_unexpected_status=True)
    with client:
        deliver_and_list(client)
        schedule_and_pause(client)
        retry_dead_letter(client)


def python_client(folder: Path) -> ModuleType:
    (folder / "generator.yml").write_text("post_hooks: []\n")
    run(
        folder,
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"),
        *("--meta", "none", "--output-path", "duly_client", "--config", "generator.yml"),
    )
    sys.path.insert(0, str(folder))
    try:
        package = importlib.import_module("duly_client")
        for each in pkgutil.walk_packages(package.__path__, "duly_client."):
            importlib.import_module(each.name)
    finally:
        sys.path.remove(str(folder))
    return package


def call(operation: str, *arguments: Any, **options: Any) -> Any:
    """Call one operation, by its tag and id."""
    return importlib.import_module(f"duly_client.api.{operation}").sync(*arguments, **options)


def model(name: str, **fields: Any) -> Any:
    return getattr(importlib.import_module("duly_client.models"), name)(**fields)


def deliver_and_list(client: Any) -> None:
    accepted = call("deliveries.deliver", client=client, body=model("NewDelivery", target="work"))
    assert isinstance(accepted.due_at, datetime)
    tagged = model("NewDelivery", target="work", payload={"n": 1}, tags=["red"])
    red = call("deliveries.deliver", client=client, body=tagged, idempotency_key="once")
    page = call("deliveries.list_deliveries", client=client, tag="red", limit=1)
    states = importlib.import_module("duly_client.models").State
    assert not call("deliveries.list_deliveries", client=client, state=states.CANCELLED).items
    assert [each.id for each in page.items] == [red.id]
    wrong = model("NewDelivery", target="work", priority=12)
    assert call("deliveries.deliver", client=client, body=wrong).field == "priority"


def schedule_and_pause(client: Any) -> None:
    spec = model("ScheduleSpec", rule=model("RuleSpec", every="1h"), target="work")
    new = {"client": client, "body": spec, "if_none_match": "*"}
    assert call("schedules.put_schedule", "hourly", **new).change == "created"
    assert call("schedules.put_schedule", "hourly", **new).status == 412
    paused = call("schedules.pause_schedule", "hourly", client=client)
    assert (paused.state, isinstance(paused.paused_at, datetime)) == ("paused", True)


def retry_dead_letter(client: Any) -> None:
    bad = model("NewDelivery", target="work", payload="bad")
    id = call("deliveries.deliver", client=client, body=bad).id
    while not (dead := call("dead_letters.list_dead_letters", client=client).items):
        pass
    assert [each.id for each in dead] == [id]
    retried = call("dead_letters.retry_dead_letter", id, client=client)
    assert (retried.id, retried.state) == (id, "pending")


@pytest.mark.clients
@pytest.mark.timeout(NPM_SECONDS)
def test_the_document_is_valid_and_a_generated_typescript_client_works(
    server: Running, tmp_path: Path
) -> None:
    assert shutil.which("npm"), "this test needs npm, with Node.js 20 or newer"
    for each in SOURCES.iterdir():
        shutil.copy(each, tmp_path)
    run(tmp_path, "npm", "install", "--no-audit", "--no-fund", "--silent")
    found = json.loads(run(tmp_path, "npx", "redocly", "lint", "--format=json", "openapi.json"))
    assert found["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, found["problems"]
    run(tmp_path, "npx", "openapi-typescript", "openapi.json", "--output", "api.d.ts")
    run(
        tmp_path,
        *("npx", "tsc", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022"),
        *("--module", "nodenext", "--skipLibCheck", "false", "program.ts"),
    )
    assert run(tmp_path, "node", "program.js", server.url).strip() == "ok"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(QUIET),
        capture_output=True,
        text=True,
        check=False,
        timeout=NPM_SECONDS,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout
