"""The decision table of streams, row by row."""

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.domain.streams.policy import Move, checked_policy, move
from duly.errors import InvalidInput
from duly.records.stream import OnFailure, Policy

BLOCK, RELEASE, QUEUE = Policy


@pytest.mark.requirement("F6")
@pytest.mark.parametrize(
    ("verdict", "policy", "expected"),
    [
        (Verdict.RETRY, BLOCK, Move.STAY),
        (Verdict.RETRY, RELEASE, Move.LEAVE),
        (Verdict.DEAD, BLOCK, Move.BLOCK),
        (Verdict.DEAD, RELEASE, Move.LEAVE),
        (Verdict.RETRY, QUEUE, Move.STAY),
        (Verdict.DEAD, QUEUE, Move.LEAVE),
        (Verdict.COMPLETED, BLOCK, Move.COMPLETE),
        (Verdict.COMPLETED, RELEASE, Move.COMPLETE),
        (Verdict.EXPIRED, BLOCK, Move.LEAVE),
        (Verdict.SKIPPED, BLOCK, Move.LEAVE),
        (Verdict.EMPTIED, BLOCK, Move.COMPLETE),
        (Verdict.RELEASED, RELEASE, Move.STAY),
        (Verdict.RECLAIMED, RELEASE, Move.STAY),
        (Verdict.DEFERRED, RELEASE, Move.STAY),
    ],
)
def test_each_verdict_has_its_action_for_the_stream(
    verdict: Verdict, policy: Policy, expected: Move
) -> None:
    assert move(verdict, policy) is expected


def test_every_verdict_has_a_row() -> None:
    assert {move(verdict, policy) for verdict in Verdict for policy in Policy} == set(Move)


def test_an_unknown_policy_is_refused() -> None:
    assert checked_policy("release") is OnFailure.RELEASE
    with pytest.raises(InvalidInput, match="none of block, release"):
        checked_policy("ignore")
    with pytest.raises(InvalidInput, match="none of block, release"):
        checked_policy("queue")
