"""One claim: lanes that admission control allows are claimed and started."""

from __future__ import annotations

from typing import NamedTuple

from duly.domain.deliveries.delivery import Claimed
from duly.engine.dispatch.claims import Claims
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.targets.admission import AdmissionControl
from duly.ports import ClaimRequest


class ClaimResult(NamedTuple):
    """What a claim asked for, and its result."""

    asked: list[ClaimRequest]
    claimed: list[Claimed]
    started: int
    """How many deliveries were started: a claimed lane may have lost its delivery."""


class Claimer:
    """Claims lanes and starts their deliveries."""

    def __init__(
        self,
        claims: Claims,
        admission: AdmissionControl,
        runner: DeliveryRunner,
        settler: Settler,
    ) -> None:
        self._claims = claims
        self._admission = admission
        self._runner = runner
        self._settler = settler

    async def claim(self, slots: int, asks: list[ClaimRequest]) -> ClaimResult:
        """Claim at most that many, and start them."""
        claimed: list[Claimed] = []
        self._runner.late.claims += 1
        try:
            asks = await self._admission.passing(asks)
            if asks:
                open_tokens = self._runner.tokens() | self._settler.tokens()
                claimed = await self._claims.make(slots, asks, open_tokens)
            return ClaimResult(asks, claimed, self._runner.start(claimed))
        finally:
            self._runner.late.claims += 1
            self._admission.claimed({each.target for each in claimed if each.id is not None})
