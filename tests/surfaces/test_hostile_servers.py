"""Servers that are none of ours: what they answer ends no command in a traceback."""

import io
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from duly.faces.exporting import Told
from duly.surfaces.cli.export import _written
from duly.surfaces.cli.render import json_text
from tests.surfaces.sides import command
from tests.surfaces.test_remote_troubles import NAMED, NOBODY, PROBLEM, answering

pytestmark = pytest.mark.requirement("C10", "X5")
INVALID = b'{"store": "\xff", "detail": "\xff", "field": "a", "payload": "\xff"}'


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_health_takes_an_answer_that_is_no_text(status: int, code: int) -> None:
    with answering((status, NAMED, INVALID)) as (url, _):
        done = command("health", "--server", url, "--json", environ={})
    assert done.code == code
    assert json.loads(done.out) == {"ok": code == 0, "status": status, "answer": None}


@pytest.mark.parametrize(("status", "kind"), [(200, NAMED), (422, PROBLEM)])
@pytest.mark.parametrize("arguments", [("deliveries", "show", NOBODY), ("status",)], ids=str)
def test_an_answer_that_is_no_text_cannot_be_read(
    status: int, kind: dict[str, str], arguments: tuple[str, ...]
) -> None:
    with answering((status, kind, INVALID)) as (url, _):
        done = command(*arguments, "--json", "--server", url, environ={})
    assert done.code == 4
    assert "Traceback" not in done.err


def test_json_with_bytes_that_are_no_text_can_be_shown() -> None:
    assert json_text({"payload": msgspec.Raw(b'"a\xffb"')}) == '{"payload":"a\ufffdb"}'


async def test_an_export_with_bytes_that_are_no_text_can_be_shown() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    async def lines() -> AsyncIterator[Told]:
        yield Told(b'"a\xffb"\n')

    out = Terminal()
    await _written(lines(), out, lambda _count: None)
    assert out.getvalue().decode() == '"a\ufffdb"\n'
