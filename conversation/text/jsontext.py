"""JSON from outside, kept as its text.

Arguments, answers, results and contexts are sent and stored as the text they came as: msgpack integers stop at 64 bits, and a
model reads back exactly what it wrote. Strict JSON only: NaN, infinities and lone surrogates are refused (RFC 8259).

A text may be read later, deeper on the stack, and by another Python with another recursion limit. So every intake enforces the
bounds of this module, by a scan before any parser.
"""

import json
import math
import re
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias, overload

JsonText: TypeAlias = str

MAX_DEPTH = 100
"""How deep arrays and objects may be nested. Models and people write a dozen levels at most, and a reader of a hundred levels
needs less than a tenth of the lowest recursion limit."""
MAX_VALUES = 1 << 20
"""How many values a text may hold, each container counted twice: as many as the largest default limit (1 MiB) has bytes."""
MAX_DIGITS = 4300
"""How many digits in a row a number may have: Python's own default, since the time to read digits grows with their square."""

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_BESIDE_BRACKETS = bytes(set(range(256)) - _STEPS.keys())
_LONG_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{{MAX_DIGITS + 1}}}")
_TOO_LARGE = 10**MAX_DIGITS
TOO_DEEP = f"{{}}: it is nested more than {MAX_DEPTH} deep"
TOO_MANY = f"it holds more than {MAX_VALUES} values"
_SHOWN_KEY, _SHOWN_PATH = 40, 200

_Link: TypeAlias = "tuple[_Link, str | int] | None"


class NotJson(ValueError):
    """The value or text is not strict JSON, or exceeds the bounds of this module; the message says where and why."""


def dumps(value: Any) -> JsonText:
    """The compact JSON text of a value; keys keep their order. `NotJson` if JSON cannot carry it, or it exceeds the bounds."""
    _check(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{error!s:.200}") from error
    return check_text(text)


def loads(text: str) -> Any:
    """The value of a strict JSON text.

    Raises:
        NotJson: The text does not parse, names a key of an object twice, holds NaN, an infinity or a lone surrogate, or exceeds
            the bounds.
    """
    check_bounds(text)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_distinct)
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(f"{error!s:.200}") from error
    if "\\u" in text:  # only an escape can smuggle a lone surrogate into a text that encodes
        _check(value)
    check_text(text)
    return value


def check_bounds(text: str) -> str:
    """The text itself, once a linear scan has checked its bounds, without recursion and before any parser."""
    opened = text.count("[") + text.count("{")
    many = opened + text.count(",") >= MAX_VALUES
    if not (many or opened > MAX_DEPTH or _LONG_NUMBER.search(text)):
        return text
    if depth(text) > MAX_DEPTH:
        raise NotJson(TOO_DEEP.format("$"))
    bare = _STRING.sub(" ", text) if many or _LONG_NUMBER.search(text) else ""
    if many and bare.count("[") + bare.count("{") + bare.count(",") >= MAX_VALUES:
        raise NotJson(TOO_MANY)
    if _LONG_NUMBER.search(bare):
        raise NotJson(f"a number has more than {MAX_DIGITS} digits")
    return text


def depth(text: str) -> int:
    """The depth of nested arrays and objects; a linear scan that skips strings."""
    brackets = _STRING.sub("", text).encode("utf-8", "surrogatepass").translate(None, _BESIDE_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets), initial=0))


def check_text(text: str) -> str:
    """The text itself, once it is checked for lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotJson(f"a lone surrogate at position {error.start}") from error
    return text


@overload
def clean(text: str) -> str: ...


@overload
def clean(text: str | None) -> str | None: ...


def clean(text: str | None) -> str | None:
    """The text with each lone surrogate replaced by a question mark, so that UTF-8 can encode it; None stays None."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def size_bytes(text: str) -> int:
    """The size of the text in UTF-8, lone surrogates included."""
    return len(text.encode("utf-8", "surrogatepass"))


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson(f"{text:.40} is out of range")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("an object names a key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _check(value: Any) -> None:
    """Refuse a value that is not JSON, or exceeds the bounds: without recursion, and building a path only for an error."""
    _check_scalar(value, None)
    stack: list[tuple[Any, int, _Link]] = [(value, 1, None)] if isinstance(value, dict | list | tuple) else []
    values = 1
    while stack:
        item, deep, link = stack.pop()
        if deep > MAX_DEPTH:
            raise NotJson(TOO_DEEP.format(_path(link)))
        values += max(len(item), 1)
        if values > MAX_VALUES:
            raise NotJson(TOO_MANY)
        children: Any = item.items() if isinstance(item, dict) else enumerate(item)
        for key, child in children:
            if isinstance(item, dict):
                _check_key(key, link)
            if isinstance(child, dict | list | tuple):
                stack.append((child, deep + 1, (link, key)))
            else:
                _check_scalar(child, (link, key))


def _check_key(key: Any, link: _Link) -> None:
    if not isinstance(key, str):
        shown = type(key).__name__ if _unprintable(key) else f"{key!r:.40}"
        raise NotJson(f"{_path(link)}: the key {shown} is not a string")
    _check_string(key, link)


def _check_scalar(item: Any, link: _Link) -> None:
    if isinstance(item, str):
        _check_string(item, link)
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise NotJson(f"{_path(link)}: {item} is not JSON")
    elif isinstance(item, int):
        if _unprintable(item):
            raise NotJson(f"{_path(link)}: a number has more than {MAX_DIGITS} digits")
    elif item is not None and not isinstance(item, dict | list | tuple):
        raise NotJson(f"{_path(link)}: {type(item).__name__} is not JSON")


def _unprintable(value: Any) -> bool:
    return isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE


def _check_string(text: str, link: _Link) -> None:
    if text.isascii():
        return
    try:
        check_text(text)
    except NotJson as error:
        raise NotJson(f"{_path(link)}: {error}") from error


def _path(link: _Link) -> str:
    parts = []
    while link is not None:
        link, key = link
        parts.append(f"[{key}]" if isinstance(key, int) else f".{clean(key):.{_SHOWN_KEY}}")
    return f"${''.join(reversed(parts)):.{_SHOWN_PATH}}"
