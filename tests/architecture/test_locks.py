"""Dependencies: each has an upper bound, and the locks have versions and hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = Path(__file__).parents[2]
LOCKED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+) (?:; (?P<marker>.*) )?\\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def declared() -> dict[str, list[Requirement]]:
    """The requirements of pyproject.toml and build.in, by the lock that has to contain them."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = project["project"]["dependencies"]
    deploy = [*needed, *extras["analytics"], *extras["tracing"]]
    lines = (PROJECT / "requirements" / "build.in").read_text().splitlines()
    build = [*project["build-system"]["requires"], *(each for each in lines if each[0] != "#")]
    everything = {
        "build": build,
        "deploy": deploy,
        "dev": [*deploy, *extras["mcp"], *extras["dev"]],
    }
    return {name: [Requirement(each) for each in texts] for name, texts in everything.items()}


def locked(name: str) -> dict[str, list[Version]]:
    """The versions in a lock; several if they depend on the interpreter."""
    found: dict[str, list[Version]] = {}
    for line in (PROJECT / "requirements" / f"{name}.txt").read_text().splitlines():
        if match := LOCKED.match(line):
            found.setdefault(match["name"], []).append(Version(match["version"]))
    return found


@pytest.mark.parametrize("lock", ["build", "deploy", "dev"])
def test_every_dependency_has_an_upper_bound(lock: str) -> None:
    open_ended = [
        each.name
        for each in declared()[lock]
        if not any(part.operator in ("<", "<=", "==", "~=") for part in each.specifier)
    ]
    assert open_ended == []


@pytest.mark.parametrize("lock", ["build", "deploy", "dev"])
def test_a_lock_has_every_declared_dependency(lock: str) -> None:
    """`make lock` updates it."""
    found = locked(lock)
    behind = [
        str(each)
        for each in declared()[lock]
        if not any(each.specifier.contains(version) for version in found.get(_name(each), []))
    ]
    assert behind == []


def _name(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)


@pytest.mark.parametrize("lock", ["build", "deploy", "dev"])
def test_everything_in_a_lock_has_a_version_and_hashes(lock: str) -> None:
    lines = (PROJECT / "requirements" / f"{lock}.txt").read_text().splitlines()
    entries = [line for line in lines if not line.lstrip().startswith("#")]
    assert [each for each in entries if not (LOCKED.match(each) or HASH.match(each))] == []
    for entry, following in zip(entries, [*entries[1:], ""], strict=True):
        assert not LOCKED.match(entry) or HASH.match(following), entry
    # The index of packages is a choice of the person who installs them.
    assert not any("://" in line for line in lines)


def test_the_tested_versions_are_the_deployed_ones() -> None:
    tested = locked("dev")
    assert {name: found for name, found in locked("deploy").items() if tested[name] != found} == {}
