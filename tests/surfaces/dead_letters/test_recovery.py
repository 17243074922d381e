"""`duly recovery`, and `duly dead hold`, `release`, `give-up` and `replay`, run as commands."""

import re
from pathlib import Path

import pytest

from tests.surfaces.dead_letters.test_dead_letters import make_dead_letters
from tests.surfaces.processes import Home

PAGE = Path(__file__).parents[3] / "docs" / "recovery.md"
BLOCK = re.compile(r"^```\n(\$ .*?)^```", re.DOTALL | re.MULTILINE)
PRESETS = {"DULY_RECOVERY_POLICIES": "presets"}


def said_on_the_page(command: str) -> str:
    """What a command prints, as the page for operators has it."""
    (block,) = [each for each in BLOCK.findall(PAGE.read_text()) if f"$ {command}\n" in each]
    return str(block.partition(f"$ {command}\n")[2].partition("\n$ ")[0].rstrip("\n"))


@pytest.mark.requirement("L1")
def test_presets_are_listed_as_on_the_page(home: Home) -> None:
    assert home.json("recovery", "list")["items"] == []
    assert home.ok("recovery", "list", environ=PRESETS) == said_on_the_page("duly recovery list")


@pytest.mark.requirement("L1")
@pytest.mark.parametrize(
    "command",
    [
        "recovery set timeout_exceeded --tries 3 --after 30m --then hold",
        "recovery set transport_unavailable --target endpoint:bank --tries 10 --after 5m "
        "--then fail",
        "recovery set handler_exception --tries 0",
    ],
)
def test_a_policy_is_stored_and_said_in_words(home: Home, command: str) -> None:
    home.ok("endpoints", "add", "bank", "https://example.org/hook")
    assert home.ok(*command.split()) == said_on_the_page(f"duly {command}")
    assert len(home.json("recovery", "list")["items"]) == 1


@pytest.mark.requirement("L1")
def test_a_policy_without_cool_down_has_zero_seconds(home: Home) -> None:
    said = home.ok("recovery", "set", "poison_message", "--tries", "5", "--then", "hold")
    assert said == "poison_message: 5 tries, each after 0s, then held"


@pytest.mark.requirement("L2")
async def test_held_ones_are_left_alone_by_a_retry_of_many(home: Home) -> None:
    held, given_up, _ = await make_dead_letters(home, [1, 2, 3])
    assert home.ok("dead", "hold", held, "--note", "ask the bank first") == f"{held} dead, held"
    said = home.ok("dead", "give-up", given_up, "--note", "the customer is gone")
    assert said == f"{given_up} dead, given up"
    assert home.ok("dead", "retry", "--all", "--dry-run") == "1 dead letters"
    assert home.ok("dead", "retry", "--disposition", "held", "--dry-run") == "1 dead letters"
    assert home.ok("dead", "release", "--target", "work", "--yes") == "1 of 1 released"
    assert home.ok("dead", "retry", "--all", "--dry-run") == "2 dead letters"


@pytest.mark.requirement("L3")
async def test_a_replay_is_counted_first(home: Home) -> None:
    await make_dead_letters(home, [1, 2])
    home.ok("recovery", "set", "validation_failure", "--tries", "1", "--then", "hold")
    replay = ("dead", "replay", "--generation", "v42")
    said = said_on_the_page("duly dead replay --generation v42 --dry-run")
    assert home.ok(*replay, "--dry-run") == said
    assert home.json("recovery", "generations")["items"] == []
    assert home.ok(*replay, "--held") == said_on_the_page(f"duly {' '.join(replay)} --held")
    (found,) = home.json("recovery", "generations")["items"]
    assert (found["name"], found["with_held"], found["tried"]) == ("v42", True, 0)
