"""JSON Schema, judged by the jsonschema library, which is imported when there is a schema to judge: reading needs none."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import jsontext
from .jsontext import JsonText

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def problem(schema: JsonText | None, value: Any) -> str | None:
    """What is wrong with the value, and where (`$.amount: ...`); None if it fits, or nothing is asked."""
    if schema is None:
        return None
    import jsonschema  # noqa: PLC0415 - see above

    try:
        error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(value))
        return None if error is None else jsontext.clean(f"{error.json_path}: {error.message:.300}")
    except Exception as broken:  # noqa: BLE001 - a schema or a value can break the judge in many ways, and none the machine
        return jsontext.clean(f"it cannot be judged against the schema ({type(broken).__name__}: {broken!s:.200})")


def schema_problem(schema: JsonText) -> str | None:
    """What is wrong with the schema itself, or None."""
    import jsonschema  # noqa: PLC0415 - see above

    try:
        value = jsontext.loads(schema)
        if not isinstance(value, dict):
            return None if isinstance(value, bool) else f"$: {type(value).__name__} is not a schema"
        cls = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
        cls.check_schema(value)
    except jsonschema.SchemaError as error:
        return f"{error.json_path}: {error.message:.300}"
    except Exception as broken:  # noqa: BLE001 - as above
        return f"it cannot be read ({type(broken).__name__}: {broken!s:.200})"
    return None


@lru_cache(maxsize=512)
def _validator(schema: JsonText) -> "Validator":
    import jsonschema  # noqa: PLC0415 - see above
    import referencing  # noqa: PLC0415 - see above

    value = jsontext.loads(schema)
    cls = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
    return cls(value, registry=referencing.Registry())  # a $ref is never fetched from the network
