"""The description of the API (OpenAPI 3.1), made from the operations and their models."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue

from holdfast.client.replies import Problem

from .bodies import PATHS
from .error_responses import MEDIA_TYPE
from .operation import Operation

REF = "#/components/schemas/{model}"
_PART = re.compile(r"\{(\w+)\}")
_NONE = re.compile(r"\bNone\b")
_REFERENCE = re.compile(r"(?<=#/components/schemas/)\w+")
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes the request safe to repeat: the same key again gives the same answer, and changes nothing.",
    "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,200}$"},
}
_LAST = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id` of the last event that was received; the stream goes on after it.",
}
_FRAME = {name: {"type": "string"} for name in ("id", "event", "data")}
_STREAM = {"text/event-stream": {"schema": {"type": "object", "properties": _FRAME, "required": ["event", "data"]}}}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, a page token, or a token of the identity provider.",
    }
}
"""The ways to authenticate in the description. The server's own pages use a cookie instead."""


NAMES = {
    **{
        name: f"{name}Reply"
        for name in "AuditBreak AuditEntry Cut GivenVote Message Pause Principal Question Turn Usage UsageRow".split()  # noqa: SIM905
    },
    "AgentRow": "AgentReply",
    "Ancestor": "AncestorReply",
    "ApproverTerms": "ApproversReply",
    "BudgetRow": "BudgetReply",
    "CallTarget": "TargetReply",
    "ClaimView": "ClaimantReply",
    "CommentView": "CommentReply",
    "ConversationRow": "RowReply",
    "ConversationState": "StateReply",
    "LateResult": "LateReply",
    "MessagePage": "MessagesReply",
    "Node": "NodeReply",
    "Page_ConversationGivenReply_": "GivenReply",
    "Page_ConversationRow_": "RowsReply",
    "Page_PendingCall_": "PendingPageReply",
    "PendingCall": "PendingReply",
    "Per": "BudgetPer",
    "RuleCheck": "RulesCheckReply",
    "RuleEffect": "Effect",
    "RunningCall": "RunningReply",
    "UsageReport": "UsageReportReply",
    "ToolRow": "ToolReply",
    "TurnPage": "TurnsReply",
    "VoteView": "VoteReply",
    "Wait": "WaitReply",
}
"""The names of client results in the description that differ from their classes' names."""


class _Schemas(GenerateJsonSchema):
    """Schemas of bodies as they are, and of replies as a server sends them: with all their fields, and open to new ones."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - the signature of pydantic
        return self.mode == "serialization" or super().field_is_required(field, total)

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """A field with a default; the schema of a reply does not state it."""
        return self.generate_inner(schema["schema"]) if self.mode == "serialization" else super().default_schema(schema)

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model; computed fields are fields like any other."""
        return self._open(super().model_schema(schema))

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return self._open(super().dataclass_schema(schema))

    def _open(self, found: JsonSchemaValue) -> JsonSchemaValue:
        if self.mode == "serialization":
            if found.get("additionalProperties") is False:
                del found["additionalProperties"]
            for field in found.get("properties", {}).values():
                field.pop("readOnly", None)
        return found


def described(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of these operations."""
    wanted: dict[tuple[Any, JsonSchemaMode], TypeAdapter[Any]] = {(Problem, "serialization"): TypeAdapter(Problem)}
    for operation in operations:
        if operation.body is not None:
            wanted[operation.body, "validation"] = TypeAdapter(operation.body)
        if operation.reply not in (None, str):
            wanted[operation.reply, "serialization"] = TypeAdapter(operation.reply)
    inputs = [(model, mode, adapter) for (model, mode), adapter in wanted.items()]
    schemas, definitions = TypeAdapter.json_schemas(inputs, ref_template=REF, schema_generator=_Schemas)
    references: dict[Any, Any] = {model: schema for (model, _), schema in schemas.items()}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, references)
    named = {NAMES.get(name, name): _named(name, schema) for name, schema in definitions["$defs"].items()}
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": metadata.version("holdfast"),
            "description": "Conversations of LLM agents, and the decisions that they wait for.",
        },
        "paths": paths,
        "components": {"schemas": named, "securitySchemes": SECURITY},
    }
    text = _REFERENCE.sub(lambda one: NAMES.get(one[0], one[0]), json.dumps(found))
    whole: dict[str, Any] = json.loads(_NONE.sub("null", text))
    return whole


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema under its name in the description, with the first paragraph of its docstring."""
    found = schema | ({"title": NAMES[name]} if name in NAMES else {})
    said = schema.get("description", "").partition("\n\n")[0]
    return found | ({"description": " ".join(said.split())} if said else {})


def _described(operation: Operation, references: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": _security(operation),
        "parameters": _parameters(operation),
        "responses": {
            **_succeeding(operation, references),
            "default": {
                "description": "The request failed; `code` says why.",
                "content": {MEDIA_TYPE: {"schema": references[Problem]}},
            },
        },
    }
    if operation.body is not None:
        needed = any(field.is_required() for field in operation.body.model_fields.values())
        found["requestBody"] = {"required": needed, "content": {"application/json": {"schema": references[operation.body]}}}
    return found


def _security(operation: Operation) -> list[dict[str, Any]]:
    """The scopes that a caller needs, or the one that is enough instead."""
    ways = [] if operation.scope is None else [operation.scopes]
    ways += [] if operation.instead is None else [(operation.instead,)]
    return [{"bearer": [scope.value for scope in scopes]} for scopes in ways]


def _succeeding(operation: Operation, references: Mapping[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.reply is not None:
        schema = references.get(operation.reply)
        content |= _TEXT if schema is None else {"application/json": {"schema": schema}}
    content |= _STREAM if operation.streams else {}
    found = {str(operation.status): {"description": operation.summary, "content": content}}
    if operation.streams and operation.reply is None and not operation.endless:
        found["204"] = {"description": "The conversation has ended, and nothing follows."}
    return found


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found = [{"name": name, "in": "path", "required": True, "schema": PATHS[name]} for name in _PART.findall(operation.path)]
    if operation.query is not None:
        schema = operation.query.model_json_schema(ref_template=REF)
        inside = schema.get("$defs", {})
        for name, field in schema["properties"].items():
            plain = {key: value for key, value in field.items() if key not in ("title", "description")}
            parameter = {"name": name, "in": "query", "schema": _given(plain, inside)}
            found.append(parameter | ({"description": field["description"]} if "description" in field else {}))
    if operation.key is not None:
        found.append(_KEY)
    if operation.streams and operation.method == "GET" and operation.last is not None:
        found.append({**_LAST, "schema": {"type": "string", "pattern": f"^{operation.last}$"}})
    return found


def _given(schema: dict[str, Any], inside: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field as a query has it, without null and references."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return _given(options[0], inside)
    if "$ref" in schema:
        return dict(inside[schema["$ref"].rpartition("/")[2]])
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}
