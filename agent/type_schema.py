"""JSON Schemas of Python types, self-contained and without the titles that pydantic invents from field names."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

UNUSABLE = (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError)
"""The errors for a type that has no schema."""
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
    definitions = {f"#/$defs/{name}": one for name, one in schema.get("$defs", {}).items()}
    room = iter(range(MAX_INLINED))

    def placed(node: Any, within: frozenset[str]) -> Any:
        if next(room, None) is None:
            raise OverflowError
        if isinstance(node, list):
            return [placed(item, within) for item in node]
        if not isinstance(node, dict):
            return node
        made = {key: placed(value, within) for key, value in node.items()}
        match made:
            case {"discriminator": {"mapping": _}}:  # it names definitions
                del made["discriminator"]
        match made:
            case {"$ref": str(name)} if name in within:
                raise OverflowError
            case {"$ref": str(name), **beside} if name in definitions:
                return {**placed(definitions[name], within | {name}), **beside}
        return made

    try:
        whole: dict[str, Any] = placed({key: value for key, value in schema.items() if key != "$defs"}, frozenset())
    except OverflowError:
        return schema
    return whole
