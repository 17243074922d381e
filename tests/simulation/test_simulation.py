"""Simulated processes under faults: nothing is lost, repeated, out of order, spent or stuck."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.seeds import run_seeds
from tests.simulation.world import run_seed

pytestmark = pytest.mark.requirement("V2", "D4", "D6", "D7", "C1", "F5")
BLOCK = 20


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults are logged by the thousand."""
    logger = logging.getLogger("duly")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def test_a_seed_repeats_itself() -> None:
    assert run_seed(1).trace == run_seed(1).trace != run_seed(2).trace


def test_faults_of_every_kind_happen() -> None:
    worlds = [run_seed(seed) for seed in range(10)]
    happened = {kind for world in worlds for kind in world.faults}
    assert happened >= {"kill", "freeze", "cut_off", "stop", "step_clock"}
    assert any(world.weather.lost_answers for world in worlds)
    assert sum(len(world.accepted) for world in worlds) > 200


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds", [range(first, first + BLOCK) for first in range(0, 300, BLOCK)],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop}",
)  # fmt: skip
def test_every_seed_holds(seeds: range) -> None:
    run_seeds(seeds, explains=False)
