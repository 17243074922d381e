"""Retry plans as text and as JSON, and the errors of invalid ones."""

import pytest

from duly.domain.deliveries import retry
from duly.domain.deliveries.retry import delays, exponential
from duly.domain.deliveries.retry_texts import plan_from_text
from duly.errors import BadSetting, InvalidInput
from duly.records import retry_plan
from duly.records.retry_plan import Exponential, no_retry
from duly.settings import load, problems

pytestmark = pytest.mark.requirement("F2")
PLANS = {
    "none": no_retry,
    "webhook": retry.WEBHOOK,
    "delays:30,120,600": retry.WEBHOOK,
    "delays:30s,2m, 10m": retry.WEBHOOK,
    "delays:0.5": delays(0.5),
    "exponential": retry.DEFAULT,
    "exponential:base=30,cap=3600,attempts=10": retry.DEFAULT,
    "exponential:base=1m,cap=2h,attempts=3,jitter=0": exponential(60, 7200, 3, 0),
    "none;timeout_exceeded=delays:5": no_retry.on("timeout_exceeded", delays(5)),
    '{"type": "delays", "seconds": [1]}': delays(1),
}
WRONG = {
    "": "'' is no retry plan",
    "forever": "'forever' is no retry plan",
    "none:1": "'none:1' is no retry plan",
    "delays": "'' is no duration",
    "delays:1,soon": "'soon' is no duration",
    "delays:-1": "'-1' is no duration",
    "exponential:bse=1": "'bse=1' is none of base, cap, attempts, jitter",
    "exponential:base=1,base=2": "is there twice",
    "exponential:attempts=2.5": "'2.5' is no whole number",
    "exponential:attempts=1001": "attempts: 1001 is not between 1 and 1000",
    "exponential:base=10,cap=5": "cap: 5.0 is not between 10",
    "none;lost=none": "'lost' is not a reason",
    "delays:1;": "'' is no retry plan",
    "delays:" + ",".join(["1"] * 1000): "fewer than 1000 delays",
}
WRONG_JSON = {
    "{": ("retry", "it is no JSON"),
    '{"type": "never"}': ("retry.type", "Invalid value 'never'"),
    '{"type": "none", "attempts": 1}': ("retry", "unknown field `attempts`"),
    '{"type": "exponential", "base": 0}': ("retry.base", ">= 0.001"),
    '{"type": "exponential", "base": 9, "cap": 5}': ("retry.cap", "not between 9"),
    '{"type": "delays", "seconds": [-1]}': ("retry.seconds[0]", ">= 0"),
}


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_is_read_back_from_its_text(text: str) -> None:
    assert plan_from_text("retry", text) == PLANS[text]


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_plan_is_refused_with_a_valid_example(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan_from_text("retry", text)
    assert refused.value.field == "retry"
    assert WRONG[text] in refused.value.problem
    assert "write none, webhook, delays:30,2m,10m or exponential:" in refused.value.problem


@pytest.mark.parametrize("text", WRONG_JSON)
def test_an_invalid_document_is_refused_with_its_field(text: str) -> None:
    field, problem = WRONG_JSON[text]
    with pytest.raises(InvalidInput) as refused:
        plan_from_text("retry", text)
    assert refused.value.field == field
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (Exponential(attempts=2.5), "retry.attempts"),  # type: ignore[arg-type]
        (Exponential(base=float("nan")), "retry.base"),
        (Exponential(base=9, cap=1), "retry.cap"),
        (no_retry.on("unknown", Exponential(attempts=0)), "retry.rules[...].attempts"),
    ],
)
def test_a_plan_built_in_python_is_stored_only_if_it_can_be_read(
    plan: retry_plan.RetryPlan, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        retry.encode_checked(plan)
    assert refused.value.field == field


def test_the_nesting_of_rules_is_limited() -> None:
    plan: retry_plan.RetryPlan = delays(1)
    for _ in range(retry_plan.DEEPEST):
        plan = no_retry.on("unknown", plan)
    retry.encode_checked(plan)
    with pytest.raises(InvalidInput, match="nested deeper than 3"):
        retry.encode_checked(no_retry.on("unknown", plan))


def test_an_invalid_default_plan_is_an_invalid_setting() -> None:
    assert load({"retry": "delays:1"}, {}).plan == delays(1)
    assert load({}, {}).plan is None
    with pytest.raises(BadSetting, match="retry: 'often' from DULY_RETRY is not valid"):
        load({}, {"DULY_RETRY": "often"})
    assert [str(each)[:6] for each in problems({}, {"DULY_RETRY": "often"})] == ["retry:"]


@pytest.mark.parametrize("opening", ['{"a":', '{"type":"none","rules":{"unknown":'])
def test_a_document_that_is_nested_too_deeply_is_refused(opening: str) -> None:
    text = opening * 100_000
    with pytest.raises(InvalidInput, match="nested too deep"):
        plan_from_text("retry", text)
    with pytest.raises(BadSetting, match=r"retry: .* is not valid"):
        load({}, {"DULY_RETRY": text})
