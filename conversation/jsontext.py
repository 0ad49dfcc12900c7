"""JSON from outside, kept as its text.

Arguments, answers, results and contexts travel and rest as the text they came as: msgpack integers stop at 64 bits, and a
model reads back exactly what it wrote. Strict JSON only: NaN, infinities and lone surrogates are refused (RFC 8259).
"""

import json
import math
from typing import Any, NoReturn, TypeAlias

JsonText: TypeAlias = str


class NotJson(ValueError):
    """The value or text is not strict JSON; the message says where and why."""


def dumps(value: Any) -> JsonText:
    """The compact JSON text of a value; keys keep their order.

    Raises:
        NotJson: The value holds something JSON cannot carry (NaN, bytes, an object, a key that is no string, ...).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RecursionError) or "ircular" in str(error):
            raise NotJson(str(error)) from error
        _check(value, "$")  # says where
        raise NotJson(str(error)) from error
    _check(value, "$")
    return check_text(text)


def loads(text: str) -> Any:
    """The value of a strict JSON text.

    Raises:
        NotJson: The text does not parse, or holds NaN, an infinity or a lone surrogate.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_distinct)
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


def clean(text: str) -> str:
    """The text with each lone surrogate replaced by a question mark, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def size_bytes(text: str) -> int:
    """How many bytes the text takes in UTF-8."""
    return len(text.encode())


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        message = f"{text:.40} is out of range"
        raise NotJson(message)
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        message = "an object names a key twice"
        raise NotJson(message)
    return found


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise NotJson(message)


def _check(value: Any, path: str) -> None:
    stack = [(value, path)]
    while stack:
        item, where = stack.pop()
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
            if not math.isfinite(item):
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
