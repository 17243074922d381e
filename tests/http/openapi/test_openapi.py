"""The OpenAPI document: what generators of clients need, in every operation."""

import json
import keyword
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate

from duly import App
from duly.records import batch as batch_records
from duly.records import calendar as calendar_records
from duly.records import delivery as deliveries
from duly.records import endpoint as endpoint_records
from duly.records import schedule as schedule_records
from duly.records import target as targets
from duly.surfaces.http import batches, recovery, streams
from duly.surfaces.http.access import keys, session
from duly.surfaces.http.application import site
from duly.surfaces.http.dead_letters import bodies as dead_letters
from duly.surfaces.http.deliveries import bodies as delivery_bodies
from duly.surfaces.http.endpoints import bodies as endpoints
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.surfaces.http.openapi.glossary import GLOSSARY, TAGS
from duly.surfaces.http.protocol import bodies as shapes
from duly.surfaces.http.protocol.decoding import decoded
from duly.surfaces.http.protocol.routing import get
from duly.surfaces.http.schedules import bodies as schedules
from duly.surfaces.http.schedules import orphans
from duly.surfaces.http.site import Site
from duly_birthday import shapes as birthday_shapes
from duly_birthday.service import BirthdayApp
from duly_birthday.users.checks import NAMES, REQUIRED
from tests.http.ports import OUTSIDE_API, document_of

pytestmark = pytest.mark.requirement("S2")
SENT = (
    delivery_bodies,
    session,
    endpoint_records,
    shapes,
    deliveries,
    targets,
    schedule_records,
    calendar_records,
    schedules,
    orphans,
    endpoints,
    keys,
    dead_letters,
    delivery_bodies,
    streams,
    batches,
    batch_records,
    recovery,
    birthday_shapes,
)
"""The modules with the structs that callers send."""
MOMENTS = {"since", "until", "start", "end", "at", "after_at", "scheduled_for", "oldest"}


class Odd:
    """A value that JSON does not have."""


class OwnQuery(msgspec.Struct):
    wanted: int = 3


@get("/own/{place}")
async def own(place: str, query: OwnQuery) -> dict[str, Annotated[Odd, "odd"]]:
    """A route of the app itself."""
    raise NotImplementedError


def sited(app: App) -> Site:
    """The site of an app that is never opened: only its document is needed."""
    return site(app, ProcessHealth(app, app.engine()))


def app_of(kind: type[App], **settings: Any) -> App:
    return kind("sqlite:///never-opened.db", environment={}, **settings)


@cache
def described() -> dict[str, Any]:
    """The document of the birthday service, which has all of /v1 and its own routes."""
    document = document_of(sited(app_of(BirthdayApp)))
    return dict(json.loads(msgspec.json.encode(document)))


class Operation(NamedTuple):
    """One operation of the document."""

    path: str
    method: str
    told: dict[str, Any]


def operations() -> list[Operation]:
    found = [
        Operation(path, method, told)
        for path, methods in described()["paths"].items()
        for method, told in methods.items()
    ]
    assert len(found) > 65
    return found


def schema_named(reference: str) -> dict[str, Any]:
    found: Any = described()
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def bodies() -> Iterator[tuple[Operation, dict[str, Any]]]:
    for each in operations():
        if "requestBody" in each.told:
            yield each, each.told["requestBody"]


def sent_structs() -> dict[str, type[msgspec.Struct]]:
    """The structs that callers send, by name, at any depth of a body."""
    text, names = json.dumps([body for _, body in bodies()]), set[str]()
    while fresh := set(re.findall(r'schemas/(\w+)"', text)) - names:
        names |= fresh
        text = json.dumps([described()["components"]["schemas"][name] for name in fresh])
    places = {name: kind for module in SENT for name, kind in vars(module).items()}
    places |= {each.__name__: each for each in deliveries.RetryPlan.__args__}  # type: ignore[attr-defined]
    enums = {"OnFailure", "CatchUp", "Overlap", "Scope", "State", "AfterTries", "Weekday"}
    enums |= {"Unique", "OnDuplicate"}
    assert enums <= names
    return {name: places[name] for name in names - enums}


def test_the_document_is_valid_with_any_routes_of_an_app() -> None:
    app = app_of(BirthdayApp)
    app.routes.append(own)
    document = json.loads(msgspec.json.encode(document_of(sited(app))))
    validate(document)
    told = document["paths"]["/own/{place}"]["get"]
    places = [(each["name"], each["in"]) for each in told["parameters"]]
    assert places == [("place", "path"), ("wanted", "query")]


def test_every_reference_can_be_resolved() -> None:
    references = re.findall(r'"\$ref": "(#/[^"]+)"', json.dumps(described()))
    assert len(references) > 100
    for each in set(references):
        assert schema_named(each)


def test_every_operation_can_be_called_by_its_id() -> None:
    ids = [each.told["operationId"] for each in operations()]
    assert len(ids) == len(set(ids))
    for each in ids:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", each), each
        assert not keyword.iskeyword(each)
        # No id that only repeats the method.
        assert not re.match(r"(get|post|put|patch|delete)_v1?_", each), each
    assert {"deliver", "list_deliveries", "pause_schedule", "retry_dead_letter"} <= set(ids)
    assert "register_user" in ids


def test_every_operation_has_a_description_and_a_tag() -> None:
    tags = {each["name"]: each["description"] for each in described()["tags"]}
    assert tags == TAGS
    for each in operations():
        assert each.told["summary"].endswith("."), each
        assert re.search(
            r"scope `(read|operate|admin)`|^Needs no key\.$", each.told["description"]
        ), each
        assert len(each.told["tags"]) == 1
        assert each.told["tags"][0] in tags


def test_every_parameter_is_described_and_no_query_may_be_null() -> None:
    for each in operations():
        for parameter in each.told["parameters"]:
            assert parameter["description"], (each.path, parameter)
            assert {"type": "null"} not in parameter["schema"].get("anyOf", ()), parameter


def test_every_field_of_a_request_is_described() -> None:
    for name in sent_structs():
        for field, schema in described()["components"]["schemas"][name]["properties"].items():
            words = schema.get("description", "")
            assert words.removeprefix("default"), f"{name}.{field}"
            assert not words.startswith("default "), f"{name}.{field}"


def test_no_field_with_a_default_is_required() -> None:
    kinds = sent_structs()
    assert len(kinds) > 25
    for name, kind in kinds.items():
        schema = described()["components"]["schemas"][name]
        needed = {each.encode_name for each in msgspec.structs.fields(kind) if each.required}
        tag = kind.__struct_config__.tag_field
        assert set(schema.get("required", ())) - {tag} == needed, name
    for name, schema in described()["components"]["schemas"].items():
        for field, each in schema.get("properties", {}).items():
            assert "default" not in each, f"{name}.{field}"
    assert set(schema_named("#/components/schemas/NewUser")["required"]) == set(REQUIRED)
    for name in ("NewUser", "UserChange"):
        assert set(schema_named(f"#/components/schemas/{name}")["properties"]) == set(NAMES)


def test_fields_of_answers_are_required_unless_they_may_be_omitted() -> None:
    assert "shifted" in schema_named("#/components/schemas/UpcomingRun")["required"]
    assert "id" not in schema_named("#/components/schemas/BulkItem").get("required", ())
    assert "payload" not in schema_named("#/components/schemas/Delivery")["required"]


def test_every_body_has_a_valid_example() -> None:
    kinds = sent_structs()
    for operation, body in bodies():
        for media, content in body["content"].items():
            example = content["example"]
            whole = content["schema"] | {"components": described()["components"]}
            Draft202012Validator(whole, format_checker=FormatChecker()).validate(example)
            if media == "application/json" and operation.path.startswith("/v1"):
                (name,) = re.findall(r'schemas/(\w+)"', json.dumps(content["schema"]))
                for one in example if isinstance(example, list) else [example]:
                    decoded(msgspec.json.encode(one), kinds[name])


def test_an_optional_body_is_a_plain_reference() -> None:
    optional = {op.told["operationId"] for op, body in bodies() if not body["required"]}
    assert {"pause_schedule", "resume_schedule", "retry_dead_letter"} <= optional
    for _, body in bodies():
        schema = body["content"]["application/json"]["schema"]
        assert schema.keys() == {"$ref"} or schema["items"].keys() == {"$ref"}, schema


def test_moments_are_date_times_unless_they_have_no_offset() -> None:
    for name, schema in described()["components"]["schemas"].items():
        for field, each in schema.get("properties", {}).items():
            if re.search(r"(_at|At)$", field) or (field in MOMENTS and name != "RuleSpec"):
                text = json.dumps(each)
                assert "date-time" in text or "Line" in name, f"{name}.{field}: {text}"
    for each in operations():
        for parameter in each.told["parameters"]:
            if parameter["name"] in MOMENTS:
                assert parameter["schema"]["format"] == "date-time", each
    assert "format" not in schema_named("#/components/schemas/EventShape/properties/localTime")


def test_a_change_may_have_the_expected_version() -> None:
    versioned = {
        (op.told["operationId"], parameter["name"])
        for op in operations()
        for parameter in op.told["parameters"]
        if parameter["name"].startswith("If-")
    }
    changes = ("put_schedule", "update_schedule", "put_calendar")
    removals = ("remove_schedule", "remove_calendar", "remove_endpoint")
    others = ("update_endpoint", "update_user")
    assert versioned == {
        ("put_schedule", "If-None-Match"),
        ("put_calendar", "If-None-Match"),
        *((each, "If-Match") for each in (*changes, *removals, *others)),
    }
    for each in operations():
        if each.told["operationId"] in (
            "get_schedule",
            "get_endpoint",
            "get_user",
            "get_calendar",
            *changes,
        ):
            assert "ETag" in each.told["responses"]["200"]["headers"], each


def test_every_operation_has_its_error_answers() -> None:
    for each in operations():
        own = each.path.startswith("/user")
        needed = {"400", "401", "403", "404", "429", "500", "503"}
        needed |= set() if each.method == "get" else {"409", "412", "413", "415"}
        assert needed <= each.told["responses"].keys(), each
        for status, answer in each.told["responses"].items():
            if int(status) >= 400:
                found = schema_named(answer["$ref"])
                media = "application/json" if own else "application/problem+json"
                kind = "Answer" if own else "Problem"
                assert found["content"][media]["schema"]["$ref"].endswith(f"/{kind}")
                assert ("headers" in found) == (status in ("429", "503"))


def test_the_document_has_every_route_except_pages_and_probes() -> None:
    paths = {each.path for each in sited(app_of(BirthdayApp)).routes}
    assert paths - OUTSIDE_API == described()["paths"].keys()


def test_the_document_has_where_keys_are_needed() -> None:
    assert described()["security"] == [{"key": []}, {}]
    assert document_of(sited(app_of(App, host="0.0.0.0")))["security"] == [{"key": []}]
    assert described()["servers"][0]["url"] == "/"


def test_the_glossary_has_no_unused_fields() -> None:
    text = json.dumps(described(), ensure_ascii=False)
    for name, words in GLOSSARY.items():
        assert json.dumps(words.description)[1:-1] in text, name
