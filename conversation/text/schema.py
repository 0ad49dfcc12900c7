"""Validation by JSON Schema with jsonschema-rs, which is imported only when there is a schema.

Its regular expressions take linear time, it fetches nothing, and the work of a validation is computed before it begins.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from . import jsontext
from .jsontext import JsonText
from .workload import MAX_STEPS, SchemaGraph, Size, Unusable

if TYPE_CHECKING:
    import jsonschema_rs

MAX_SCHEMA_BYTES = 256 * 1024
"""The longest schema, in bytes: longer than any schema that a model would be sent."""
_SHOWN = 300
_PATTERN_BYTES = _CACHE_BYTES = 10 << 20
"""The memory for one pattern's automaton, and for the cache of the automaton while it runs; `^.{1,2000}$` takes 2 MB."""


class _Judge(NamedTuple):
    validator: "jsonschema_rs.Validator"
    graph: SchemaGraph


def problem(schema: JsonText | None, value: Any) -> str | None:
    """The problem of a value, and its place (`$.amount: ...`); None if the value fits, or there is no schema.

    If this release refuses a schema that an older one accepted, every value has a problem.
    """
    if schema is None:
        return None
    try:
        return _problem(_judge(schema), value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as broken:  # noqa: BLE001 - a judge in Rust may also panic, which is no Exception
        return f"it cannot be judged against the schema ({_said(broken)})"


def schema_problem(schema: JsonText) -> str | None:
    """The problem of a schema itself, or None. Every schema is checked here at its intake."""
    try:
        _judge(schema)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as broken:  # noqa: BLE001 - as above
        return _said(broken)
    return None


def _problem(judge: _Judge, value: Any) -> str | None:
    size = Size.of(value)
    if size is None:
        return f"$: it is nested more than {jsontext.MAX_DEPTH} deep"
    workload = judge.graph.workload(size)
    if workload.too_much:
        return f"$: it is too large for its schema: more than {MAX_STEPS} steps to judge it"
    if judge.validator.is_valid(value):
        return None
    if not workload.located(size):
        return "$: it does not fit the schema, and is too large to say where"
    import jsonschema_rs  # noqa: PLC0415 - see above

    try:
        judge.validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return _said(error, error.instance_path)
    return "$: it does not fit the schema"


@lru_cache(maxsize=128)
def _judge(schema: JsonText) -> _Judge:
    import jsonschema_rs  # noqa: PLC0415 - see above

    size = jsontext.size_bytes(schema)
    if size > MAX_SCHEMA_BYTES:
        raise Unusable(f"it has {size} bytes, {MAX_SCHEMA_BYTES} are allowed; describe less")
    value = jsontext.loads(schema)
    if not isinstance(value, dict | bool):
        raise Unusable(f"$: {type(value).__name__} is not a schema")
    graph = SchemaGraph(value)
    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_CACHE_BYTES)
    validator = jsonschema_rs.validator_for(value, pattern_options=patterns, validate_formats=False, offline=True)
    return _Judge(validator, graph)


def _said(error: BaseException, path: list[str | int] | None = None) -> str:
    """An error in one bounded line, with its place if it has one."""
    where = path if path is not None else getattr(error, "instance_path", None)
    message = str(getattr(error, "message", None) or error or type(error).__name__)
    if message.endswith('is not a "regex"'):
        message += (
            ": it is malformed, too large, or needs to look around or back (`(?=`, `(?!`, `\\1`), which takes unbounded time"
        )
    place = "" if where is None else "$" + "".join(f"[{one}]" if isinstance(one, int) else f".{one:.40}" for one in where)
    line = " ".join(f"{place:.200}: {_cut(message)}".split()) if place else _cut(message)
    return jsontext.clean(line)


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN // 2]} ... {line[-_SHOWN // 2 :]}"
