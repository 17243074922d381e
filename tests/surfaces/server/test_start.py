"""How a server starts: in order, or not at all and with an error."""

import http.client
import signal
import socket
import sys

import pytest

from duly.domain.time.zones import zone_data_version
from duly.stores.statements import migrations
from tests.support.postgres import free_port
from tests.surfaces.processes import Home

HANGS = """
import asyncio, logging, duly
app = duly.App()

@app.handler("hang")
async def hang(delivery):
    logging.getLogger("shop").info("in", extra={"event": "Entered"})
    await asyncio.Event().wait()
"""


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.requirement("D3")
async def test_the_port_opens_only_after_the_work_of_dead_workers_is_reclaimed(home: Home) -> None:
    home.write("shop.py", HANGS)
    id = await home.deliver("hang")
    short = {"DULY_LEASE": "0.5"}
    with home.running("work", "shop:app", environ=short) as first:
        first.wait_for("Entered")
        first.signal(signal.SIGKILL)
        first.end()
    assert (await home.find(id)).state == "processing"
    await home.lease_ran_out()

    port = free_port()
    stopped = short | {"DULY_FAILPOINTS": "reclaim.before=stop@1"}
    with home.running("serve", "shop:app", "--port", str(port), environ=stopped) as second:
        second.wait_until_stopped()
        assert not is_open(port)
        second.signal(signal.SIGCONT)
        assert second.wait_for("Reclaimed")["deliveries"] == 1
        second.wait_for("Serving")
        assert is_open(port)


@pytest.mark.requirement("D3")
async def test_a_server_refuses_a_schema_newer_than_itself(home: Home) -> None:
    async with home.app():
        pass
    await home.execute("insert into duly.migrations (number, name) values (99, 'later')")
    done = home.process("serve", "--port", "0")
    assert done.returncode == 1
    assert "schema 99" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("D14")
def test_a_missing_database_ends_the_start_with_code_4(sqlite_home: Home) -> None:
    away = f"postgresql://duly@127.0.0.1:{free_port()}/none"
    done = sqlite_home.process("serve", "--port", "0", database=away)
    assert done.returncode == 4
    assert done.stderr.startswith("error: PostgreSQL cannot be reached")
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("D14")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", "banana"),
        ("database", "mysql://somewhere/else"),
        ("database", "sqlite:////no/such/folder/duly.db"),
        ("database", "sqlite:////tmp"),
    ],
)
def test_an_invalid_setting_ends_the_start_with_code_2_and_its_name(
    sqlite_home: Home, name: str, value: str
) -> None:
    done = sqlite_home.process("serve", environ={f"DULY_{name.upper()}": value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {name}: ")


@pytest.mark.requirement("D14")
def test_an_unwritable_path_ends_the_start_with_code_2(sqlite_home: Home) -> None:
    # Not even root can create a file there.
    done = sqlite_home.process("serve", "--port", "0", "--database", "sqlite:////proc/duly.db")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_a_second_server_on_a_sqlite_file_is_refused_and_names_the_first(sqlite_home: Home) -> None:
    with sqlite_home.serving() as first:
        done = sqlite_home.process("serve", "--port", str(first.url.rpartition(":")[2]))
    assert done.returncode == 1
    assert f"process {first.process.pid}" in done.stderr


async def test_a_port_in_use_is_refused_and_nothing_keeps_running(sqlite_home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = sqlite_home.process("serve", "--port", str(port))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    async with sqlite_home.app() as app:
        assert await app.store.workers.all() == []


@pytest.mark.requirement("D3")
def test_an_open_port_means_a_migrated_store_and_a_running_worker(home: Home) -> None:
    with home.serving() as server:
        assert server.get("/health") == (200, "application/json", {"status": "ok"})
        status, _, full = server.get("/health?verbose=true")
    assert status == 200
    kind = "sqlite" if home.database.startswith("sqlite") else "postgresql"
    schema = migrations("sqlite")[-1].number
    assert full["store"].pop("latency_milliseconds") > 0
    assert full["store"] == {"kind": kind, "schema": schema, "reachable": True}
    assert (full["status"], full["workers"], full["running"]) == ("ok", 1, 0)
    assert full["version"]
    assert full["zones"] == zone_data_version()
    assert full["recovering"] is None


@pytest.mark.parametrize("is_found", [True, False], ids=["by its name", "in full"])
def test_the_start_logs_the_version_the_data_and_a_command_to_try(
    sqlite_home: Home, is_found: bool
) -> None:
    sqlite_home.write("duly", "")
    (sqlite_home.folder / "duly").chmod(0o755)
    looked_in = {"PATH": str(sqlite_home.folder) if is_found else ""}
    with sqlite_home.running("serve", "--port", "0", environ=looked_in) as server:
        logged = server.wait_for("Serving")
    assert logged["version"]
    assert logged["url"].startswith("http://127.0.0.1:")
    assert logged["data"] == f"{sqlite_home.folder}/duly.db"
    duly = "duly" if is_found else f"{sys.executable} -m duly"
    assert f'{duly} deliver log \'{{"hello": "world"}}\'' in logged["try"]


@pytest.mark.parametrize("others", [("log",), ()])
def test_the_command_to_try_is_for_a_handler_that_takes_its_payload(
    sqlite_home: Home, others: tuple[str, ...]
) -> None:
    program = "import duly\napp = duly.App()\n@app.handler\nasync def add(a: int, b: int): ...\n"
    program += "".join(f"@app.handler\nasync def {name}(delivery): ...\n" for name in others)
    sqlite_home.write("shop.py", program)
    with sqlite_home.running("serve", "shop:app", "--port", "0") as server:
        tried = server.wait_for("Serving")["try"]
    named = [each.partition(" deliver ")[2].split(" ")[0] for each in tried]
    assert [each for each in named if each] == [f"shop.{name}" for name in others]


def test_every_http_error_is_problem_json(sqlite_home: Home) -> None:
    with sqlite_home.serving() as server:
        answers = [
            server.get("/nothing"),
            server.get("/health", "POST"),
            server.get("/health?verbose=banana"),
        ]
        with pytest.raises(http.client.HTTPException):
            server.get("/health HTTP/9.9\r\nbad")
    assert [status for status, _, _ in answers] == [404, 405, 422]
    for status, kind, body in answers:
        assert kind == "application/problem+json"
        assert body["status"] == status
        assert body["title"]
