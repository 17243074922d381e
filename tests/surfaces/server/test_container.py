"""The files for containers: every path in them exists, and their steps work."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from duly.settings import Settings, load
from duly.settings.loading import problems
from duly.surfaces.cli.command_line import COMMANDS
from duly.surfaces.server.serving import PATIENCE_SECONDS
from tests.support.containers import PROJECT, arguments, command, environment, instructions
from tests.support.postgres import free_port
from tests.surfaces.processes import DEADLINE_SECONDS, Home

pytestmark = pytest.mark.requirement("S1")
COMPOSE = yaml.safe_load((PROJECT / "compose.yaml").read_text())
TOKEN = "duly_abcdefghijklmnop_" + "abcdefghijklmnopqrstuvwxyz" * 2


def test_every_source_of_the_image_exists() -> None:
    sources = [
        part
        for each in arguments("COPY")
        if not each.startswith("--from")
        for part in shlex.split(each)[:-1]
    ]
    assert [each for each in sources if not (PROJECT / each).exists()] == []
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert [each for each in sources if f"!{each.rstrip('/')}" not in ignored] == []
    locks = re.findall(r"-r (\S+)", " ".join(arguments("RUN")))
    assert sorted(locks) == ["requirements/build.txt", "requirements/deploy.txt"]
    assert all((PROJECT / each).exists() for each in locks)
    python = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["classifiers"]
    for image in arguments("FROM"):
        version = re.match(r"python:([0-9.]+)-slim\b", image)
        assert version is not None
        assert f"Programming Language :: Python :: {version[1]}" in python


def test_the_command_of_the_image_exists() -> None:
    assert command("ENTRYPOINT") == ["duly"]
    assert command("CMD")[0] in COMMANDS
    assert command("HEALTHCHECK")[:2] == ["duly", "health"]
    assert command("HEALTHCHECK")[1] in COMMANDS
    given = {name: each for name, each in environment().items() if name.startswith("DULY_")}
    settings = load({}, given, PROJECT / "tests")
    assert problems({}, given, PROJECT / "tests") == []
    assert settings.database == "sqlite:////data/duly.db"
    assert arguments("WORKDIR")[-1] == arguments("VOLUME")[-1] == "/data"
    assert int(arguments("USER")[-1]) > 0
    assert arguments("EXPOSE") == [str(settings.port)]


def test_the_compose_file_is_valid() -> None:
    duly, postgres = COMPOSE["services"]["duly"], COMPOSE["services"]["postgres"]
    variables = {"POSTGRES_PASSWORD": "p/w#1@x", "DULY_BOOTSTRAP_KEY": TOKEN}
    given = {name: filled(each, variables) for name, each in duly["environment"].items()}
    assert problems({}, given, PROJECT / "tests") == []
    settings = load({}, given, PROJECT / "tests")
    assert settings.bootstrap_key == TOKEN
    made = postgres["environment"]
    assert settings.database == (
        f"postgresql://{made['POSTGRES_USER']}:p/w#1@x@postgres:5432/{made['POSTGRES_DB']}"
    )
    assert duly["build"] == "."
    assert duly["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert duly["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    grace = float(duly["stop_grace_period"].removesuffix("s"))
    assert grace > Settings().drain + PATIENCE_SECONDS
    volumes = [each.partition(":")[0] for each in postgres["volumes"]]
    assert volumes == list(COMPOSE["volumes"])
    assert postgres["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    # A key or a password in this file would be public.
    assert made["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert duly["environment"]["DULY_BOOTSTRAP_KEY"].startswith("${DULY_BOOTSTRAP_KEY:?")


def filled(text: str, variables: dict[str, str]) -> str:
    """The text with its variables replaced, as compose does."""
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: variables.get(found[1], ""), text)


def test_the_health_command_checks_a_server(home: Home) -> None:
    with home.serving("--host", "127.0.0.1") as server:
        port = {"DULY_HOST": "0.0.0.0", "DULY_PORT": server.url.rpartition(":")[2]}
        assert home.json("health", environ=port) == {
            "ok": True, "status": 200, "answer": {"status": "ok"},
        }  # fmt: skip
        assert home.ok("health", "--ready", "--server", server.url).startswith("ok: ")
        ill = home.duly("health", "--server", f"{server.url}/none")
        assert (ill.returncode, ill.stdout.partition(":")[0]) == (1, "not ok")
    unreachable = home.duly("health", environ=port)
    assert unreachable.returncode == 4
    assert "does `duly serve` run there?" in unreachable.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_steps_of_the_image_make_a_healthy_server_that_stops(tmp_path: Path) -> None:
    """Each step of the Dockerfile, in a temporary folder instead of a container.

    Not tested: the base image, the user, and what only a container engine does.
    """
    root, build = tmp_path / "root", tmp_path / "root" / "build"
    build.mkdir(parents=True)
    (root / "data").mkdir()
    for name, argument in instructions():
        if name == "COPY" and not argument.startswith("--from"):
            copied(argument, build)
        elif name == "RUN" and not argument.startswith("useradd"):
            subprocess.run(
                ["/bin/sh", "-ec", within(argument, root)],
                cwd=build,
                # Compiling everything takes longer than the rest, and would be used only once.
                env={**os.environ, "PIP_NO_COMPILE": "1"},
                check=True,
                timeout=500,
            )
    environ = {name: within(each, root) for name, each in environment().items()}
    path = environ.pop("PATH").replace("$PATH", os.environ["PATH"])
    port = {"DULY_PORT": str(free_port()), "DULY_BOOTSTRAP_KEY": TOKEN}
    given = {**environ, **port, "PATH": path, "HOME": str(root / "data")}
    run = [*command("ENTRYPOINT"), *command("CMD")]
    with subprocess.Popen(
        run, cwd=root / "data", env=given, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            lines = iter(server.stderr.readline, "")
            assert any('"event":"Serving"' in line for line in lines)
            well = subprocess.run(command("HEALTHCHECK"), env=given, timeout=DEADLINE_SECONDS)
            assert well.returncode == 0
            assert (root / "data" / "duly.db").exists()
            server.send_signal(signal.SIGTERM)
            assert server.wait(DEADLINE_SECONDS) == 0
        finally:
            server.kill()
    assert subprocess.run(command("HEALTHCHECK"), env=given, timeout=30).returncode != 0


def within(text: str, root: Path) -> str:
    """The text with the container's folders moved to the root, and this interpreter as Python."""
    moved = re.sub(r"(?<![\w.])/(opt|data)\b", rf"{root}/\1", text)
    return re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", moved)


def copied(argument: str, build: Path) -> None:
    *sources, target = shlex.split(argument)
    for each in sources:
        if (PROJECT / each).is_dir():
            shutil.copytree(PROJECT / each, build / target, dirs_exist_ok=True)
        else:
            shutil.copy(PROJECT / each, build / target)
