"""Failed lookups: whether the resolver or the endpoint is at fault."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duly
from duly import App
from duly.domain.deliveries.outcomes import Deferred, Failed
from duly.records.reason import Reason
from duly.system import look_up
from duly.testing import VirtualClock, run_until_idle
from duly.transports.webhooks.resolver import AddressInfo, Resolver
from tests.transports.receiver import receiver
from tests.transports.sending import names_lead_to, sender

AWAY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
NO_MEMORY = socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure")
OF_THE_SYSTEM = OSError(errno.EIO, "Input/output error")


class Names:
    """A fake resolver: all names are found, except those that fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: dict[str, OSError] = {}
        names_lead_to(monkeypatch, "127.0.0.1", lookup=self._look_up)

    def _look_up(self, host: str) -> None:
        if host in self.failing:
            raise self.failing[host]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.mark.requirement("C5", "C8")
@pytest.mark.parametrize(
    "error", [AWAY, NO_MEMORY, OF_THE_SYSTEM], ids=["away", "memory", "system"]
)
async def test_a_resolver_that_fails_for_all_names_is_not_the_endpoints_fault(
    names: Names, error: OSError
) -> None:
    names.failing = {"a.example": error}
    async with sender(VirtualClock()) as here:
        assert await here.send("http://a.example/") == Deferred(10.0)


@pytest.mark.requirement("C5", "C8")
async def test_a_name_that_does_not_exist_is_always_the_endpoints_fault(names: Names) -> None:
    names.failing = {"a.example": UNKNOWN}
    async with sender(VirtualClock()) as here:
        outcome = await here.send("http://a.example/")
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE


@pytest.mark.requirement("C5", "C8")
@pytest.mark.parametrize(
    ("found", "seconds_ago", "expected"),
    [
        ("other.example", 60, Failed),
        ("other.example", 61, Deferred),
        ("a.example", 0, Deferred),
    ],
    ids=["another lately", "another long ago", "only itself"],
)
async def test_only_another_name_found_recently_proves_that_the_resolver_works(
    names: Names, found: str, seconds_ago: float, expected: type
) -> None:
    clock = VirtualClock()
    async with receiver() as there, sender(clock) as here:
        await here.send(f"http://{found}:{there.port}/")
        names.failing = {"a.example": AWAY}
        clock.advance(seconds_ago)
        # Another port, so that the cached lookup of the client is not used.
        assert isinstance(await here.send("http://a.example:9/"), expected)
    assert there.connections == 1


HOSTS = st.sampled_from(["a", "b", "c"])


@pytest.mark.requirement("C8")
@given(found=st.lists(st.tuples(HOSTS, st.integers(0, 40))), failing=HOSTS)
def test_it_remembers_enough_names_to_decide_for_each(
    found: Sequence[tuple[str, int]], failing: str
) -> None:
    clock, moments = VirtualClock(), dict[str, float]()
    resolver = Resolver(clock.monotonic, look_up, lambda _: True)
    for host, passed in found:
        resolver._remember(host)
        moments[host] = clock.monotonic()
        clock.advance(passed)
    others = [at for host, at in moments.items() if host != failing]
    assert resolver._found_another(failing) == any(clock.monotonic() - at <= 60 for at in others)


@pytest.mark.requirement("C5", "C8")
async def test_while_the_resolver_fails_no_attempt_is_spent(
    database_url: str, names: Names
) -> None:
    names.failing = {"a.example": AWAY}
    clock = VirtualClock()
    allowed = "127.0.0.1/32"
    async with receiver() as there, App(database_url, clock=clock, egress_allow=allowed) as app:
        url = f"http://a.example:{there.port}/"
        accepted = await app.deliver(duly.webhook(url), retry=duly.no_retry)
        for _ in range(3):
            await run_until_idle(app)
            clock.advance(10)
        waiting = await app.get(accepted.id)
        names.failing = {}
        await run_until_idle(app)
        delivered = await app.get(accepted.id)
    assert (waiting.state, waiting.attempt) == ("pending", 0)
    assert (delivered.state, delivered.attempt) == ("completed", 1)
    assert [each.headers["webhook-attempt"] for each in there.taken] == ["1"]


@pytest.mark.requirement("C5")
async def test_a_lookup_that_fails_after_nobody_waits_for_it_is_not_reported() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def slow(host: str, port: int) -> list[AddressInfo]:
        begun.set()
        await goes_on.wait()
        raise UNKNOWN

    resolver = Resolver(VirtualClock().monotonic, slow, lambda _: False)
    waiters = [asyncio.create_task(resolver.resolve("a.example", 80)) for _ in range(2)]
    await begun.wait()
    waiters[0].cancel()
    goes_on.set()
    with pytest.raises(socket.gaierror):
        await waiters[1]  # the end of one waiter does not end the lookup of the other
    waiters = [asyncio.create_task(resolver.resolve("a.example", 80))]
    goes_on.clear()
    begun.clear()
    await begun.wait()
    waiters[0].cancel()
    goes_on.set()
    await asyncio.wait([*waiters, *resolver._lookups.values()])
    gc.collect()
    assert reported == []
    assert not resolver._lookups
