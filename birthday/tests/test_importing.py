"""Many people at once: over HTTP, and from a file."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from birthday.tests.people import ANN, Service
from duly.errors import InvalidInput
from duly.failpoints import FailpointRaised, arm
from duly_birthday.importing import PACE, Pace, Summary, import_people
from duly_birthday.wire import Birthdays
from tests.support.forks import start

pytestmark = pytest.mark.requirement("B1")
HEADER = "firstName,lastName,dateOfBirth,timezone,feb29\n"
FILE = HEADER + (
    "Ann,Lee,1990-11-15,America/New_York,\n"
    "Bob,,1990-11-15,Mars/Olympus,\n"
    "Cid,Ng,2000-02-29,UTC,mar1\n"
    "Ann,Lee,1990-11-15,America/New_York,\n"
    "Dee,Ray\n"
    "Eve,Fox,1990-01-01,Asia/Tokyo,never\n"
)
REFUSED = {3: "lastName is empty", 5: "equal to line 2", 6: "has 2 fields", 7: "feb29 is none"}


async def import_text(service: Service, text: str) -> tuple[Summary, dict[int, str]]:
    refused: dict[int, str] = {}
    birthdays = Birthdays(service.app, service.app.manner)
    summary = await import_people(birthdays, io.StringIO(text), refused.__setitem__, lambda _: None)
    return summary, refused


async def test_many_are_registered_and_invalid_ones_are_reported(service: Service) -> None:
    people = [ANN, ANN | {"timezone": "x", "firstName": ""}, ANN | {"firstName": "Bob"}]
    answer = await service.client.post("/user/bulk", json=people)
    assert answer.status_code == 200, answer.text
    imported = answer.json()
    assert (imported["created"], len(imported["ids"])) == (2, 2)
    ((refused),) = imported["refused"]
    assert refused["index"] == 1
    assert {each["field"] for each in refused["details"]} == {"firstName", "timezone"}
    assert await service.stored() == (2, 2, 2)
    service.go_to(datetime(2026, 11, 15, 14, tzinfo=UTC))
    await service.run()
    assert sorted(await service.greetings()) == [
        "Hey, Ann Lee it's your birthday",
        "Hey, Bob Lee it's your birthday",
    ]
    for body in ([], [ANN] * 1001, ANN, [1]):
        answer = await service.client.post("/user/bulk", json=body)
        assert answer.status_code == 400, answer.text


async def test_a_file_is_imported_once_and_its_errors_are_reported(service: Service) -> None:
    summary, refused = await import_text(service, FILE)
    assert summary == Summary(lines=6, created=2, known=0, refused=4)
    assert refused.keys() == REFUSED.keys()
    assert all(REFUSED[number] in reason for number, reason in refused.items()), refused
    assert (await import_text(service, FILE))[0] == Summary(lines=6, created=0, known=2, refused=4)
    assert await service.stored() == (2, 2, 2)


async def test_an_interrupted_import_leaves_whole_batches(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dialect in PACE:
        monkeypatch.setitem(PACE, dialect, Pace(10, rests=False))
    text = HEADER + "".join(f"A{n},Lee,1990-11-15,UTC,\n" for n in range(35))
    arm("schedule.middle=raise@2")
    with pytest.raises(FailpointRaised):
        await import_text(service, text)
    arm("")
    assert await service.stored() == (10, 10, 10)
    assert (await import_text(service, text))[0] == Summary(lines=35, created=25, known=10)
    assert await service.stored() == (35, 35, 35)


async def test_invalid_bytes_are_an_error_of_one_line(small_service: Service) -> None:
    text = FILE.replace("Cid", "C\udce9d")
    summary, refused = await import_text(small_service, text)
    assert (summary.created, summary.refused) == (1, 5)
    assert refused[4] == "firstName has a control character"


async def test_a_file_that_is_no_csv_is_refused(small_service: Service) -> None:
    for text in ("x" * 200_000, HEADER + "x" * 200_000):
        with pytest.raises(InvalidInput, match="cannot be read: field larger"):
            await import_text(small_service, text)


@pytest.mark.parametrize("header", ["", "firstName\n", "a,b,c,d\n", HEADER[:-1] + ",x\n"])
async def test_a_file_without_its_columns_is_refused(small_service: Service, header: str) -> None:
    with pytest.raises(InvalidInput, match="its first line has to name"):
        await import_text(small_service, header + "x,y,z\n")


def test_the_command_reports_and_exits_with_1(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(FILE)
    command = ("import", "people.csv", "--database", sqlite_url)
    process = start("duly_birthday", *command, cwd=tmp_path, stdout=-1, stderr=-1, text=True)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "6 lines: 2 new, 0 known, 4 refused\n"), err
    assert "line 5: is equal to line 2" in err
    process = start(
        "duly_birthday", "replan", "--database", sqlite_url, cwd=tmp_path, stdout=-1, text=True
    )
    assert process.communicate(timeout=60)[0].startswith("the schedules of 2 users")
    process = start("duly_birthday", "import", "nobody.csv", cwd=tmp_path, stderr=-1, text=True)
    assert "nobody.csv cannot be read" in process.communicate(timeout=60)[1]
    assert process.returncode == 2
