"""Types as JSON schemas, in a form that client generators read well.

- A moment has the format `date-time`, unless it has no offset (`Meta(tz=False)`).
- A default is in the description only: TypeScript generators take a property with a `default` for
  one that is always present, and would require it.
- The description of a field is on the property, also if the field may be null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, inspect

Document = dict[str, Any]
REFERENCE = "#/components/schemas/"
LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
LENGTHS = {
    inspect.StrType: {"min_length": "minLength", "max_length": "maxLength"},
    inspect.CollectionType: {"min_length": "minItems", "max_length": "maxItems"},
    inspect.DictType: {"min_length": "minProperties", "max_length": "maxProperties"},
}
PLAIN: dict[type[inspect.Type], Document] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.TimeDeltaType: {"type": "string", "format": "duration"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
}


class Words(msgspec.Struct, frozen=True):
    """The description and example of a field."""

    description: str
    example: Any = UNSET


class Schemas:
    """The schemas of one document; each struct and each enumeration is a component.

    A struct that forbids unknown fields is a request; its fields with a default are optional. In a
    response all fields are required. `glossary` describes fields by struct and name
    (`NewKey.name`), and fields of requests also by name alone.
    """

    def __init__(self, glossary: Mapping[str, Words]) -> None:
        self.components: Document = {}
        self._glossary = glossary
        self._names: dict[Any, str] = {}

    def of(self, kind: Any) -> Document:
        """The schema of a type; an empty one if it is not a JSON type."""
        try:
            return self._of(inspect.type_info(kind))
        except TypeError:
            return {}

    def parameter(self, owner: type, name: str, kind: Any) -> Document:
        """The schema of a query parameter, which is a field of a struct."""
        return self.described(not_null(self.of(kind)), *_entries(owner, name, True))

    def described(self, schema: Document, *names: str) -> Document:
        """The schema, described by the first of these names in the glossary if it is not yet."""
        words = next(filter(None, map(self._glossary.get, names)), None)
        if words is None or "description" in schema:
            return schema
        example = {} if words.example is UNSET else {"examples": [words.example]}
        return schema | {"description": words.description} | example

    def example(self, schema: Document) -> Any:
        """An example: the `EXAMPLE` of the struct, in a list of one for a list."""
        if "items" in schema:
            inside = self.example(schema["items"])
            return None if inside is None else [inside]
        name = schema.get("$ref", "").removeprefix(REFERENCE)
        return next(
            (getattr(cls, "EXAMPLE", None) for cls, own in self._names.items() if own == name), None
        )

    def _of(self, kind: inspect.Type) -> Document:
        match kind:
            case inspect.Metadata():
                return self._of(kind.type) | (kind.extra_json_schema or {})
            case inspect.StructType():
                return self._component(kind.cls, kind)
            case inspect.EnumType():
                return self._component(kind.cls, kind)
            case inspect.LiteralType():
                return _choice(kind.values)
            case inspect.UnionType():
                return self._union(kind)
            case inspect.CollectionType():
                return {"type": "array", "items": self._of(kind.item_type), **_lengths(kind)}
            case inspect.DictType():
                return self._mapping(kind)
            case inspect.DateTimeType(tz=False):
                return {"type": "string"}
        plain = PLAIN.get(type(kind))
        if plain is None:
            raise TypeError(f"{kind} has no schema")
        return plain | _limits(kind) | _lengths(kind)

    def _mapping(self, kind: inspect.DictType) -> Document:
        found = {"type": "object", "additionalProperties": self._of(kind.value_type)}
        return found | _lengths(kind)

    def _union(self, kind: inspect.UnionType) -> Document:
        tagged = {
            each.tag: self._of(each)
            for each in map(_bare, kind.types)
            if isinstance(each, inspect.StructType) and each.tag_field is not None
        }
        rest = [each for each in kind.types if getattr(_bare(each), "tag", None) not in tagged]
        options = [self._of(each) for each in rest]
        if tagged:
            options.insert(0, _tagged(kind, tagged))
        return _alternatives(options)

    def _component(self, cls: Any, kind: inspect.StructType | inspect.EnumType) -> Document:
        if cls not in self._names:
            # Named before it is described: a retry plan contains plans.
            name = self._names[cls] = self._free_name(cls)
            self.components[name] = {}
            self.components[name] |= (
                _choice([each.value for each in cls])
                if isinstance(kind, inspect.EnumType)
                else self._struct(kind)
            ) | _description(cls)
        return {"$ref": REFERENCE + self._names[cls]}

    def _free_name(self, cls: Any) -> str:
        name = _name(cls)
        if name in self.components:
            package = cls.__module__.partition(".")[0]
            name = package.title().replace("_", "") + name
        assert name not in self.components, f"two types would be called {name}"
        return name

    def _struct(self, kind: inspect.StructType) -> Document:
        sent = kind.forbid_unknown_fields
        properties, required = {}, []
        if kind.tag_field is not None:
            names = _entries(kind.cls, kind.tag_field, sent)
            properties[kind.tag_field] = self.described(_choice([kind.tag]), *names)
            required.append(kind.tag_field)
        for field in kind.fields:
            name = field.encode_name
            schema = self.described(self._of(field.type), *_entries(kind.cls, name, sent))
            properties[name] = schema | (_default(field, schema) if sent else {})
            if field.required or not (sent or _may_be_missing(kind, field)):
                required.append(name)
        found: Document = {"type": "object", "properties": properties}
        if required:
            found["required"] = required
        return found | ({"additionalProperties": False} if sent else {})


def _entries(cls: Any, name: str, sent: bool) -> list[str]:
    """The names by which the glossary may have a field, the most specific first."""
    owners = [f"{each.__name__}.{name}" for each in getattr(cls, "__origin__", cls).__mro__]
    return [*owners, name] if sent and cls.__module__.startswith("duly.") else owners


def _may_be_missing(kind: inspect.StructType, field: inspect.Field) -> bool:
    # msgspec reports UNSET as no default.
    is_unset = field.default is NODEFAULT is field.default_factory
    config = getattr(kind.cls, "__origin__", kind.cls).__struct_config__
    return bool(config.omit_defaults) or is_unset


def not_null(schema: Document) -> Document:
    """The schema without null: for a field that is left out rather than sent as null."""
    options = [each for each in schema.get("anyOf", ()) if each != PLAIN[inspect.NoneType]]
    if not options:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (options[0] if len(options) == 1 else {"anyOf": options})


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _name(cls: Any) -> str:
    """The name of a class; for `Page[Alert]` it is AlertPage."""
    of = "".join(_name(each) for each in getattr(cls, "__args__", ()))
    return of + str(getattr(cls, "__origin__", cls).__name__)


def _description(cls: Any) -> Document:
    text = " ".join((getattr(cls, "__origin__", cls).__doc__ or "").split())
    return {"description": text} if text else {}


def _tagged(kind: inspect.UnionType, options: Mapping[Any, Document]) -> Document:
    field = next(each.tag_field for each in map(_bare, kind.types) if hasattr(each, "tag_field"))
    mapping = {tag: each["$ref"] for tag, each in options.items()}
    discriminator = {"propertyName": field, "mapping": mapping}
    return {"oneOf": list(options.values()), "discriminator": discriminator}


def _alternatives(options: list[Document]) -> Document:
    """Any of the schemas; the description of one becomes that of all."""
    if len(options) == 1:
        return options[0]
    shared: Document = {}
    for each in options:
        for name in ("description", "examples"):
            if name in each and "$ref" not in each:
                shared[name] = each.pop(name)
    options.sort(key=lambda each: each == PLAIN[inspect.NoneType])
    return {"anyOf": options, **shared}


def _choice(values: Any) -> Document:
    choices = sorted(values, key=str)
    kinds = {str: "string", int: "integer"}
    kind = {kinds.get(type(each)) for each in choices}
    return {"type": kind.pop(), "enum": choices} if len(kind) == 1 else {"enum": choices}


def _limits(kind: inspect.Type) -> Document:
    found = {ours: getattr(kind, name, None) for name, ours in LIMITS.items()}
    return {name: value for name, value in found.items() if value is not None}


def _lengths(kind: inspect.Type) -> Document:
    names = next((each for of, each in LENGTHS.items() if isinstance(kind, of)), {})
    found = {ours: getattr(kind, name, None) for name, ours in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _default(field: inspect.Field, schema: Document) -> Document:
    """The description with the default of the field, unless that is null or empty."""
    value = field.default
    if value in (NODEFAULT, None, ""):
        return {}
    default = f"default {msgspec.json.encode(value).decode()}"
    return {"description": "; ".join(filter(None, (schema.get("description"), default)))}
