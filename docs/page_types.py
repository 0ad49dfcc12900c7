"""Write what pages read: the types of data in server/static/holdfast.d.ts, and the tables in docs/page.md.

Run `python docs/page_types.py`. The types are made from the description of the API, the tables from `server/page_view.py`. What
stands between the marks is written anew; the rest is by hand.
"""  # noqa: INP001 - a script beside the pages

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.live import LIVE_EVENTS
from holdfast.server import openapi, page_view
from holdfast.server.app import OPERATIONS
from holdfast.server.openapi import described

TYPES = Path(__file__).parents[1] / "server" / "static" / "holdfast.d.ts"
GUIDE = Path(__file__).with_name("page.md")
BEGIN, END = "// From the description of the API, by docs/page_types.py:\n", "// So far from the description of the API.\n"
NAMES = {
    "PendingReply": "Call",
    "RunningReply": "Run",
    "StateReply": "State",
    "DecisionReceiptReply": "Resolved",
    "MessageReceiptReply": "Sent",
    "RevokedReply": "Revoked",
    "ClaimReply": "Claimed",
    "HeardReply": "Heard",
    "CancelledReply": "Cancelled",
    "InterruptedReply": "Interrupted",
    "QueuedMessage": "QueuedMessage",
    "PrincipalReply": "Person",
    "QuestionReply": "Question",
    "TargetReply": "Target",
    "ApproversReply": "Approvers",
    "VoteReply": "Vote",
    "ClaimantReply": "Claimant",
    "CommentReply": "Comment",
    "CutReply": "Cut",
    "LateReply": "Late",
    "GrantReply": "Grant",
    "AncestorReply": "Ancestor",
    "WaitReply": "Wait",
    "NodeReply": "Tree",
    "ScopeBody": "Scope",
    "Overrides": "Overrides",
}
"""The types that a page is given, by the names of their schemas."""
TOLD = {*EVENTS, *LIVE_EVENTS}
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


def types() -> str:
    """The whole file of types."""
    schemas = described(OPERATIONS)["components"]["schemas"]
    bodies = [one["$ref"].rpartition("/")[2] for one in schemas["ResolveCallBody"]["oneOf"]]
    names = NAMES | {body: f"{body.removesuffix('CallBody')}Decision" for body in bodies}
    wanted = list(names)
    for name in wanted:  # it grows by all that these name
        wanted += sorted(set(_REFERENCE.findall(str(schemas[name]))) - set(wanted))
    told = [declared(names.get(name, name), schemas[name], PLACE if name in bodies else ()) for name in wanted]
    told.append(f"export type Decision = {' | '.join(names[body] for body in bodies)};\n")
    before, _, rest = TYPES.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{''.join(told)}{END}{rest.partition(END)[2]}"


def table(rows: Mapping[type[BaseModel], page_view.Row]) -> str:
    """A table of what a page is shown of replies or events."""
    lines = ["| | shown | where it is the page's own | not shown |", "| --- | --- | --- | --- |"]
    for model, row in rows.items():
        name = re.sub(r"[\[\]]", "_", model.__name__)
        if rows is page_view.REPLIES:
            name = openapi.NAMES.get(name, name)
        elif model in TOLD:
            name = model.model_fields["kind"].default
        cells = (f"`{name}`", *map(_words, row))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _words(names: str) -> str:
    return " ".join(f"`{name}`" for name in sorted(names.split()))


def guide() -> str:
    """The whole page of the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    for mark, rows in (("replies", page_view.REPLIES), ("events", page_view.EVENTS)):
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        after = rest.partition(f"<!-- /{mark} -->")[2]
        text = f"{before}<!-- {mark} -->\n{table(rows)}\n<!-- /{mark} -->{after}"
    return text


if __name__ == "__main__":
    TYPES.write_text(types(), encoding="utf-8")
    GUIDE.write_text(guide(), encoding="utf-8")
