"""`retry_on` of a plan, in each of its forms: which answers are retried."""

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.domain.deliveries import retry
from duly.domain.deliveries.retry import delays, exponential
from duly.domain.deliveries.retry_texts import plan_from_text
from duly.domain.endpoints.webhooks import outcome_of
from duly.errors import InvalidInput
from duly.records import retry_plan

pytestmark = pytest.mark.requirement("C5", "F2")
NOW = datetime(2026, 11, 16, tzinfo=UTC)
FORMS: dict[str, Any] = {
    "webhook;retry_on=4xx": delays(30, 120, 600, retry_on="4xx"),
    "delays:1;retry_on=404, 409": delays(1, retry_on={409, 404}),
    "exponential;timeout_exceeded=none;retry_on=302": exponential(retry_on=[302]).on(
        "timeout_exceeded", retry_plan.no_retry
    ),
    '{"type": "delays", "seconds": [1], "retry_on": "4xx"}': delays(1, retry_on="4xx"),
    '{"type": "delays", "seconds": [1], "retry_on": [404]}': delays(1, retry_on=(404, 404)),
}
WRONG = {
    "webhook;retry_on=": "'' is no whole number",
    "webhook;retry_on=5xx": "'5xx' is no whole number",
    "webhook;retry_on=404,x": "'x' is no whole number",
    "webhook;retry_on=200": "200 is no status from 300 to 599",
    "webhook;retry_on=404,410": "410 says that the receiver is gone",
    '{"type": "none", "retry_on": "5xx"}': "Invalid enum value '5xx'",
    '{"type": "none", "retry_on": [600]}': "<= 599",
    '{"type": "none", "retry_on": [410]}': "410 says that the receiver is gone",
    '{"type": "none", "rules": {"unknown": {"type": "none", "retry_on": "4xx"}}}': (
        "give it to the plan itself"
    ),
}


@pytest.mark.parametrize("text", FORMS)
def test_a_plan_has_the_answers_that_are_retried(text: str) -> None:
    plan = plan_from_text("retry", text)
    assert plan == FORMS[text]
    assert retry.decode(retry.encode_checked(plan)) == plan


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_status_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan_from_text("retry", text)
    assert WRONG[text] in refused.value.problem


@pytest.mark.parametrize("given", ["5xx", "404", [True], [404.0], [200], None, b"4xx", [410]])
def test_an_invalid_status_is_refused_in_python_too(given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        delays(1, retry_on=given)
    assert refused.value.field == "retry_on"


def test_4xx_is_every_status_except_410() -> None:
    every = exponential(retry_on="4xx")
    found = {status for status in range(100, 600) if every.retries_on(status)}
    assert found == set(range(400, 500)) - {410}
    some = exponential(retry_on=[404, 302])
    assert {status for status in range(100, 600) if some.retries_on(status)} == {302, 404}
    assert not any(exponential().retries_on(status) for status in range(100, 600))


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (404, ', which ends it; with retry_on="4xx" in its retry plan it is tried again'),
        (302, ", which ends it: redirects are not followed; give the URL to which it leads"),
        (410, ""),
        (101, ""),
    ],
)
def test_the_error_of_a_final_answer_has_a_remedy(status: int, advice: str) -> None:
    outcome: Any = outcome_of(status, None, lambda: NOW, "{}")
    assert (outcome.error, outcome.advice) == (f"it answered {status}", advice)
