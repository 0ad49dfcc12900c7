"""The strict form of a schema, in which providers take it for structured output.

Their models then write nothing else. It says less than the schema does: whatever it leaves out is judged afterwards.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

MOST_DEPTH = 5
MOST_PROPERTIES = 100
MOST_CHOICES = 500
"""The bounds of a strict schema that every provider takes; OpenAI was the narrowest once."""
_KEPT = ("type", "description", "const", "$ref")
_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


class _Unsaid(Exception):
    """The strict form has no words for it."""


def response_format(schema: JsonText) -> dict[str, Any] | None:
    """The `response_format` of a model call for a schema, in OpenAI's form; None if it has no strict form."""
    room = iter(range(MOST_PROPERTIES)), iter(range(MOST_CHOICES))
    try:
        strict = _strict(jsontext.loads(schema), room, 0)
    except _Unsaid:
        return None
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": strict, "strict": True}}


def _strict(node: Any, room: tuple[Iterator[int], Iterator[int]], depth: int) -> dict[str, Any]:
    if (
        not isinstance(node, dict)
        or depth > MOST_DEPTH
        or any(name in node for name in ("allOf", "prefixItems", "definitions"))
    ):
        raise _Unsaid
    properties, choices = room
    made = {name: node[name] for name in _KEPT if name in node}
    if "enum" in node:
        made["enum"] = [one for one in node["enum"] if next(choices, None) is not None]
        if len(made["enum"]) < len(node["enum"]):
            raise _Unsaid
    if any_of := node.get("anyOf", node.get("oneOf")):
        made["anyOf"] = [_strict(one, room, depth) for one in any_of]
    if "$defs" in node:
        made["$defs"] = {name: _strict(one, room, depth + 1) for name, one in node["$defs"].items()}
    kinds = made.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "object" in kinds:
        if node.get("additionalProperties") not in (None, False) or "patternProperties" in node or not node.get("properties"):
            raise _Unsaid  # an object of any names
        if any(next(properties, None) is None for _ in node["properties"]):
            raise _Unsaid
        made["properties"] = {name: _strict(one, room, depth + 1) for name, one in node["properties"].items()}
        made |= {"required": list(made["properties"]), "additionalProperties": False}
    if "array" in kinds:
        made["items"] = _strict(node.get("items"), room, depth + 1)
    if not (kinds <= {*_SCALARS, "object", "array"}) or not made.keys() & {"type", "const", "enum", "anyOf", "$ref"}:
        raise _Unsaid  # any value
    return made
