"""Bodies with errors in unusual places, or that take long to check."""

import time

import pytest

from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S2")
BULK = "/v1/deliveries/bulk"
LINES = {"content-type": "application/x-ndjson"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"target": "work", "payload": "\xff"}',
        b'{"target": "work", "payload": {"\xed\xa0\x80": 1}}',
    ],
    ids=["no utf-8", "a surrogate's bytes"],
)
async def test_a_payload_that_is_not_utf8_is_not_json(small_client: Client, body: bytes) -> None:
    for path, content in (("/v1/deliveries", body), (BULK, b"[%s]" % body)):
        answer = await small_client.post(path, content=content)
        assert answer.status_code == 400, answer.text
    answer = await small_client.post(BULK, content=body, headers=LINES)
    assert answer.status_code == 400, answer.text
    assert (await small_client.get("/v1/deliveries")).json()["items"] == []


@pytest.mark.parametrize("rest", [b", {{{", b"] x", b"", b", \xff]"])
async def test_a_bulk_that_is_broken_after_an_invalid_item_is_not_json(
    small_client: Client, rest: bytes
) -> None:
    answer = await small_client.post(BULK, content=b'[{"no": "target"}' + rest)
    assert answer.status_code == 400, answer.text


async def seconds(client: Client, path: str, body: bytes, status: int) -> list[float]:
    """The seconds until each of some answers, which have to have that status."""
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        answer = await client.post(path, content=body)
        assert answer.status_code == status, answer.text
        found.append(time.perf_counter() - begun)
    return found


async def test_refusing_a_body_takes_no_longer_than_accepting_it(small_client: Client) -> None:
    """Other requests wait for as long."""
    names = b", ".join(b'"k%d": 1' % number for number in range(8000))
    once = b'{"target": "work", "payload": {%s}}' % names
    twice = b'{"target": "work", "payload": {%s, "k7999": 1}}' % names
    taken = await seconds(small_client, "/v1/deliveries", once, 201)
    assert min(await seconds(small_client, "/v1/deliveries", twice, 422)) < 10 * min(taken)

    misfits = await seconds(small_client, BULK, b"[%s1]" % (b"1," * 2000), 200)
    longer = await seconds(small_client, BULK, b"[%s1]" % (b"1," * 20_000), 422)
    assert min(longer) < 10 * min(misfits)
