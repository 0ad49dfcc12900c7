"""The shape of an agent's replies: a JSON Schema, and pydantic's validation if it is made from a type."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from holdfast.conversation.text.jsontext import JsonText, NotJson, dumps
from holdfast.errors import ConfigurationError
from holdfast.redaction import PLAIN, Redaction

from . import checks, disclosure, type_schema
from .callback import InvalidArguments
from .disclosure import Disclosure, Errors
from .parameters import validated
from .tool import SHOWN_CHARACTERS


class Reply:
    """What each reply of an agent is: an object that fits `schema` and, if it was made from a type, the type's validators.

    Attributes:
        schema: The JSON Schema.
        validates: Whether there are such validators.
    """

    def __init__(self, declared: Any, field: str) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(declared, Mapping | str):
            self.schema: JsonText = checks.object_schema(declared, field)
        else:
            self._adapter, made = _of_type(declared, field)
            self.schema = checks.object_schema(made, field)
        self.validates = self._adapter is not None

    def problem(self, value: dict[str, Any], *, errors: Errors = Disclosure.FULL, redaction: Redaction = PLAIN) -> str | None:
        """What the type's validators find wrong with a reply, in one line with paths; None if nothing.

        `errors` says how much is told of an exception of a validator; `redaction` removes the secrets.
        """
        if self._adapter is None:
            return None
        try:
            validated(self._adapter, dumps(value))
        except InvalidArguments as error:
            return redaction.redacted(disclosure.told(errors, error), SHOWN_CHARACTERS)
        return None


def _of_type(declared: Any, field: str) -> tuple[TypeAdapter[Any], JsonText]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(declared)
        return adapter, dumps(_rooted(type_schema.inlined(type_schema.of(adapter))))
    except (*type_schema.UNUSABLE, NotJson) as error:
        fix = "give a pydantic model, a dataclass, or a JSON Schema of an object"
        raise ConfigurationError(field, f"no JSON Schema can be made of it ({error})", fix) from error


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a type at its root, where a type that recurs has a reference."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found = schema.get("$defs", {}).get(name)
    return {**found, "$defs": schema["$defs"]} if isinstance(found, dict) else schema
