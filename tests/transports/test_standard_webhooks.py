"""Sent webhooks are accepted by the reference implementation of Standard Webhooks."""

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

import duly
from duly import App
from duly.domain.endpoints.signatures import new_secret
from duly.testing import run_until_idle
from tests.transports.receiver import receiver

OLD, NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", new_secret(b"a key of more than 24 bytes...")
PAYLOAD = {"name": "Zoë \N{SNOWMAN}", "numbers": [1.5, None], "dots": "a.1.b"}


@pytest.mark.requirement("C6")
async def test_a_webhook_is_accepted_with_either_key(database_url: str) -> None:
    settings = {"egress_allow": "127.0.0.1", "webhook_secret": f"{NEW} {OLD}"}
    async with receiver() as there, App(database_url, **settings, environment={}) as app:
        accepted = await app.deliver(duly.webhook(there.url()), PAYLOAD)
        await run_until_idle(app)
    (taken,) = there.taken
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(taken.body, taken.headers) == PAYLOAD
        assert duly.verify(taken.body, taken.headers, secret) == accepted.id
    stranger = new_secret(b"this one was never given to it")
    with pytest.raises(WebhookVerificationError):
        Webhook(stranger).verify(taken.body, taken.headers)
    with pytest.raises(duly.SignatureRefused):
        duly.verify(taken.body, taken.headers, stranger)
