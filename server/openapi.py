"""The description of the API (OpenAPI 3.1), made from the operations and their models."""

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from .bodies import PATHS
from .operation import Operation
from .problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/{model}"
_PART = re.compile(r"\{(\w+)\}")
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
    },
}
"""How callers say who they are. Pages of the server itself have a cookie instead."""


def described(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of these operations."""
    named: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {(Problem, "serialization"): None}
    for operation in operations:
        if operation.body is not None:
            named[operation.body, "validation"] = None
        if operation.reply is not None:
            named[operation.reply, "serialization"] = None
    schemas, definitions = models_json_schema(list(named), ref_template=REF)
    references: dict[Any, Any] = {model: schema for (model, _), schema in schemas.items()}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": metadata.version("holdfast"),
            "description": "Conversations of LLM agents, and the decisions that they wait for.",
        },
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": SECURITY},
    }


def _described(operation: Operation, references: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": [] if operation.scope is None else [{"bearer": [scope.value for scope in operation.scopes]}],
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
        needed = not _takes_nothing(operation.body)
        found["requestBody"] = {"required": needed, "content": {"application/json": {"schema": references[operation.body]}}}
    return found


def _succeeding(operation: Operation, references: Mapping[Any, Any]) -> dict[str, Any]:
    content = {} if operation.reply is None else {"application/json": {"schema": references[operation.reply]}}
    content |= _STREAM if operation.streams else {}
    content |= _TEXT if operation.text else {}
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
    if operation.streams and operation.method == "GET":
        found.append({**_LAST, "schema": {"type": "string", "pattern": f"^{operation.last}$"}})
    return found


def _given(schema: dict[str, Any], inside: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field as it stands in a query, where there is no null and no reference."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return _given(options[0], inside)
    if "$ref" in schema:
        return dict(inside[schema["$ref"].rpartition("/")[2]])
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}


def _takes_nothing(body: type[BaseModel]) -> bool:
    return not any(field.is_required() for field in body.model_fields.values())
