"""A Python function's parameters as a model sees them: their JSON Schema, and pydantic's validation of arguments."""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holdfast.conversation.text.jsontext import JsonText, NotJson, dumps
from holdfast.conversation.text.schema import schema_problem
from holdfast.errors import ConfigurationError

from . import type_schema
from .callback import Callback, InvalidArguments, ValidatorRaised
from .suspend import Suspend

_SHOWN_ERRORS = 5
_UNUSABLE = (*type_schema.UNUSABLE, SyntaxError)
_WORDS = {
    "missing_keyword_only_argument": "it is required",
    "missing_argument": "it is required",
    "unexpected_keyword_argument": "the tool has no such parameter",
}


class Parameters:
    """The rules for arguments from a function's signature; `schema` is their JSON Schema, which refuses unknown ones."""

    schema: JsonText

    def __init__(self, callback: Callback, descriptions: Mapping[str, str], field: str) -> None:
        self._field = field
        hints = {name: self._hint(callback, name) for name in callback.parameters}
        self._adapter, schema = self._adapted(callback, hints)
        for name, property_ in schema.get("properties", {}).items():
            if name in descriptions:
                property_.setdefault("description", descriptions[name])
        schema.setdefault("properties", {})
        try:
            self.schema = dumps(type_schema.inlined(schema))
        except NotJson as error:
            raise ConfigurationError(field, f"its JSON Schema is not JSON ({error})", "correct the defaults") from error
        problem = schema_problem(self.schema)  # edited arguments are checked by it
        if problem is not None:
            raise ConfigurationError(field, f"no value could be judged by its JSON Schema ({problem})", "correct the types")

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function's types, defaults applied; `InvalidArguments` has the paths of the first errors."""
        try:
            text = dumps(dict(arguments))
        except NotJson as error:
            raise InvalidArguments(f"they are not JSON: {error}") from error
        values: dict[str, Any] = validated(self._adapter, text)
        return values

    def _hint(self, callback: Callback, name: str) -> Any:
        field = f"{self._field}.{name}"
        parameter = callback.parameters[name]
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            problem = f"`{stars}{name}` has no JSON Schema, so no model could know what to fill in"
            raise ConfigurationError(field, problem, "name each parameter, or give parameters=<JSON Schema>")
        if name in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
            problem = "the function is a method, and nothing fills this in when the tool runs"
            raise ConfigurationError(field, problem, "declare a function outside of the class, or give a bound method")
        try:
            return callback.hint(name)
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            fix = "import the type where the function is defined, not only under TYPE_CHECKING"
            raise ConfigurationError(field, f"its annotation cannot be resolved ({error})", fix) from error

    def _adapted(self, callback: Callback, hints: dict[str, Any]) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        try:
            return _adapted(callback, hints)
        except _UNUSABLE as error:
            first: Exception = error
        for name, hint in hints.items():  # which parameter cannot be filled?
            try:
                _adapted(callback, {name: hint})
            except _UNUSABLE as error:
                problem = f"JSON cannot fill it ({_first_line(error)})"
                fix = "use a type that pydantic builds from JSON; what the app provides is in ToolContext.resources"
                raise ConfigurationError(f"{self._field}.{name}", problem, fix) from error
        problem = f"JSON cannot fill them ({_first_line(first)})"
        raise ConfigurationError(self._field, problem, "give parameters=<JSON Schema>") from first


def validated(adapter: TypeAdapter[Any], text: JsonText) -> Any:
    """The value of a JSON text by pydantic; `InvalidArguments` has the paths of the first errors."""
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise InvalidArguments(_line(error)) from error
    except (Exception, Suspend) as error:  # a user's validator may raise anything, and cannot suspend
        raise ValidatorRaised(f"$: a validator raised {type(error).__name__}") from error


def _adapted(callback: Callback, hints: dict[str, Any]) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Pydantic's adapter of a function that takes these parameters by name and returns them, and its schema."""

    def values(**arguments: Any) -> dict[str, Any]:
        return arguments

    by_name = inspect.Parameter.KEYWORD_ONLY
    named = [
        inspect.Parameter(name, by_name, default=callback.parameters[name].default, annotation=hint)
        for name, hint in hints.items()
    ]
    vars(values)["__signature__"] = inspect.Signature(named)
    values.__annotations__ = dict(hints)
    function: Any = values  # pydantic documents functions as adaptable; its annotations know only types
    adapter: TypeAdapter[Any] = TypeAdapter(function)
    return adapter, type_schema.of(adapter)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def _line(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    parts = [f"{_path(item['loc'])}: {_WORDS.get(item['type'], item['msg'])}" for item in found[:_SHOWN_ERRORS]]
    if len(found) > _SHOWN_ERRORS:
        parts.append(f"and {len(found) - _SHOWN_ERRORS} more")
    return " ".join("; ".join(parts).split())


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
