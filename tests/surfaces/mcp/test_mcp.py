"""`duly mcp` and /mcp, used from outside as an assistant of an operator uses them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.postgres import ForeignServer, Server
from tests.surfaces.mcp.clients import MODES, Caller, over_http, over_stdio
from tests.surfaces.processes import Home
from tests.surfaces.sample_data import HERE, fill_store
from tests.surfaces.sides import fresh_home

pytestmark = [pytest.mark.requirement("L7"), pytest.mark.long]
ACTING = {
    *("retry_dead_letter", "retry_dead_letters", "trigger_schedule"),
    *(f"{verb}_{kind}" for verb in ("pause", "resume") for kind in ("schedule", "endpoint")),
    *("pause_stream", "resume_stream"),
}
WAYS = ("store", "server", "http")
"""`duly mcp` on a store, `duly mcp` through a server, and the server itself."""


class Place:
    """A filled store with a server in front of it, and keys of all scopes."""

    def __init__(self, home: Home, url: str, names: dict[str, list[str]]) -> None:
        self.home = home
        self.url = url
        self.names = names
        self.keys = {
            scope: home.ok("keys", "create", f"a {scope} key", "--scope", scope)
            for scope in ("read", "operate")
        }

    def client(
        self, way: str, scope: str = "operate", mode: str = "legacy"
    ) -> AbstractAsyncContextManager[Caller]:
        """A client with these rights."""
        key = self.keys[scope]
        if way == "http":
            return over_http(self.url, key, mode=mode)
        if way == "server":
            return over_stdio(mode=mode, DULY_SERVER=self.url, DULY_KEY=key)
        flags = ["--operate"] if scope == "operate" else []
        return over_stdio(*flags, mode=mode, DULY_DATABASE=self.home.database)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_schema: Path,
    postgres: ForeignServer | Server,
    postgres_schema: str,
) -> Iterator[Place]:
    """For all tests of the module: they change names that no other test uses."""
    stores = (sqlite_schema, postgres, postgres_schema)
    with fresh_home(request.param, tmp_path_factory.mktemp("mcp"), *stores) as home:
        names = asyncio.run(fill_store(home))
        with home.serving("--mcp", environ={"DULY_EGRESS_ALLOW": HERE}) as server:
            yield Place(home, server.url, names)


@pytest.mark.parametrize("way", WAYS)
async def test_an_assistant_sees_what_commands_show(place: Place, way: str) -> None:
    home, blocked = place.home, place.names["line"][0]
    async with place.client(way, "read") as mcp:
        status = await mcp.ok("status")
        assert {"pending", "dead", "workers"} <= status.keys()

        first = await mcp.ok("list_deliveries", target="gone", limit=3)
        then = await mcp.ok("list_deliveries", target="gone", limit=3, before=first["next"])
        listed = home.json("deliveries", "list", "--target", "gone", "--limit", "6")["items"]
        assert [*first["items"], *then["items"]] == listed

        dead = place.names["spent"][1]
        shown = await mcp.ok("show_delivery", id=dead, payload=True)
        assert shown == home.json("deliveries", "show", dead)
        assert shown["attempts"][0]["error"].startswith("ValueError: no third")

        groups = (await mcp.ok("list_dead_letter_groups", reason="validation_failure"))["items"]
        assert groups == home.json("dead", "groups", "--reason", "validation_failure")["items"]

        schedules = await mcp.ok("list_schedules", limit=2)
        assert schedules == home.json("schedules", "list", "--limit", "2")
        (leap,) = (await mcp.ok("list_schedules", after=schedules["next"], text="lea"))["items"]
        shown = await mcp.ok("show_schedule", name=leap["name"], moments=2)
        assert shown["next"] == home.json("schedules", "preview", "leap", "--count", "2")["items"]

        (stream,) = [
            each
            for each in (await mcp.ok("list_streams", state="blocked"))["items"]
            if each["name"] == blocked
        ]
        assert stream["head"]["error"] == "its bank refused"
        assert await mcp.ok("show_stream", name=blocked) == home.json("streams", "show", blocked)
        assert (await mcp.ok("list_stuck"))["items"][0]["why"]
        assert (await mcp.ok("list_outages", days=1))["at_least"] == 300
        assert (await mcp.ok("list_deliveries", sort="lateness", late_over="9d"))["items"] == []
        assert [
            each["target"] for each in (await mcp.ok("list_late", grace=0, limit=1))["items"]
        ] == ["gone"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_assistant_learns_why_a_delivery_waits(place: Place, way: str) -> None:
    home, blocked = place.home, place.names["line"][1]
    async with place.client(way, "read") as mcp:
        (behind, *_) = (await mcp.ok("list_deliveries", stream=blocked, state="pending"))["items"]
        found = await mcp.ok("explain_delivery", id=behind["id"])
        assert found["delivery"]["waits"].startswith(f"stream {blocked}, ")
        assert found["stream"]["state"] == "blocked"
        (held,) = (await mcp.ok("list_deliveries", target="endpoint:shut"))["items"][:1]
        found = await mcp.ok("explain_delivery", id=held["id"])
        assert found["endpoint"]["state_reason"] == "it moves"
        assert "paused" in found["delivery"]["waits"]
        rule = await mcp.ok("explain_rule", expression="0 9 * * MON", tz="Europe/Oslo")
        assert rule == home.json("schedules", "explain", "0 9 * * MON", "--tz", "Europe/Oslo")


@pytest.mark.parametrize("way", WAYS)
async def test_an_assistant_with_the_right_to_operate_acts(place: Place, way: str) -> None:
    home, number = place.home, WAYS.index(way)
    async with place.client(way) as mcp:
        assert (await mcp.tools()).keys() >= ACTING
        # In any order with the other ways: each finds one that is still dead.
        (dead, *_) = (await mcp.ok("list_deliveries", state="dead", target="fails"))["items"]
        assert (await mcp.ok("retry_dead_letter", id=dead["id"]))["state"] == "pending"
        name = f"bulk-{number}"
        ids = [await dead_letter(home, name) for _ in range(2)]
        result = await mcp.ok("retry_dead_letters", tag=name)
        assert (result["matching"], result["moved"], result["finished"]) == (2, 2, True)
        assert [(await home.find(id)).dead_at for id in ids] == [None, None]

        made = await mcp.ok("trigger_schedule", name="leap")
        assert (await home.find(made["id"])).schedule == "leap"
        for kind, one, commands in (
            ("schedule", "leap", "schedules"),
            ("endpoint", place.names["hook"][0], "endpoints"),
            ("stream", place.names["queue"][0], "streams"),
        ):
            paused = await mcp.ok(f"pause_{kind}", name=one, reason="the bank is away")
            assert paused["state"] == "paused"
            assert "the bank is away" in json.dumps(home.json(commands, "show", one))
            assert (await mcp.ok(f"resume_{kind}", name=one))["state"] != "paused"
    (latest,) = home.json("audit", "--limit", "1")["items"]
    assert latest["action"] == "stream.resumed"
    assert latest["actor"].startswith("mcp" if way == "store" else "key:")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
async def test_without_the_right_to_operate_nothing_changes(
    place: Place, way: str, mode: str
) -> None:
    async with place.client(way, "read", mode) as mcp:
        if way != "server":
            assert not ACTING & (await mcp.tools()).keys()
        refused = await mcp.error("pause_schedule", name="every")
        assert "--operate" in refused if way == "store" else "scope operate" in refused
    assert place.home.json("schedules", "show", "every")["state"] == "active"


async def test_a_caller_on_this_machine_without_a_key_may_only_look(place: Place) -> None:
    async with over_http(place.url) as mcp:
        assert (await mcp.ok("status"))["workers"] == 1
        assert not ACTING & (await mcp.tools()).keys()
        refused = await mcp.error("pause_schedule", name="every")
        assert refused.startswith("this needs a key with scope operate; give one")
    async with over_stdio(DULY_SERVER=place.url) as mcp:
        assert "--operate" in await mcp.error("pause_schedule", name="every")


@pytest.mark.parametrize("way", WAYS)
async def test_errors_have_the_messages_of_duly(place: Place, way: str) -> None:
    unknown = "0190a8a0-0000-7000-8000-000000000000"
    async with place.client(way) as mcp:
        not_found = await mcp.error("show_delivery", id=unknown)
        assert not_found == place.home.duly("deliveries", "show", unknown).stderr[7:-1]
        assert "no schedule 'none'" in await mcp.error("trigger_schedule", name="none")
        assert (await mcp.error("show_delivery", id="x")).startswith("id: ")
        assert (await mcp.error("list_deliveries", limit=1000)).startswith("arguments.limit: ")
        assert (await mcp.error("list_deliveries", state="lost")).startswith("arguments.state: ")
        assert "unknown field `color`" in await mcp.error("status", color="red")
        assert "missing required field `name`" in await mcp.error("show_stream")
        assert (await mcp.error("explain_rule", expression="now and then")).startswith(
            "expression: "
        )
        assert await mcp.error("delete_everything") == "no tool 'delete_everything'"
        pending = place.names["pending"][0]
        assert "only a dead letter can be retried" in await mcp.error(
            "retry_dead_letter", id=pending
        )
        assert "give ids or a filter" in await mcp.error("retry_dead_letters")
        assert "workers" in await mcp.ok("status"), "an error does not end the connection"


@pytest.mark.requirement("S2")
async def test_a_key_opens_only_its_own_namespace(place: Place) -> None:
    key = place.home.ok("keys", "create", "theirs", "--scope", "operate", "--namespace", "two")
    async with over_http(place.url, key) as mcp:
        assert (await mcp.ok("list_deliveries"))["items"] == []
        assert "no schedule 'every'" in await mcp.error("pause_schedule", name="every")


async def dead_letter(home: Home, tag: str) -> str:
    """A new dead letter, of a stream of its own; returns its id."""
    async with home.app() as app:
        app.expect("gone")
        id = (
            await app.deliver(
                "gone", {"n": 1}, stream=f"{tag}-{len(await app.list(tag=tag))}", tags=[tag]
            )
        ).id
        await app.streams.dead_letter_head((await app.get(id)).stream or "")
        return id


@asynccontextmanager
async def requests(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Plain requests."""
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=url, headers=accept, timeout=60) as client:
        yield client


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status"}}


async def test_requests_are_authenticated_like_those_of_the_api(place: Place) -> None:
    async with requests(place.url) as http:
        wrong = {"authorization": "Bearer duly_wrong"}
        assert (await http.post("/mcp", json=CALL, headers=wrong)).status_code == 401
        elsewhere = {"origin": "https://elsewhere.example"}
        assert (await http.post("/mcp", json=CALL, headers=elsewhere)).status_code == 403
        assert (await http.post("/mcp", json=CALL, headers={"host": "other"})).status_code == 421
        assert (await http.post("/mcp", json=CALL)).status_code == 200
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.post("/mcp", content=b"x" * 70_000)).status_code == 413


async def test_it_is_off_unless_the_setting_turns_it_on(home: Home) -> None:
    with home.serving() as server:
        async with requests(server.url) as http:
            assert (await http.post("/mcp", json=CALL)).status_code == 404
    home.ok("keys", "create", "ops")
    with home.serving(environ={"DULY_MCP": "true", "DULY_LOOPBACK_OPEN": "false"}) as server:
        async with requests(server.url) as http:
            assert (await http.post("/mcp", json=CALL)).status_code == 401
