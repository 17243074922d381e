"""`POST /user/bulk` with the maximum: other requests are answered meanwhile."""

from itertools import cycle

import pytest

from birthday.tests.conftest import Service
from birthday.tests.people import ANN
from duly.domain.time import zones
from tests.http.protocol.test_turns import SLICES_LONG, assert_others_get_their_turn, still

pytestmark = pytest.mark.requirement("X2")
__all__ = ["still"]


async def test_a_thousand_users_do_not_block_the_loop(small_service: Service) -> None:
    # Each with its own day and zone, since equal ones are computed once.
    people = [
        ANN | {"dateOfBirth": f"{1950 + n % 50}-{1 + n % 12:02}-{1 + n % 28:02}", "timezone": zone}
        for n, zone in zip(range(1000), cycle(sorted(zones.names())[::9]))
    ]

    async def request() -> None:
        answer = await small_service.client.post("/user/bulk", json=people)
        assert answer.json()["created"] == 1000, answer.text[:300]

    await assert_others_get_their_turn(request, "users", SLICES_LONG / 2)


async def test_an_invalid_list_of_users_does_not_block_the_loop(small_service: Service) -> None:
    wide = b"{}," * 100_000
    for path, body, status in (
        ("/user/bulk", b"[%s{}]" % wide, 400),
        ("/user/bulk", b'[{"firstName": [%s{}]}]' % wide, 413),
        ("/user", b'{"firstName": [%s{}]}' % wide[:60_000], 400),
    ):

        async def request(path: str = path, body: bytes = body, status: int = status) -> None:
            kind = {"content-type": "application/json"}
            answer = await small_service.client.post(path, content=body, headers=kind)
            assert answer.status_code == status, answer.text[:300]

        await assert_others_get_their_turn(request, (path, body[:20]))
