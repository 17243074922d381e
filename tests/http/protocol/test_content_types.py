"""What an answer is made of is said once, as every client can read it."""

from email.message import Message

import pytest

from duly.testing import VirtualClock
from tests.http.doors import port
from tests.http.protocol.test_routes import ENDLESS, furnished, walk


@pytest.mark.requirement("S2", "S3")
async def test_every_answer_names_one_charset_at_most(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock, host="0.0.0.0") as public:
        named, key = await furnished(public.app), await public.token("admin")
        told = {}
        for each in walk(public):
            if each.method == "GET" and each.path not in ENDLESS:
                answer = await public.ask(each.at(named), key=key)
                told[each.path] = answer.headers["content-type"]
    assert len(told) > 15
    for path, content_type in told.items():
        message = Message()
        message["content-type"] = content_type
        names = [name for name, _ in message.get_params(failobj=[])]
        assert len(names) == len(set(names)), (path, content_type)
    assert told["/metrics"] == "text/plain; version=0.0.4; charset=utf-8"
