"""JSON Schemas of Python types, self-contained and without the titles that pydantic invents from field names."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

UNUSABLE = (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError)
"""The errors for a type that has no schema."""
_DEFINITIONS = "#/$defs/"
MAX_INLINED = 5_000
"""The most values of a schema with its definitions inlined: models nested in each other can double at each level."""


class PlainSchema(GenerateJsonSchema):
    """Pydantic's generator without invented titles; a default that JSON cannot represent is left out without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as the base class declares it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """False for every field: its name says the same, and each word costs tokens."""
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """The schema without the pattern of some pydantic releases, whose lookahead does not match in linear time."""
        made = super().decimal_schema(schema)
        for one in (made, *made.get("anyOf", ())):
            one.pop("pattern", None)
        return made


def of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of the values that an adapter accepts, as pydantic generates it, with definitions apart."""
    return adapter.json_schema(schema_generator=PlainSchema)


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions inlined, as providers read it best; unchanged if one recurs or it would be huge."""
    definitions = schema.get("$defs", {})
    if any(_reaches(definitions[name], name, definitions, set()) for name in definitions):
        return schema
    bare = {key: value for key, value in schema.items() if key != "$defs"}
    if _size(bare, definitions, {}) > MAX_INLINED:
        return schema
    whole: dict[str, Any] = _placed(bare, definitions)
    return whole


def _placed(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_placed(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    name = _referred(node, definitions)
    if name is None:
        mapped = isinstance(node.get("discriminator"), dict) and "mapping" in node["discriminator"]  # it names definitions
        return {key: _placed(value, definitions) for key, value in node.items() if not (mapped and key == "discriminator")}
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return {**_placed(definitions[name], definitions), **_placed(beside, definitions)}


def _size(node: Any, definitions: dict[str, Any], known: dict[str, int]) -> int:
    if isinstance(node, list):
        return 1 + sum(_size(item, definitions, known) for item in node)
    if not isinstance(node, dict):
        return 1
    name = _referred(node, definitions)
    if name is not None and name not in known:
        known[name] = _size(definitions[name], definitions, known)
    referred = 0 if name is None else known[name]
    return 1 + referred + sum(_size(value, definitions, known) for value in node.values())


def _reaches(node: Any, target: str, definitions: dict[str, Any], seen: set[str]) -> bool:
    if isinstance(node, list):
        return any(_reaches(item, target, definitions, seen) for item in node)
    if not isinstance(node, dict):
        return False
    name = _referred(node, definitions)
    if name == target:
        return True
    if name is not None and name not in seen:
        seen.add(name)
        if _reaches(definitions[name], target, definitions, seen):
            return True
    return any(_reaches(value, target, definitions, seen) for value in node.values())


def _referred(node: dict[str, Any], definitions: dict[str, Any]) -> str | None:
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_DEFINITIONS):
        return None
    name = reference.removeprefix(_DEFINITIONS)
    return name if name in definitions else None
