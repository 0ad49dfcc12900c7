"""JSON from outside, kept as its text.

Arguments, answers, results and contexts travel and rest as the text they came as: msgpack integers stop at 64 bits, and a
model reads back exactly what it wrote. Strict JSON only: NaN, infinities and lone surrogates are refused (RFC 8259).
"""

import json
from typing import Any, NoReturn, TypeAlias

JsonText: TypeAlias = str


class NotJson(ValueError):
    """The value or text is not strict JSON; the message says where and why."""


def dumps(value: Any) -> JsonText:
    """The compact JSON text of a value; keys keep their order.

    Raises:
        NotJson: The value holds something JSON cannot carry (NaN, bytes, an object, a key that is no string, ...).
    """
    _check(value, "$")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return check_text(text)


def loads(text: str) -> Any:
    """The value of a strict JSON text.

    Raises:
        NotJson: The text does not parse, or holds NaN, an infinity or a lone surrogate.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    if "\\u" in text:  # only an escape can smuggle a lone surrogate into a text that encodes
        _check(value, "$")
    check_text(text)
    return value


def check_text(text: str) -> str:
    """The text itself, if it can be encoded as UTF-8.

    Raises:
        NotJson: It holds a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"a lone surrogate at position {error.start}"
        raise NotJson(message) from error
    return text


def size_bytes(text: str) -> int:
    """How many bytes the text takes in UTF-8."""
    return len(text.encode())


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise NotJson(message)


def _check(value: Any, path: str) -> None:
    stack = [(value, path)]
    visited = 0
    while stack:
        item, where = stack.pop()
        visited += 1
        if visited > 1_000_000:  # noqa: PLR2004 - a cycle, or more than any limit lets through
            message = "too many values (is it circular?)"
            raise NotJson(message)
        if isinstance(item, str):
            _check_string(item, where)
        elif isinstance(item, dict):
            for key, child in item.items():
                if not isinstance(key, str):
                    message = f"{where}: the key {key!r} is not a string"
                    raise NotJson(message)
                _check_string(key, where)
                stack.append((child, f"{where}.{key}"))
        elif isinstance(item, list | tuple):
            stack.extend((child, f"{where}[{index}]") for index, child in enumerate(item))
        elif isinstance(item, float):
            if item != item or item in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN differs from itself
                message = f"{where}: {item} is not JSON"
                raise NotJson(message)
        elif item is not None and not isinstance(item, bool | int):
            message = f"{where}: {type(item).__name__} is not JSON"
            raise NotJson(message)


def _check_string(text: str, where: str) -> None:
    try:
        check_text(text)
    except NotJson as error:
        message = f"{where}: {error}"
        raise NotJson(message) from error
