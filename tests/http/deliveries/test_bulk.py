"""Bulk requests: each delivery by itself, or all or none."""

import json
from typing import Any

import pytest

from duly import App
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S2")
GOOD = {"target": "work", "payload": {"n": 1}}
BAD: list[tuple[Any, str]] = [
    ({"target": "work", "priority": "high"}, "priority"),
    ({"target": "nobody"}, "target"),
    ({"target": {"endpoint": "none"}}, "target"),
    ({"target": {"url": "ftp://x"}}, "url"),
    ({"target": "work", "key": ""}, "key"),
    (7, "body"),
]


async def test_each_item_is_answered_at_its_position(app: App, client: Client) -> None:
    await app.deliver("work", "other", key="taken")
    given = [GOOD, *(each for each, _ in BAD), GOOD | {"key": "taken"}, GOOD | {"key": "new"}, GOOD]
    answer = await client.post("/v1/deliveries/bulk", json=given)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["accepted"], document["known"], document["refused"]) == (3, 0, 7)
    items = document["items"]
    assert ["id" in each for each in items] == [True, *[False] * 7, True, True]
    for (_, field), item in zip(BAD, items[1:7], strict=True):
        assert (item["problem"]["status"], item["problem"]["field"]) == (422, field)
    assert items[7]["problem"]["status"] == 409
    stored = {each.id for each in await app.list(limit=100)}
    assert {each["id"] for each in items if "id" in each} < stored
    assert len(stored) == 4

    repeated = (await client.post("/v1/deliveries/bulk", json=[GOOD | {"key": "new"}])).json()
    assert (repeated["known"], repeated["items"]) == (1, [items[8] | {"known": True}])


@pytest.mark.requirement("P7")
@pytest.mark.parametrize("atomic", ["true", "false"])
async def test_lines_with_the_same_unique_key_are_accepted_one_after_the_other(
    app: App, client: Client, atomic: str
) -> None:
    unique = {"key": "k", "unique": "pending", "on_duplicate": "postpone", "latest": 300}
    given = [GOOD | unique | {"payload": n, "after": 10 + n} for n in range(3)] + [GOOD]
    lines = "\n".join(map(json.dumps, given))
    headers = {"content-type": "application/x-ndjson"}
    path = f"/v1/deliveries/bulk?atomic={atomic}"
    answer = (await client.post(path, content=lines, headers=headers)).json()
    assert (answer["accepted"], answer["known"], answer["refused"]) == (2, 2, 0)
    ids = [each["id"] for each in answer["items"]]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    found = (await client.get(f"/v1/deliveries/{ids[0]}")).json()
    assert (found["payload"], found["unique"], found["key"]) == (2, "pending", "k")
    assert (found["replaced"], found["due_at"]) == (2, answer["items"][2]["due_at"])


async def test_json_lines_are_accepted_like_an_array(app: App, client: Client) -> None:
    lines = "\n".join(json.dumps(each) for each in (GOOD, {"target": 1}, GOOD)) + "\n"
    headers = {"content-type": "application/x-ndjson"}
    answer = await client.post("/v1/deliveries/bulk", content=lines, headers=headers)
    document = answer.json()
    assert (document["accepted"], document["refused"]) == (2, 1), answer.text
    assert document["items"][1]["problem"]["field"] == "target"


async def test_an_atomic_bulk_stores_all_or_none(app: App, client: Client) -> None:
    await app.deliver("work", "other", key="taken")
    for bad, status in ((BAD[0][0], 422), (BAD[1][0], 422), (GOOD | {"key": "taken"}, 409)):
        answer = await client.post("/v1/deliveries/bulk?atomic=true", json=[GOOD, bad])
        assert answer.status_code == status, answer.text
        assert len(await app.list()) == 1
    field = await client.post("/v1/deliveries/bulk?atomic=true", json=[GOOD, BAD[0][0]])
    assert field.json()["field"] == "[1].priority"
    answer = await client.post("/v1/deliveries/bulk?atomic=true", json=[GOOD, GOOD])
    assert answer.json()["accepted"] == 2
    assert len(await app.list()) == 3


async def test_streams_keep_the_order_of_the_body(app: App, client: Client) -> None:
    given = [GOOD | {"payload": n, "stream": "s"} for n in range(10)]
    items = (await client.post("/v1/deliveries/bulk", json=given)).json()["items"]
    line = await app.list(stream="s")
    assert [each.id for each in line] == [each["id"] for each in items][::-1]


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 422), (b"{}", 422), (b"", 400), (b"[{]", 400), (b"[" + b"1," * 10_000 + b"1]", 422)],
    ids=["none", "object", "empty", "broken", "too many"],
)
async def test_a_body_that_is_not_a_list_is_refused(
    small_client: Client, body: bytes, status: int
) -> None:
    answer = await small_client.post("/v1/deliveries/bulk", content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_ten_thousand_deliveries_are_accepted(small_app: App, small_client: Client) -> None:
    answer = await small_client.post("/v1/deliveries/bulk", json=[GOOD] * 10_000)
    assert answer.json()["accepted"] == 10_000
    assert len(await small_app.list(limit=20_000)) == 10_000
