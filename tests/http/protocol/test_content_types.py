"""The Content-Type of every answer has at most one charset."""

from email.message import Message

import pytest

from duly.testing import VirtualClock
from tests.http.ports import port
from tests.http.protocol.test_routes import ENDLESS, all_methods, fill_store


@pytest.mark.requirement("S2", "S3")
async def test_every_answer_has_at_most_one_charset(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock, host="0.0.0.0") as public:
        named, key = await fill_store(public.app), await public.token("admin")
        content_types = {}
        for each in all_methods(public):
            if each.method == "GET" and each.path not in ENDLESS:
                answer = await public.request(each.at(named), key=key)
                content_types[each.path] = answer.headers["content-type"]
    assert len(content_types) > 15
    for path, content_type in content_types.items():
        message = Message()
        message["content-type"] = content_type
        names = [name for name, _ in message.get_params(failobj=[])]
        assert len(names) == len(set(names)), (path, content_type)
    assert content_types["/metrics"] == "text/plain; version=0.0.4; charset=utf-8"
