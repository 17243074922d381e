"""How failpoints are armed."""

from collections.abc import Iterator

import pytest

from duly import failpoints
from duly.errors import BadSetting
from duly.failpoints import Failpoint, FailpointRaised, arm, arm_from, armed, hit


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


def test_a_list_arms_each_place_with_its_action() -> None:
    arm("settle.before=kill@3; claim.after=sleep:2.5;deliver.after=raise%7;")
    assert armed == {
        "settle.before": Failpoint("kill", only=3),
        "claim.after": Failpoint("sleep", seconds=2.5),
        "deliver.after": Failpoint("raise", every=7),
    }


def test_arming_again_disarms_the_others() -> None:
    arm("settle.before=kill")
    arm("claim.after=raise")
    assert list(armed) == ["claim.after"]
    arm_from({})
    assert not armed
    arm_from({"DULY_FAILPOINTS": "handler.enter=drop"})
    assert list(armed) == ["handler.enter"]


@pytest.mark.parametrize(
    ("text", "hits"),
    [("raise", [1, 2, 3, 4, 5, 6]), ("raise@3", [3]), ("raise%2", [2, 4, 6])],
)
async def test_it_fails_at_the_given_hits(text: str, hits: list[int]) -> None:
    arm(f"claim.after={text}")
    failed = []
    for number in range(1, 7):
        await hit("claim.before")
        try:
            await hit("claim.after")
        except FailpointRaised:
            failed.append(number)
    assert failed == hits


@pytest.mark.parametrize(
    ("action", "error"), [("raise", FailpointRaised), ("drop", ConnectionError), ("full", OSError)]
)
async def test_each_action_fails_in_its_way(action: str, error: type[Exception]) -> None:
    arm(f"migrate.middle={action}")
    with pytest.raises(error):
        await hit("migrate.middle")
    with pytest.raises(error):
        failpoints.hit_in_thread("migrate.middle")


@pytest.mark.parametrize(
    "text",
    [
        "settle=kill",
        "nowhere.before=kill",
        "settle.before=explode",
        "settle.before",
        "settle.before=kill@x",
        "settle.before=kill%0",
        "settle.before=kill@-1",
        "settle.before=sleep:long",
        "settle.before=sleep:nan",
    ],
)
def test_an_invalid_failpoint_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(BadSetting) as refused:
        arm(text)
    assert refused.value.field == "DULY_FAILPOINTS"
