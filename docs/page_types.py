"""Write the types of data in server/static/holdfast.d.ts from the description of the API: `python docs/page_types.py`.

The part between the two marks is written anew; the rest, on what the page's code does, is by hand.
"""  # noqa: INP001 - a script beside the pages

import re
from pathlib import Path
from typing import Any

from holdfast.server.app import OPERATIONS
from holdfast.server.openapi import described

PAGE = Path(__file__).parents[1] / "server" / "static" / "holdfast.d.ts"
BEGIN, END = "// From the description of the API, by docs/page_types.py:\n", "// So far from the description of the API.\n"
NAMES = {
    "PendingReply": "Call",
    "RunningReply": "Run",
    "StateReply": "State",
    "DecisionReceiptReply": "Resolved",
    "MessageReceiptReply": "Sent",
    "RevokedReply": "Revoked",
    "CancelledReply": "Cancelled",
    "PrincipalReply": "Person",
    "QuestionReply": "Question",
    "TargetReply": "Target",
    "ApproversReply": "Approvers",
    "VoteReply": "Vote",
    "CommentReply": "Comment",
    "CutReply": "Cut",
    "LateReply": "Late",
    "GrantReply": "Grant",
    "ScopeBody": "Scope",
}
"""The types that a page is given, by the names of their schemas."""
PLACE = ("tool_call_id", "suspension_id", "decision_id")
"""What the page's code adds to a decision by itself."""
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_REFERENCE = re.compile(r"#/components/schemas/(\w+)")


def type_of(schema: dict[str, Any]) -> str:
    """The type of a value that fits a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return NAMES.get(name, name)
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " | ".join(f'"{one}"' for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(type_of(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        inner = type_of(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"{{ [name: string]: {type_of(values) if isinstance(values, dict) else 'Json'} }}"
    return PLAIN.get(schema.get("type", ""), "Json")


def declared(name: str, schema: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """The declaration of a type."""
    said = f"/** {schema['description']} */\n" if schema.get("description") else ""
    if "properties" not in schema:
        return f"{said}export type {name} = {type_of(schema)};\n"
    return f"{said}export interface {name} {{\n{_fields(schema, without)}}}\n"


def _fields(schema: dict[str, Any], without: tuple[str, ...]) -> str:
    lines = []
    for name, field in schema["properties"].items():
        if name not in without:
            lines += [f"  /** {field['description']} */"] if "description" in field else []
            lines += [f"  {name}{'' if name in schema.get('required', ()) else '?'}: {type_of(field)};"]
    return "".join(f"{line}\n" for line in lines)


def render() -> str:
    """The whole file."""
    schemas = described(OPERATIONS)["components"]["schemas"]
    bodies = [one["$ref"].rpartition("/")[2] for one in schemas["ResolveCallBody"]["oneOf"]]
    names = NAMES | {body: f"{body.removesuffix('CallBody')}Decision" for body in bodies}
    wanted = list(names)
    for name in wanted:  # it grows by all that these name
        wanted += sorted(set(_REFERENCE.findall(str(schemas[name]))) - set(wanted))
    told = [declared(names.get(name, name), schemas[name], PLACE if name in bodies else ()) for name in wanted]
    told.append(f"export type Decision = {' | '.join(names[body] for body in bodies)};\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{''.join(told)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
