"""Bad input: refused with the field and a remedy, and nothing is stored."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App
from duly.errors import BadSetting
from tests.services.conftest import record_payloads

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("target", {"target": "unheard-of"}, r"Register it with @app.handler\('unheard-of'\)"),
    ("target", {"target": "a b"}, "letters, digits"),
    ("target", {"target": None}, "letters, digits"),
    ("payload", {"payload": object()}, "cannot be written as JSON"),
    ("payload", {"payload": {"a": float("nan")}}, "use null or a string"),
    ("payload", {"payload": "x" * 300_000}, "store the large part elsewhere"),
    ("payload", {"payload": b"{"}, "not valid JSON"),
    ("payload", {"payload": "\ud800"}, "lone surrogate"),
    ("at", {"at": datetime(2026, 1, 1)}, "give one, as in"),  # noqa: DTZ001 - on purpose
    ("at", {"at": "tomorrow"}, "not a datetime"),
    ("at", {"at": datetime(9999, 1, 1, tzinfo=UTC)}, "between 1970 and 9000"),
    ("at", {"at": datetime(2026, 1, 1, tzinfo=UTC), "after": 5}, "either at or after"),
    ("after", {"after": -1}, "from 0 seconds"),
    ("after", {"after": timedelta(days=99_999)}, "to 100 years"),
    ("expires_at", {"expires_at": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
    ("key", {"key": ""}, "give 1 to 255"),
    ("key", {"key": "k" * 256}, "give 1 to 255"),
    ("key", {"key": "a\0b"}, "remove them"),
    ("key", {"key": 7}, "not text"),
    ("priority", {"priority": 0}, "from 1 to 9"),
    ("priority", {"priority": 10}, "from 1 to 9"),
    ("priority", {"priority": True}, "from 1 to 9"),
    ("tags", {"tags": "urgent"}, r"give a list, as in \['urgent'\]"),
    ("tags", {"tags": ["\0"]}, "remove them"),
    ("retry", {"retry": 3}, r"try duly.exponential\(\)"),
]


async def test_bad_input_is_refused_with_field_and_remedy_and_nothing_is_stored(app: App) -> None:
    seen = record_payloads(app)
    for field, arguments, remedy in BAD:
        given = {"target": "work", **arguments}
        with pytest.raises(duly.InvalidInput, match=remedy) as refused:
            await app.deliver(**given)
        assert refused.value.field == field, arguments
        with pytest.raises(duly.InvalidInput, match=remedy) as refused:
            await app.deliver_many([given])
        assert refused.value.field == field, arguments
    assert await app.list() == []
    assert seen == []


async def test_an_unknown_handler_lists_the_known_ones(app: App) -> None:
    record_payloads(app, "mail")
    app.expect("sms")
    with pytest.raises(duly.InvalidInput, match=r"known are: mail, sms\."):
        await app.deliver("fax")
    await app.deliver("sms")


async def test_bad_filters_are_refused_by_both_stores(app: App) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("limit", {"limit": 0}),
        ("limit", {"limit": -1}),
        ("limit", {"limit": "9"}),
        ("state", {"state": "lost"}),
        ("before", {"before": "x"}),
        ("tag", {"tag": "a\0b"}),
        ("key", {"key": "\ud800"}),
        ("target", {"target": "a\0"}),
    ]
    for field, arguments in bad:
        with pytest.raises(duly.InvalidInput) as refused:
            await app.list(**arguments)
        assert refused.value.field == ("id" if field == "before" else field)


@pytest.mark.parametrize(
    ("field", "arguments", "remedy"),
    [
        ("handler", {"name": "a b"}, "letters, digits"),
        ("timeout", {"name": "a", "timeout": 0}, "above 0"),
        ("timeout", {"name": "a", "timeout": 90_000}, "at most 86400"),
    ],
)
def test_a_bad_registration_is_refused(
    sqlite_url: str, field: str, arguments: dict[str, Any], remedy: str
) -> None:
    app = App(sqlite_url, environment={})
    with pytest.raises(duly.InvalidInput, match=remedy) as refused:
        app.handler(**arguments)(lambda delivery: None)
    assert refused.value.field == field


@pytest.mark.requirement("D14")
@pytest.mark.parametrize(
    ("settings", "field", "remedy"),
    [
        ({"database": "mysql://host/x"}, "database", "sqlite:///path/to/file.db"),
        ({"database": "duly.db"}, "database", "sqlite:///path/to/file.db"),
        ({"database": "sqlite:///"}, "database", "sqlite:///duly.db"),
        ({"concurrency": 0}, "concurrency", "from flag"),
        ({"concurency": 10}, "concurency", "there are database, namespace"),
        ({"namespace": "a b"}, "namespace", "from flag"),
    ],
)
def test_a_bad_setting_is_refused_with_its_name(
    settings: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(BadSetting, match=remedy) as refused:
        App(environment={}, **settings)
    assert refused.value.field == field


async def test_an_impossible_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    for path, remedy in (
        (tmp_path / "missing" / "duly.db", "does not exist; make it first"),
        (tmp_path / "folder.db", "cannot be written; choose another path"),
    ):
        with pytest.raises(BadSetting, match=remedy) as refused:
            await App(f"sqlite:///{path}", environment={}).open()
        assert refused.value.field == "database"


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 1000)
    app = App(f"sqlite:///{path}", environment={})
    with pytest.raises(duly.StoreUnavailable, match=r"notes.txt is not a database"):
        await app.open()
    await app.close()
    assert path.read_text().startswith("dear diary")


async def test_an_unreachable_server_is_an_error(sqlite_url: str) -> None:
    app = App("postgresql://nobody@127.0.0.1:1/none", environment={})
    with pytest.raises(duly.StoreUnavailable, match="cannot be reached"):
        await app.open()
    await app.close()


async def test_an_app_that_was_not_opened_is_an_error(sqlite_url: str) -> None:
    app = App(sqlite_url, environment={})
    record_payloads(app)
    with pytest.raises(duly.StoreUnavailable, match="is not open"):
        await app.deliver("work")
