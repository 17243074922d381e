"""`duly recovery`: policies by which dead letters recover, and generations of the deployment."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.domain.recovery import checked_policy
from duly.records.recovery import RecoveryPolicy, Replay
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer
from duly.surfaces.cli.terminal.times import spelled

POLICIES = Columns(
    "reason target tries after then is_preset", after=lambda each: _cool_down(each.after)
)
GENERATIONS = Columns("name first_at done_at tried with_held")
Target = Annotated[
    str | None, Parameter(help="Only for a handler, endpoint:NAME, or https://example.org.")
]

commands = App(name="recovery", help="Policies by which dead letters recover, and generations.")


@commands.command(name="list")
async def list_(*, common: Common = COMMON) -> None:
    """List the policies that apply: stored ones, and presets if the setting turns them on."""
    async with backend(common) as app:
        found = await app.recovery.policies()
    answer_list(common, found, POLICIES)


@commands.command(name="set")
async def set_(
    reason: str,
    /,
    *,
    tries: Annotated[int, Parameter(help="How often they are retried, at most 100.")],
    after: Annotated[str, Parameter(help="The cool-down before each retry, as in 30m.")] = "0s",
    then: Annotated[
        str | None, Parameter(help="After the last try: hold, or fail (they are given up).")
    ] = None,
    target: Target = None,
    common: Common = COMMON,
) -> None:
    """Let dead letters of a reason recover by a policy; it applies to those of before, too.

    Parameters
    ----------
    reason
        Why they died: a reason of a failure, throttled, or attempts_exhausted.
    """
    checked_policy(reason, tries=tries, after=after, then=then, target=target)
    async with backend(common) as app:
        policy = await app.recovery.set(reason, tries=tries, after=after, then=then, target=target)
    answer(common.json, policy, lambda: _sentence(policy))


@commands.command
async def remove(reason: str, /, *, target: Target = None, common: Common = COMMON) -> None:
    """Remove a stored policy; presets are turned off by the setting recovery_policies.

    Parameters
    ----------
    reason
        The reason of the policy.
    """
    async with backend(common) as app:
        await app.recovery.remove(reason, target=target)
    answer(common.json, {"removed": reason, "target": target}, lambda: f"{reason} removed")


@commands.command
async def generations(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """List the generations of the deployment, the latest first."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.recovery.generations(limit=limit)
    answer_list(common, found, GENERATIONS)


async def replay(
    *,
    generation: Annotated[str, Parameter(help="The generation, one word as in v42.")],
    held: Annotated[bool, Parameter(negative=(), help="Held ones, too.")] = False,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only count them.")] = False,
    common: Common = COMMON,
) -> None:
    """Give dead letters with a recovery policy one try in a generation, each once.

    Workers do it at their rate; `duly recovery generations` shows how far they are.
    """
    async with backend(common) as app:
        found = await app.recovery.replay(generation, held=held, dry_run=dry_run)
    answer(common.json, found, lambda: _replayed(found, generation))


def _replayed(replay: Replay, generation: str) -> str:
    would = "would get" if replay.generation is None else "get"
    return f"{replay.matching} dead letters {would} one try in generation {generation}"


def _sentence(policy: RecoveryPolicy) -> str:
    whose = "" if policy.target is None else f" of {policy.target}"
    if not policy.tries:
        ends = {None: "left alone", "hold": "held at once", "fail": "given up at once"}
        return f"{policy.reason}{whose}: {ends[policy.then]}"
    ending = "held" if policy.then == "hold" else "given up"
    return (
        f"{policy.reason}{whose}: {policy.tries} tries, each after {_cool_down(policy.after)}, "
        f"then {ending}"
    )


def _cool_down(seconds: float) -> str:
    return spelled(seconds) if seconds else "0s"
