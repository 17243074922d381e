"""`/v1/recovery`: policies for dead letters, and generations of the deployment."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.records.recovery import AfterTries, Generation, RecoveryPolicy, Replay
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Most, Page
from duly.surfaces.http.protocol.routing import delete, get, post, put

POLICY = "/recovery/policies/{reason}"
Target = Annotated[str, Meta(description="only for this target; for all if left out")]


class PolicyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A policy for dead letters of one reason."""

    EXAMPLE: ClassVar = {"tries": 3, "after": "30m", "then": "hold"}
    tries: Annotated[int, Meta(description="how often they are retried, at most 100")]
    after: Annotated[
        float | str, Meta(description="the cool-down before each: seconds, or text as in 30m")
    ] = 0.0
    then: Annotated[
        AfterTries | None, Meta(description="after the last try they are held, or given up (fail)")
    ] = None
    target: Target | None = None


class TargetQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose policy."""

    target: Target | None = None


class GenerationsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Most = 50


class ReplayBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A generation in which dead letters of before get one try."""

    EXAMPLE: ClassVar = {"generation": "v42", "dry_run": True}
    generation: Annotated[str, Meta(description="one word, as in v42")]
    held: Annotated[bool, Meta(description="held ones, too")] = False
    dry_run: Annotated[bool, Meta(description="only count")] = False


@get("/recovery/policies", operation_id="list_recovery_policies")
async def list_(app: Namespace) -> Page[RecoveryPolicy]:
    """The policies that apply: stored ones, and presets if the setting turns them on."""
    return Page(list(await app.recovery.policies()), None)


@put(POLICY, operation_id="set_recovery_policy")
async def set_(app: Namespace, reason: str, body: PolicyBody) -> RecoveryPolicy:
    """Store a policy, in place of one for the same reason and target.

    It applies to dead letters of before, too.
    """
    return await app.recovery.set(
        reason, tries=body.tries, after=body.after, then=body.then, target=body.target
    )


@delete(POLICY, operation_id="remove_recovery_policy")
async def remove(app: Namespace, reason: str, query: TargetQuery) -> None:
    """Remove a stored policy; presets are turned off by the setting."""
    await app.recovery.remove(reason, target=query.target)


@get("/recovery/generations", operation_id="list_generations")
async def generations(app: Namespace, query: GenerationsQuery) -> Page[Generation]:
    """The generations of the deployment, the latest first."""
    return Page(list(await app.recovery.generations(limit=query.limit)), None)


@post("/recovery/generations", status=200, repeatable=True, operation_id="replay_generation")
async def replay(app: Namespace, body: ReplayBody) -> Replay:
    """Give dead letters with a policy one try in a generation; workers do it at their rate."""
    return await app.recovery.replay(body.generation, held=body.held, dry_run=body.dry_run)


ROUTES = [list_, set_, remove, generations, replay]
