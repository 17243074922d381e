"""The description of the API: whole, and readable without a network."""

import re

import pytest

from tests.api.conftest import Client

pytestmark = pytest.mark.requirement("S2")


async def test_every_route_is_described_with_all_its_answers(client: Client) -> None:
    document = (await client.get("/docs/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    operations = {
        (method, path): found
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    }
    assert ("post", "/v1/deliveries") in operations
    for (method, _), found in operations.items():
        assert found["summary"]
        assert {"401", "403", "404", "422", "429", "503"} <= found["responses"].keys()
        if method != "get":
            assert {"409", "413", "415"} <= found["responses"].keys()
    (scheme,) = document["security"]
    assert document["components"]["securitySchemes"].keys() == scheme.keys()
    ids = [each["operationId"] for each in operations.values()]
    assert sorted(ids) == sorted(set(ids))


async def test_every_reference_leads_somewhere(client: Client) -> None:
    answer = await client.get("/docs/openapi.json")
    document = answer.json()
    references = re.findall(r'"\$ref":"#/([^"]+)"', answer.text)
    assert references
    for reference in references:
        found = document
        for part in reference.split("/"):
            found = found[part]
        assert found


async def test_the_page_needs_nothing_from_elsewhere(client: Client) -> None:
    answer = await client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "openapi.json" in answer.text
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
