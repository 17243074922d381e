"""The client's way to a connection: its steps timed, and a failure that speaks for all addresses.

The client has no public hook between connecting and securing, so a step of its own is wrapped;
`tests/transports/test_connector.py` fails when the client no longer takes it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import ClientConnectorError, TCPConnector

from duly.transports.webhooks.answers import AnswerProtocol
from duly.transports.webhooks.timing import mark


class Connector(TCPConnector):
    """Marks when a connection stands and when it is secured."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._factory = partial(AnswerProtocol, self._loop)  # type: ignore[assignment]

    async def _wrap_create_connection(self, *args: Any, **kwargs: Any) -> Any:
        make_protocol, *others = args
        stands = False

        def connected() -> Any:
            # The loop asks for the protocol once the socket is connected, before the handshake.
            nonlocal stands
            stands = True
            mark("connect")
            return make_protocol()

        try:
            made = await super()._wrap_create_connection(connected, *others, **kwargs)
        except ClientConnectorError:
            if not stands:
                # All were tried. Again without the first ones, as the client would, the last
                # one's error would speak for all: no route to it, though another was refused.
                kwargs["addr_infos"].clear()
            raise
        if kwargs["ssl"]:
            mark("tls")
        return made
