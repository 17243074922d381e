"""A connector of the HTTP client that times its steps and reports the first address's failure.

aiohttp has no public hook between connecting and the TLS handshake, so a private method is
wrapped; `tests/transports/test_connector.py` fails if aiohttp no longer calls it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import ClientConnectorError, TCPConnector

from duly.transports.webhooks.answers import AnswerProtocol
from duly.transports.webhooks.timing import mark


class Connector(TCPConnector):
    """Marks the ends of connecting and of the TLS handshake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(AnswerProtocol, self._loop)  # type: ignore[assignment]

    async def _wrap_create_connection(self, *args: Any, **kwargs: Any) -> Any:
        make_protocol, *others = args
        is_connected = False

        def connected() -> Any:
            # The loop asks for the protocol once the socket is connected, before the handshake.
            nonlocal is_connected
            is_connected = True
            mark("connect")
            return make_protocol()

        try:
            connection = await super()._wrap_create_connection(connected, *others, **kwargs)
        except ClientConnectorError:
            if not is_connected:
                # All addresses were tried. aiohttp would try again without the first one and
                # report the last error, such as "no route" although another address refused.
                kwargs["addr_infos"].clear()
            raise
        if kwargs["ssl"]:
            mark("tls")
        return connection
