"""Rules from their specs, and back, and in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, assert_never

import msgspec
from msgspec import UNSET

from duly.domain.moments import EPOCH
from duly.domain.time import rules
from duly.domain.time.combinations import MOST_RULES
from duly.domain.time.cron import pattern
from duly.domain.time.rules import AnyOf, At, Cron, Every, Rule, Yearly
from duly.errors import InvalidInput
from duly.records.schedule import RuleExplanation, RuleSpec, UpcomingRun

CLOCK_CHANGES = {
    "fixed-time": "a time that the clock skips runs once, just after the gap; one that comes twice "
    "runs the first time",
    "fixed-time, gaps dropped": "a time that the clock skips does not run; one that comes twice "
    "runs the first time",
    "wildcard": "it runs at every real match: nothing is made up, and a repeated hour runs twice",
    "elapsed": "it counts elapsed time, which clock changes do not touch",
    "wall time": "a time that the clock skips moves forward by the length of the gap; one that "
    "comes twice runs the first time",
    "instant": "it is one instant, which clock changes do not move",
    "several": "each of its rules goes by its own kind",
}
DAY_OF_YEAR = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


def _yearly(day: str, **more: Any) -> Rule:
    found = DAY_OF_YEAR.fullmatch(day)
    if found is None:
        raise InvalidInput("yearly", f"{day!r} is no day of the year; write 12-24 for 24 December")
    return rules.yearly(int(found[1]), int(found[2]), **more)


def _any_of(specs: list[RuleSpec]) -> Rule:
    # Before they are read, which takes long if there are many.
    if len(specs) > MOST_RULES:
        raise InvalidInput("any_of", f"give 2 to {MOST_RULES} rules, not {len(specs)}")
    return rules.any_of(*map(rule_of, specs))  # type: ignore[arg-type]  # it checks them


RULES: dict[str, tuple[Callable[..., Rule], set[str]]] = {
    "cron": (rules.cron, {"tz", "dst_gap"}),
    "every": (rules.every, {"anchor"}),
    "at": (rules.at, {"tz"}),
    "yearly": (_yearly, {"time", "tz", "feb29"}),
    "any_of": (_any_of, set()),
}
"""How each rule is made, and which other flags it takes."""


def rule_of(spec: RuleSpec, mark: str = "") -> Rule:
    """The rule; InvalidInput if it is none or more than one.

    `mark` is put before field names in error messages.
    """
    named = msgspec.structs.asdict(spec)
    given = {name: value for name, value in named.items() if value is not None}
    calendar, move = given.pop("calendar", None), given.pop("move", None)
    if calendar is None:
        if move is not None:
            raise InvalidInput("move", f"it says nothing without {mark}calendar; leave it out")
        return _plain_rule(given, mark)
    # The zone of the days of an interval, which has none itself.
    tz = given.pop("tz", None) if "every" in given else given.get("tz")
    return rules.except_(_plain_rule(given, mark), calendar, move or "skip", tz=tz)


def _plain_rule(given: dict[str, Any], mark: str) -> Rule:
    kinds = [name for name in RULES if name in given]
    if len(kinds) != 1:
        names = [f"{mark}{name}" for name in RULES if not (mark and name == "any_of")]
        one_of = f"{', '.join(names[:-1])} and {names[-1]}"
        raise InvalidInput("rule", f"give exactly one of {one_of}")
    make, takes = RULES[kinds[0]]
    if strange := sorted(given.keys() - takes - {*kinds}):
        raise InvalidInput(strange[0], f"it says nothing beside {mark}{kinds[0]}; leave it out")
    return make(given.pop(kinds[0]), **given)


def spec_of(rule: Rule) -> RuleSpec:
    """The spec from which `rule_of` makes the same rule."""
    if isinstance(rule, AnyOf):
        return _spec_of_several([spec_of(each) for each in rule.rules])
    spec = _plain_spec(rule)
    if rule.except_ is UNSET:
        return spec
    given = rule.except_
    return msgspec.structs.replace(
        spec, calendar=given.calendar, move=given.move, tz=spec.tz or given.tz
    )


def _spec_of_several(parts: list[RuleSpec]) -> RuleSpec:
    """The spec of `any_of`, with the calendar of its parts if they all have it."""
    calendar, move = parts[0].calendar, parts[0].move
    is_common = all((each.calendar, each.move) == (calendar, move) for each in parts)
    if calendar is None or not is_common or not any(each.cron for each in parts):
        return RuleSpec(any_of=parts)
    plain = [
        msgspec.structs.replace(each, calendar=None, move=None, tz=each.tz if each.cron else None)
        for each in parts
    ]
    return RuleSpec(any_of=plain, calendar=calendar, move=move)


def _plain_spec(rule: Cron | Every | At | Yearly) -> RuleSpec:
    match rule:
        case Cron():
            return RuleSpec(cron=rule.expression, tz=rule.tz, dst_gap=rule.dst_gap)
        case Every():
            anchor = None if rule.anchor == EPOCH else rule.anchor.isoformat()
            return RuleSpec(every=_exactly(rule.interval), anchor=anchor)
        case At():
            return RuleSpec(at=rule.moment.isoformat(), tz=rule.tz)
        case Yearly():
            day, time = f"{rule.month}-{rule.day}", rule.time.isoformat()
            return RuleSpec(yearly=day, time=time, tz=rule.tz, feb29=rule.feb29)
        case _:
            assert_never(rule)


def as_cron(rule: Rule) -> str | None:
    """Its cron expressions, if it consists of such and of intervals."""
    match rule:
        case Cron():
            return rule.expression
        case Every() if rule.anchor == EPOCH:
            return f"@every {_exactly(rule.interval)}"
        case AnyOf():
            parts = [as_cron(each) for each in rule.rules]
            return None if None in parts else "; ".join(filter(None, parts))
    return None


def _exactly(interval: timedelta) -> str:
    seconds, rest = divmod(interval, timedelta(seconds=1))
    fraction = f".{rest // timedelta(milliseconds=1):03}".rstrip("0") if rest else ""
    return f"{seconds}{fraction}s"


def explained(rule: Rule, upcoming: list[UpcomingRun]) -> RuleExplanation:
    """The rule in words, what clock changes do to it, and its next moments."""
    kind = _kind(rule)
    return RuleExplanation(
        rule=rule.describe(),
        cron=as_cron(rule),
        kind=kind,
        clock_changes=CLOCK_CHANGES[kind],
        next=upcoming,
    )


def _kind(rule: Rule) -> str:
    match rule:
        case Every():
            return "elapsed"
        case At():
            return "instant" if rule.tz is None else "wall time"
        case Yearly():
            return "wall time"
        case Cron():
            if not pattern(rule.expression).fields.is_fixed:
                return "wildcard"
            return "fixed-time" if rule.dst_gap == "run" else "fixed-time, gaps dropped"
        case AnyOf():
            kinds = {_kind(each) for each in rule.rules}
            return kinds.pop() if len(kinds) == 1 else "several"
        case _:
            assert_never(rule)
