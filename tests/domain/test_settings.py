"""The sources of settings, their order, and the errors for invalid values."""

import re
from pathlib import Path
from typing import Any

import pytest

from duly.errors import BadSetting
from duly.settings import Described, described, load, problems

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
RANGE = re.compile(r"a (?:whole )?number from ([\d.]+) to ([\d.]+)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "duly.toml").write_text("concurrency = 30\nlease = 33.5\npooler = true\n")
    return tmp_path


def test_a_flag_comes_before_the_environment_before_the_file_before_the_default(
    folder: Path,
) -> None:
    found = load(
        {"concurrency": 10, "database": None},
        {"DULY_CONCURRENCY": "20", "DULY_LEASE": "22"},
        folder,
    )
    assert (found.concurrency, found.lease, found.pooler, found.poll) == (10, 22.0, True, 1.0)
    assert found.database == "sqlite:///duly.db"
    assert {name: found.origins[name] for name in ("concurrency", "lease", "pooler", "poll")} == {
        "concurrency": "flag",
        "lease": "DULY_LEASE",
        "pooler": "duly.toml",
        "poll": "default",
    }
    assert found.origins["database"] == "default"


def test_without_a_file_the_defaults_are_used(tmp_path: Path) -> None:
    found = load({}, {}, tmp_path)
    assert set(found.origins.values()) == {"default"}
    assert (found.namespace, found.drain, found.payload_limit) == ("default", 30.0, 262_144)


@pytest.mark.requirement("D14")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", "many"),
        ("concurrency", "0"),
        ("concurrency", "1.5"),
        ("lease", "nan"),
        ("lease", "inf"),
        ("poll", "-1"),
        ("port", "70000"),
        ("pooler", "perhaps"),
        ("namespace", ""),
        ("namespace", "a b"),
        ("namespace", "a\0b"),
        ("namespace", "a\n"),
        ("payload_limit", "2000000"),
    ],
)
def test_the_error_for_an_invalid_value_has_its_setting_and_source(
    tmp_path: Path, name: str, value: str
) -> None:
    variable = f"DULY_{name.upper()}"
    with pytest.raises(BadSetting, match=f"from {variable}") as refused:
        load({}, {variable: value}, tmp_path)
    assert refused.value.field == name


@pytest.mark.parametrize("flags", [{"concurency": 10}, {"origins": {}}])
def test_an_unknown_flag_is_refused(tmp_path: Path, flags: dict[str, Any]) -> None:
    with pytest.raises(BadSetting, match="there are database, namespace") as refused:
        load(flags, {}, tmp_path)
    assert refused.value.field == next(iter(flags))


@pytest.mark.parametrize("text", ["concurency = 10", "concurrency = ", "\udcff"])
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "duly.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadSetting) as refused:
        load({}, {}, tmp_path)
    assert refused.value.field == "duly.toml"


def test_the_error_for_an_invalid_value_in_the_file_has_the_file(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("grace = 'long'")
    with pytest.raises(BadSetting, match=r"grace: 'long' from duly.toml"):
        load({}, {}, tmp_path)


LIMITED = [(each, found) for each in described() if (found := RANGE.match(each.allowed))]


@pytest.mark.requirement("D14")
@pytest.mark.parametrize(("setting", "limits"), LIMITED, ids=lambda each: getattr(each, "name", ""))
def test_the_error_for_a_value_out_of_range_has_the_range(
    tmp_path: Path, setting: Described, limits: re.Match[str]
) -> None:
    for value in (f"-{limits[1]}1", f"{limits[2]}1"):
        with pytest.raises(BadSetting, match=f"is not valid; give {limits[0]}$") as refused:
            load({}, {setting.variable: value}, tmp_path)
        assert refused.value.field == setting.name
    for value in limits.groups():
        load({}, {setting.variable: value}, tmp_path)


def test_the_docs_have_every_setting_as_it_is() -> None:
    table = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert table == [
        f"| `{each.name}` | `{each.default}` | {each.allowed} | {each.description} |"
        for each in described()
    ]


@pytest.mark.requirement("D14")
def test_all_invalid_settings_are_reported_at_once(folder: Path) -> None:
    environment = {"DULY_PORT": "no", "DULY_LEASE": "0", "DULY_PROT": "1", "DULY_FAILPOINTS": ""}
    found = problems({"namespace": "a b"}, environment, folder)
    assert [each.field for each in found] == ["DULY_PROT", "namespace", "port", "lease"]
    assert problems({}, {}, folder) == []
    (folder / "duly.toml").write_text("prot = 1")
    assert [each.field for each in problems({}, {}, folder)] == ["duly.toml"]
