"""Every Python block of the docs runs: here, or in the test that is named for it."""

import ast
import asyncio
import io
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

import duly
from duly import App
from duly.domain.endpoints.signatures import new_secret, secret_key, signatures
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import run_until_idle
from tests.http.conftest import calling

pytestmark = pytest.mark.requirement("S1", "S6")
DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ELSEWHERE = {
    "client.md": "tests/client/test_page.py",
    "frameworks.md": "tests/surfaces/docs/test_frameworks.py",
    "guides/cron-to-webhook.md": "tests/surfaces/docs/test_guides.py",
    "guides/outbox-django.md": "tests/surfaces/docs/test_guides.py",
    "guides/outbox-sqlalchemy.md": "tests/surfaces/docs/test_guides.py",
    "sync.md": "tests/services/sync/test_page.py",
    "unique.md": "tests/surfaces/docs/test_unique.py",
}
"""Pages whose programs other tests run."""
LEFT_OUT = {
    ("http.md", 0): "tests/surfaces/remote/test_generated_clients.py makes such a client",
    ("outbox.md", 1): "tests/stores/deliveries/test_outbox.py has both kinds of connections",
    ("outbox.md", 2): "the guides have a program for Django and one for SQLAlchemy",
    ("tour.md", 1): "tests/services/test_first_steps.py runs it",
}
"""Blocks that do not run as they are, and what has the same."""
TABLES = (
    "create table orders (number integer)",
    "create table payments (id text, amount integer)",
)
Names = dict[str, Any]


def blocks(page: str) -> list[str]:
    """The Python blocks of a page that are run here."""
    found = BLOCK.findall((DOCS / page).read_text())
    return [code for number, code in enumerate(found) if (page, number) not in LEFT_OUT]


async def run(code: str, names: Names) -> Any:
    """Run a block as the body of a function; returns its result, and adds what it defines."""
    kept = "names.update({name: each for name, each in locals().items()})"
    body = f"try:\n{textwrap.indent(code, '    ')}\nfinally:\n    {kept}"
    scope = {**names, "names": names}
    exec(compile(f"async def block():\n{textwrap.indent(body, '    ')}\n", "a page", "exec"), scope)
    return await scope["block"]()


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[App]:
    """An app on PostgreSQL, for which the statements in the docs are written."""
    app = App(postgres_url, environment={})
    app.expect(*("log", "ship", "report", "report.weekly", "receipt", "order.placed"))
    async with app:
        async with app.transaction() as transaction:
            for each in TABLES:
                await transaction.execute(each)
        yield app


async def alone(app: App, page: str) -> None:
    """Run each block with nothing but an app."""
    for code in blocks(page):
        await run(code, {"app": app, "duly": duly})


async def dead_letters(app: App, page: str) -> None:
    """Run each statement on a dead letter of its own."""
    (code,) = blocks(page)
    names: Names = {"app": app, "duly": duly}
    for number, statement in enumerate(statements(code)):
        names["id"] = (await app.deliver("log", 1, stream=f"s{number}", after=60)).id
        await app.streams.dead_letter_head(f"s{number}")
        await run(statement, names)


async def limits(_app: App, page: str) -> None:
    (code,) = blocks(page)
    names: Names = {"__name__": "reports"}
    await run(code, names)
    async with names["app"] as opened:
        limit = await opened.limits.get("report")
    assert (limit.rate, limit.in_flight) == (10.0, 2)


async def recovery(app: App, page: str) -> None:
    (code,) = blocks(page)
    id = (await app.deliver("log", 1, stream="s", after=60)).id
    await app.streams.dead_letter_head("s")
    await app.endpoints.add("bank", "https://example.org/hook")
    await run(code, {"app": app, "duly": duly, "id": id})
    assert (await app.get(id)).disposition == "given_up"
    (policy,) = await app.recovery.policies()
    assert (policy.target, policy.tries) == ("endpoint:bank", 10)


def statements(code: str) -> list[str]:
    """The statements of a block, which may await."""
    (function,) = ast.parse(f"async def block():\n{textwrap.indent(code, '    ')}").body
    assert isinstance(function, ast.AsyncFunctionDef)
    return [ast.unparse(each) for each in function.body]


async def completed(app: App, target: str, payload: Any = None) -> None:
    """Deliver to the handler of a block, and see that it works."""
    accepted = await app.deliver(target, payload)
    await run_until_idle(app)
    found = await app.get(accepted.id)
    assert found.state == "completed", found.error


async def handlers(app: App, page: str) -> None:
    for code in blocks(page):
        await run(code, {"app": app, "duly": duly})
    await completed(app, "payment")
    await completed(app, "import", {"pages": 3})
    await completed(app, "resize", {"images": ["one.png"]})


async def functions(app: App, page: str) -> None:
    """Run each statement, and what it has delivered."""
    names: Names = {"app": app, "duly": duly}
    for code in blocks(page):
        for statement in statements(code):
            await run(statement, names)
            await run_until_idle(app)
    assert names["delivery"].result == str(names["price"]) == "19.90"
    assert {each.state for each in await app.list()} == {"completed", "pending"}


async def tour(app: App, page: str) -> None:
    weekly, payment = blocks(page)
    defined: Names = {}
    await run(weekly, defined)
    assert isinstance(defined["app"], App)
    await run(payment, {"app": app, "duly": duly})
    await completed(app, "payment")


async def outbox(app: App, page: str) -> None:
    accept, receive, once = blocks(page)
    await run(accept, {"app": app})
    names: Names = {"app": app, "message_id": "m1"}
    for _ in range(2):
        assert await run(receive, names) == {"paid": True}
    await run(once, {"app": app})
    for _ in range(2):
        await completed(app, "payment.received", {"id": "m2"})
    async with app.transaction() as transaction:
        paid = await transaction.fetch("select id from payments order by id")
    assert [id for (id,) in paid] == ["m1", "m2"]


async def steps(app: App, page: str) -> None:
    done: list[str] = []

    async def ship(_payload: Any, _receipt: Any) -> Any:
        done.append("ship")
        return SimpleNamespace(number=7)

    def ship_plainly(_payload: Any, _receipt: Any) -> int:
        done.append("ship")
        return 7

    for code, shipping in zip(blocks(page), (ship, ship_plainly), strict=True):
        other = App(app.settings.database, environment={})
        names: Names = {"app": other, "charge": lambda _: done.append("charge")}
        await run(code, names | {"ship": shipping, "notify": lambda _: done.append("notify")})
        async with other:
            await completed(other, "order.placed", {"order": 7})
    assert done == ["charge", "ship", "notify", "charge", "ship"]


async def webhooks(app: App, page: str) -> None:
    *sending, checking = blocks(page)
    for code in sending:
        with_billing = {each.name for each in await app.endpoints.list()}
        if "billing" in with_billing:
            await app.endpoints.remove("billing", cancel_waiting=True)
        await run(code, {"app": app, "duly": duly, "print": lambda *_: None})
    secret, at = new_secret(b"k" * 24), int(app.clock.now().timestamp())
    signed = signatures([secret_key(secret)], "msg_1", at, b"{}")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signed}
    names: Names = {"duly": duly, "body": b"{}", "headers": headers, "secret": secret}
    await run(checking, names)
    assert names["id"] == "msg_1"


async def moving(app: App, page: str) -> None:
    await app.deliver("log", 1, after=60)
    (code,) = blocks(page)
    file = io.BytesIO()
    await run(code, {"app": app, "file": file})
    first, *_, last = file.getvalue().decode().splitlines()
    assert ('"kind":"duly-export"' in first, '"deliveries":1' in last) == (True, True)


async def http(app: App, page: str) -> None:
    own, mounted = blocks(page)
    defined: Names = {}
    await run(own, defined)
    app.routes.extend(defined["app"].routes)
    async with calling(app, ProcessHealth(app, app.engine())) as client:
        assert (await client.get("/hello")).text == "hello"
    names: Names = {"app": app, "FastAPI": FastAPI}
    await run(mounted, names)
    assert [each.path for each in names["api"].routes][-1] == "/tasks"


async def dashboard(app: App, page: str) -> None:
    (code,) = blocks(page)
    names: Names = {}
    await run(code, names)
    assert [each.path for each in names["api"].routes][-1] == "/admin/duly"
    # The lifespan opens the app, as when a server starts.
    async with names["api"].router.lifespan_context(names["api"]):
        assert (await names["app"].stats.status()).store == "sqlite"


async def birthdays(_app: App, page: str) -> None:
    occasion, service = blocks(page)
    with open("anniversary.py", "w") as file:  # noqa: ASYNC230
        file.write(occasion)
    names: Names = {}
    await run(service, names)
    assert isinstance(names["app"], App)


async def batches(app: App, page: str) -> None:
    program, *others = blocks(page)
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    printed, _ = await asyncio.wait_for(done.communicate(), timeout=60)
    assert f"$ python report.py\n{printed.decode()}```" in (DOCS / page).read_text()
    app.expect("page.render", "report.ready")
    names: Names = {"app": app, "duly": duly}
    for code in others:
        await run(code, names)
    assert (names["found"].state, names["found"].waiting) == ("closed", 4)


RUNS: dict[str, Callable[[App, str], Awaitable[None]]] = {
    "batches.md": batches,
    "birthdays.md": birthdays,
    "calendars.md": alone,
    "dashboard.md": dashboard,
    "dead-letters.md": dead_letters,
    "fairness.md": alone,
    "functions.md": functions,
    "handlers.md": handlers,
    "http.md": http,
    "limits.md": limits,
    "moving.md": moving,
    "outbox.md": outbox,
    "recovery.md": recovery,
    "retries.md": alone,
    "schedules.md": alone,
    "steps.md": steps,
    "streams.md": alone,
    "tour.md": tour,
    "webhooks.md": webhooks,
}


def test_every_page_with_python_is_run() -> None:
    pages = {str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md")}
    with_python = {each for each in pages if BLOCK.search((DOCS / each).read_text())}
    assert {*ELSEWHERE, *RUNS} == with_python
    for page, number in LEFT_OUT:
        assert number < len(BLOCK.findall((DOCS / page).read_text())), (page, number)


@pytest.mark.parametrize("page", RUNS)
async def test_the_blocks_of_a_page_run(
    app: App, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    await RUNS[page](app, page)
