"""Checks of a user's declarations: each returns the value in its stored form, or raises a `ConfigurationError`."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from holdfast.conversation.text.jsontext import JsonText, NotJson, check_text, dumps, loads
from holdfast.conversation.text.schema import schema_problem
from holdfast.errors import ConfigurationError

from .rules import Rules

Member = TypeVar("Member", bound=StrEnum)
T = TypeVar("T")


def text(value: Any, field: str) -> str:
    """The value, if it is a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise ConfigurationError(field, f"{type(value).__name__} is not text", "give a string")
    try:
        return check_text(value)
    except NotJson as error:
        raise ConfigurationError(field, f"it cannot be encoded as UTF-8 ({error})", "remove the surrogate") from error


def flag(value: Any, field: str) -> bool:
    """The value, if it is a boolean."""
    if not isinstance(value, bool):
        raise ConfigurationError(field, f"{value!r} is not a boolean", "give True or False")
    return value


def member(kind: type[Member], value: Any, field: str) -> Member:
    """The member of the enumeration that the value names."""
    try:
        return kind(value)
    except ValueError as error:
        allowed = ", ".join(repr(str(known)) for known in kind)
        raise ConfigurationError(field, f"{value!r} is not known", f"use one of {allowed}") from error


def instance(kind: type[T], value: Any, field: str, fix: str) -> T | None:
    """The value, if it is an object of the class or None."""
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(field, f"{type(value).__name__} is not {kind.__name__}", fix)
    return value


def rules(value: Any, field: str) -> Rules | None:
    """The value, if it is permission rules or None."""
    return instance(Rules, value, field, 'give Rules(allow=[...], ask=[...], deny=[...]), or Rules.load("rules.yaml")')


def items(value: Any, kind: type, what: str, field: str) -> Iterable[Any]:
    """The value, if it is a list (not a single item); `what` names the items in an error."""
    if isinstance(value, kind | str | Mapping) or not hasattr(value, "__iter__"):
        name = field.rpartition(".")[2]
        raise ConfigurationError(field, f"{type(value).__name__} is no list of {what}", f"give a list: {name}=[...]")
    found: Iterable[Any] = value
    return found


def seconds(value: Any, field: str) -> float | None:
    """The value as seconds, if it is a positive finite number or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(field, f"{value!r} is not a number", "give seconds, such as 60 or 0.5")
    if not (value > 0 and math.isfinite(value)):
        raise ConfigurationError(field, f"{value!r} is no time limit", "give a finite number of seconds above 0")
    return float(value)


def json_object(value: Any, field: str) -> JsonText:
    """The JSON text of an object: a string is kept byte for byte, a mapping keeps the order of its keys."""
    if isinstance(value, str):
        fix = "give the JSON text of an object, or a dict"
        try:
            parsed = loads(value)
        except NotJson as error:
            raise ConfigurationError(field, f"it is not JSON ({error})", fix) from error
        if not isinstance(parsed, dict):
            raise ConfigurationError(field, "it is JSON, but no object", fix)
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(field, f"{type(value).__name__} is no JSON object", "give a dict, or its JSON text")
    try:
        return dumps(dict(value))
    except NotJson as error:
        raise ConfigurationError(field, f"it is not JSON ({error})", "use only what JSON can carry") from error


def json_schema(value: Any, field: str) -> JsonText:
    """The text of a valid JSON Schema, kept as `json_object` keeps it."""
    schema = json_object(value, field)
    problem = schema_problem(schema)
    if problem is not None:
        raise ConfigurationError(field, f"it is no valid JSON Schema ({problem})", "correct the schema")
    return schema


def object_schema(value: Any, field: str) -> JsonText:
    """The text of a valid JSON Schema of type `object`, as models' arguments are."""
    schema = json_schema(value, field)
    kind = loads(schema).get("type")
    if kind != "object":
        problem = f"{'it states no type' if kind is None else f'its type is {kind!r}'}, but a model's arguments are an object"
        raise ConfigurationError(field, problem, 'give a schema with "type": "object"')
    return schema
