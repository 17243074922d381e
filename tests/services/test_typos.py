"""A type checker finds misspelled settings and options."""

import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from duly.records.endpoint import EndpointChangeKeywords, EndpointOptions
from duly.records.schedule import ScheduleKeywords, ScheduleOptions
from duly.settings import Keywords, Settings

pytestmark = pytest.mark.requirement("S6")
ROOT = Path(__file__).parents[2]
TYPOS = """
import duly
from duly.resources import Deliveries, Resources

app = duly.App("sqlite:///duly.db", concurrency=10, drain=5)
app = duly.App(concurency=10)  # wrong
app = duly.App(concurrency="many")  # wrong


@app.schedule(duly.every("1h"), overlap="skip")
@app.handler
async def hourly(delivery: duly.Delivery[int]) -> None:
    payload: int = delivery.payload


@app.schedule(duly.every("1h"), overlaps="skip")  # wrong
@app.handler("daily", retries=3)  # wrong
async def daily(delivery: duly.Delivery[int]) -> None: ...


async def main() -> None:
    await app.schedule("a", duly.every("1h"), "work", {"team": 7}, catch_up="all", version=1)
    await app.schedule("a", duly.every("1h"), "work", catchup="all")  # wrong
    await app.schedule("a", duly.every("1h"), "work", cap="all")  # wrong
    await app.deliver("work", afer=3)  # wrong
    await app.endpoints.add("shop", "https://shop.example", rate=5, retry=duly.no_retry)
    await app.endpoints.add("shop", "https://shop.example", rates=5)  # wrong
    await app.endpoints.edit("shop", url="https://shop.example", in_flight="all")  # wrong
    async with app.worker() as working:
        await working.deliver("work", after=3)


resources: Resources = app
theirs: Resources = app.within("billing").acting_as("ann")
deliveries: Deliveries = app.deliveries
deliveries = app.keys  # wrong
"""


def test_mypy_reports_every_typo_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TYPOS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", tmp_path / "shop.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {number for number, line in enumerate(TYPOS.splitlines(), 1) if "# wrong" in line}
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in errors} == wrong, done.stdout + done.stderr
    assert 'did you mean "concurrency"?' in done.stdout


def test_keyword_arguments_match_settings_and_options() -> None:
    settings = typing.get_type_hints(Settings)
    names = [each.name for each in msgspec.structs.fields(Settings)]
    assert typing.get_type_hints(Keywords) == {
        name: settings[name] | None for name in names if name not in ("database", "origins")
    }
    assert tuple(typing.get_type_hints(ScheduleKeywords)) == ScheduleOptions.__struct_fields__
    keywords = typing.get_type_hints(EndpointChangeKeywords)
    assert sorted(keywords) == sorted(EndpointOptions.__struct_fields__)
