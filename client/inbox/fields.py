"""Form fields for values of a JSON Schema: what a person fills in, and the value that results.

An object becomes its properties, one field each; texts, numbers, booleans, choices and lists of texts have fields of their own.
Everything else (alternatives, deep nesting) has a box for JSON. Fields only hold what was typed: the schema itself judges
whether the value fits.
"""

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.conversation.text import jsontext

from .form import Form
from .text import as_json, shown, visible

MOST_FIELDS = 80
"""The most fields of a value; a value with more is a single box for JSON."""
DEEPEST = 3
"""How deep objects are drawn as groups of fields; deeper ones have a box for JSON."""
LONG = 60
"""A text of at least this many characters has a box of several lines."""
MOST_CHOICES = 200
FEW = 8
"""The most values of a choice that are drawn as buttons, where all are visible."""
SHORT = 120
"""A user's answer of at most this many characters has one line."""
LONGEST_LABEL = 2_000
LONGEST_NUMBER = 400
_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
ABSENT: Any = object()
_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}
_FLAGS = ("true", "yes"), ("false", "no")
_INPUTS = {"email": "email", "uri": "url", "date": "date"}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_WORDS = {
    "this is needed": "needed",
    "this is no whole number": "noInteger",
    "this is no number": "noNumber",
    "this is no JSON": "noJson",
}
"""The problems of a field by the beginning of their text, with the names for an application's own wording."""


class FieldKind(StrEnum):
    """The kind of a field's content."""

    TEXT = "text"  # one line
    LINES = "lines"  # several lines
    NUMBER = "number"  # a number
    INTEGER = "integer"  # a whole number
    FLAG = "flag"  # yes or no
    CHOICE = "choice"  # one of some values
    CHOICES = "choices"  # some of some texts
    ITEMS = "items"  # a list of texts, one per line
    GROUP = "group"  # an object, whose fields follow
    JSON = "json"  # any JSON value
    ANY = "any"  # a text, or any JSON value if marked as JSON


@dataclass(slots=True)
class Field:
    """One field.

    Attributes:
        name: Its name in the form: `v` and the place of the value, as a JSON pointer.
        nullable: Whether an empty field means null.
        choices: The values of a choice, as JSON texts, with the texts for people.
        was: The value from which it was made; `ABSENT` if there was none.
        json: Whether the text of `any` is JSON.
        number: Its number on the page, from 1.
        drawn: Its text, and `json`, when it was drawn.
        edited: Whether it edits an existing value.
        needed: Whether it is marked as needed, although it may be left empty.
        buttons: Whether all values of the choice are visible at once.
        filled: Whether an empty text is refused, although the schema would accept it.
        input: The type of its control, for a text in one line.
        most: The most characters that may be typed; None without a limit.
    """

    name: str
    label: str
    kind: FieldKind
    required: bool = False
    nullable: bool = False
    hint: str = ""
    text: str = ""
    choices: Sequence[tuple[str, str]] = ()
    inner: "Sequence[Field]" = ()
    was: Any = ABSENT
    json: bool = False
    problem: str = ""
    number: int = 1
    drawn: tuple[str, bool] = ("", False)
    edited: bool = False
    needed: bool = False
    buttons: bool = False
    filled: bool = False
    input: str = "text"
    most: int | None = None

    @property
    def word(self) -> str:
        """The name of its problem, for an application's own wording; empty without a name."""
        return next((word for begin, word in _WORDS.items() if self.problem.startswith(begin)), "")

    @property
    def chosen(self) -> Sequence[str]:
        """The chosen values, as JSON texts."""
        return self.text.split("\n") if self.text else []

    @property
    def mark(self) -> str:
        """The form's name of the mark that the text of `any` is JSON."""
        return f"j{self.name[1:]}"

    @property
    def key(self) -> str:
        """The last part of its place."""
        return _unescaped(self.name.rpartition("/")[2])


@dataclass(slots=True)
class Fields:
    """The fields of one value."""

    root: Field

    def __iter__(self) -> Iterator[Field]:
        """All fields, each group before its own fields."""
        todo = [self.root]
        while todo:
            one = todo.pop()
            yield one
            todo += reversed(one.inner)

    @property
    def layout(self) -> str:
        """A digest of which fields there are: a form that was drawn with others would be misread."""
        found = [(one.name, one.kind, one.required, one.nullable) for one in self]
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16]

    @classmethod
    def of_questions(cls, schema: Any, needed: Collection[str]) -> "Fields":
        """The fields of the answers to questions, with buttons for a few choices; `needed` names the required ones."""
        found = cls.of(schema, label="Answers")
        for one in found.root.inner:
            one.needed = one.key in needed
            one.buttons = one.kind is FieldKind.CHOICE and len(one.choices) <= FEW
        return found

    @property
    def is_empty(self) -> bool:
        """Whether the value is a text, and empty."""
        return self.root.kind in (FieldKind.TEXT, FieldKind.LINES, FieldKind.ANY) and self.root.text == ""

    @classmethod
    def of_user(cls, schema: Any, *, label: str) -> "Fields":
        """The fields of an answer on an application's page: few choices are all visible, needed texts are not left empty."""
        return cls.of({"type": "string"} if schema in (None, True, {}) else schema, label=label, user=True)

    @classmethod
    def of(cls, schema: Any, value: Any = ABSENT, *, label: str = "Answer", user: bool = False) -> "Fields":
        """The fields of a schema, filled with a value."""
        if value is ABSENT and schema in (None, True, {}):
            return cls(Field("v", label, FieldKind.ANY, required=True))
        drawn = _Drawn(schema, defaults=value is ABSENT, user=user)
        found = drawn.field(schema, value, "v", label, required=True, depth=0)
        if drawn.count > MOST_FIELDS:
            found = Field("v", label, FieldKind.JSON, required=True, was=value)
            found.text = "" if value is ABSENT else as_json(value)
        return cls(found)

    def filled(self, form: Form) -> "Fields":
        """These fields, filled from a form."""
        for one in self:
            one.drawn = one.text.replace("\r\n", "\n").replace("\r", "\n"), one.json
            if one.kind is FieldKind.CHOICES:
                one.text = "\n".join(form.all(one.name))  # a form omits unchosen values
            elif one.name in form:
                one.text, one.json = form.get(one.name), one.mark in form
        return self

    def blamed(self, key: str, problem: str) -> bool:
        """Set a problem on this property's field; False if there is none."""
        found = next((one for one in self.root.inner if one.key == key), None)
        if found is not None:
            found.problem = visible(problem)
        return found is not None

    def value(self) -> Any:
        """The value of the fields; `ABSENT` if any has a problem, which is then set on it."""
        found = _value(self.root)
        return ABSENT if any(one.problem for one in self) else found


class _Drawn:
    """The fields of one schema, counted."""

    def __init__(self, schema: Any, *, defaults: bool, user: bool) -> None:
        self._whole = schema
        self._user = user
        self._defaults = defaults  # in an existing value, missing parts stay missing
        self.count = 0

    def field(self, schema: Any, value: Any, name: str, label: str, *, required: bool, depth: int) -> Field:
        self.count += 1
        plain, nullable = self._plain(schema)
        hint = " ".join(str(plain.get("description", "")).split())[:300]
        label = str(plain.get("title") or label)[:LONGEST_LABEL] if name != "v" else label
        found = Field(name, visible(label), FieldKind.JSON, required, nullable, visible(hint), was=value, number=self.count)
        found.edited = not self._defaults
        if value is ABSENT and self._defaults and "default" in plain:
            value = plain["default"]
        if value is None and nullable:
            value = ABSENT
        found.kind = kind = _kind_of(plain, value, depth)
        if kind is FieldKind.GROUP:
            found.inner = self._inner(plain, value, name, depth)
        elif kind in (FieldKind.CHOICE, FieldKind.CHOICES):
            among = _choices(plain) if kind is FieldKind.CHOICE else plain["items"]["enum"]
            chosen = () if value is ABSENT else (value,) if kind is FieldKind.CHOICE else value
            found.choices = [(_key(one), shown(one)) for one in among]
            found.text = "\n".join(map(_key, chosen))
        elif kind is FieldKind.ANY and found.was is not ABSENT:
            found.json = not isinstance(found.was, str)
            found.text = as_json(found.was) if found.json else found.was
        else:
            found.text = _text_of(kind, value)
            found.choices = _FLAGS if kind is FieldKind.FLAG else ()
        if self._user:
            _for_user(found, plain)
        return found

    def _inner(self, plain: Mapping[str, Any], value: Any, name: str, depth: int) -> list[Field]:
        given = value if isinstance(value, dict) else {}
        properties, needed = plain["properties"], plain.get("required", ())
        needed = needed if isinstance(needed, list) else ()
        fields = []
        for key in [*properties, *(key for key in given if key not in properties)]:
            if self.count > MOST_FIELDS:
                break
            of_key = properties.get(key, True)
            place = f"{name}/{key.replace('~', '~0').replace('/', '~1')}"
            fields.append(
                self.field(of_key, given.get(key, ABSENT), place, key, required=key in needed or key in given, depth=depth + 1)
            )
        return fields

    def _plain(self, schema: Any) -> tuple[Mapping[str, Any], bool]:
        """A schema with its reference followed and without the alternative null; and whether null was one."""
        nullable = False
        for _ in range(8):
            if not isinstance(schema, dict):
                return {}, nullable
            if isinstance(schema.get("$ref"), str):
                beside = {key: schema[key] for key in ("title", "description", "default") if key in schema}
                target = self._at(schema["$ref"])
                schema = target | beside if isinstance(target, dict) else target
                continue
            if isinstance(kinds := schema.get("type"), list) and "null" in kinds:
                rest = [kind for kind in kinds if kind != "null"]
                schema, nullable = schema | {"type": rest[0] if len(rest) == 1 else rest}, True
                continue
            options = schema.get("anyOf", schema.get("oneOf"))
            if not isinstance(options, list):
                return schema, nullable
            others = [one for one in options if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(others) != 1 or len(others) == len(options) or not isinstance(others[0], dict):
                return {key: schema[key] for key in ("title", "description", "default") if key in schema}, nullable
            schema = {key: schema[key] for key in schema if key not in ("anyOf", "oneOf")} | others[0]
            nullable = True
        return {}, nullable

    def _at(self, reference: str) -> Any:
        found = self._whole
        if not reference.startswith("#"):
            return {}
        for part in reference[1:].split("/")[1:]:
            found = found.get(_unescaped(part)) if isinstance(found, dict) else None
        return found


def _for_user(one: Field, plain: Mapping[str, Any]) -> None:
    """Draw a field for a person who answers on an application's page, not in the inbox."""
    one.buttons = one.kind is FieldKind.FLAG or (one.kind is FieldKind.CHOICE and len(one.choices) <= FEW)
    one.filled = one.required and not one.nullable and plain.get("minLength") != 0
    most = plain.get("maxLength")
    one.most = most if isinstance(most, int) and most >= 0 else None
    if one.name == "v" and one.kind is FieldKind.TEXT and (one.most is None or one.most > SHORT):
        one.kind = FieldKind.LINES
    one.input = _INPUTS.get(str(plain.get("format")), "text")
    if one.kind in (FieldKind.NUMBER, FieldKind.INTEGER):
        bounds = [f"{sign} {plain[name]}" for name, sign in _BOUNDS.items() if isinstance(plain.get(name), int | float)]
        one.hint = " ".join(filter(None, (", ".join(bounds), one.hint)))


def _key(value: Any) -> str:
    """The text that stands for a value in a form."""
    return json.dumps(value, ensure_ascii=False)


def _kind_of(plain: Mapping[str, Any], value: Any, depth: int) -> FieldKind:
    """The kind of field for a schema; a value that the field could not show gets the box for JSON."""
    kind = FieldKind.JSON
    if not plain.keys() - {"title", "description", "default"} and isinstance(value, str | bool | int | float):
        plain = {"type": _TYPES[type(value)]}  # no schema: keep the value's type
    match plain:
        case {"const": _} | {"enum": list()} if 0 < len(_choices(plain)) <= MOST_CHOICES:
            known = value is ABSENT or any(type(one) is type(value) and one == value for one in _choices(plain))
            kind = FieldKind.CHOICE if known else kind
        case _ if isinstance(value, str) and visible(value) != value.replace("\r\n", "\n"):
            pass  # as JSON, every character is visible
        case {"type": list() as kinds} if "string" in kinds:
            kind = FieldKind.ANY
        case {"type": "string"} if value is ABSENT or isinstance(value, str):
            long = value is not ABSENT and (len(value) > LONG or "\n" in value)
            wide = isinstance(most := plain.get("maxLength"), int) and most > 4 * LONG
            kind = FieldKind.LINES if long or wide else FieldKind.TEXT
        case {"type": "boolean"} if value is ABSENT or isinstance(value, bool):
            kind = FieldKind.FLAG
        case {"type": "integer"} if value is ABSENT or (isinstance(value, int) and not isinstance(value, bool)):
            kind = FieldKind.INTEGER
        case {"type": "number"} if value is ABSENT or (isinstance(value, int | float) and not isinstance(value, bool)):
            kind = FieldKind.NUMBER
        case {"type": "array", "items": {"type": "string", "enum": list() as among}} if _are_among(value, among):
            kind = FieldKind.CHOICES
        case {"type": "array", "items": {"type": "string", **rest}} if "enum" not in rest and (
            value is ABSENT or (isinstance(value, list) and all(map(_is_item, value)))
        ):
            kind = FieldKind.ITEMS
        case {"properties": dict()} if depth < DEEPEST and (value is ABSENT or isinstance(value, dict)):
            kind = FieldKind.GROUP
        case _:
            pass
    return kind


def _are_among(value: Any, choices: Sequence[Any]) -> bool:
    """Whether checkboxes can express a value: distinct texts from a list."""
    if not 0 < len(choices) <= MOST_CHOICES or not all(isinstance(one, str) for one in choices):
        return False
    if value is ABSENT:
        return True
    return isinstance(value, list) and all(one in choices for one in value) and len(set(value)) == len(value)


def _choices(plain: Mapping[str, Any]) -> list[Any]:
    found = [plain["const"]] if "const" in plain else plain["enum"]
    return [one for one in found if isinstance(one, str | int | float | bool) or one is None]


def _is_item(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\n" not in value and visible(value) == value


def _text_of(kind: FieldKind, value: Any) -> str:
    if value is ABSENT or (value is None and kind is not FieldKind.JSON):
        return ""
    if kind in (FieldKind.TEXT, FieldKind.LINES):
        return str(value)
    if kind is FieldKind.ITEMS:
        return "\n".join(value)
    return as_json(value)


def _value(one: Field) -> Any:
    """The value of a field; `ABSENT` if its content is no value of its kind, and the problem is set on it."""
    if one.kind is FieldKind.GROUP:
        if _is_blank(one) and (one.was is None or (one.was is ABSENT and (one.edited or not one.required))):
            return one.was
        return {inner.key: value for inner in one.inner if (value := _value(inner)) is not ABSENT}
    if (one.was is not ABSENT or one.edited) and (one.text, one.json) == one.drawn:
        return one.was  # untouched: if something is missing there, the schema reports it
    try:
        return _said(one)
    except ValueError as error:
        one.problem = visible(str(error))
        return ABSENT


def _is_blank(one: Field) -> bool:
    return all(_is_blank(inner) for inner in one.inner) if one.kind is FieldKind.GROUP else one.text == ""


def _said(one: Field) -> Any:
    """The value of a field; `ValueError` if its content is no value of its kind."""
    text, nullable = one.text, one.nullable and (one.required or one.was is not ABSENT)
    match one.kind:
        case FieldKind.CHOICES if text == "" and one.required:
            return []
        case FieldKind.TEXT | FieldKind.LINES:
            if text == "" and one.filled:
                raise ValueError("this is needed")
            if text == "" and nullable:
                return None
            return ABSENT if text == "" and not one.required and one.was is ABSENT else text
        case FieldKind.ITEMS:
            items = [line for line in text.split("\n") if line]
            return ABSENT if not items and not one.required and one.was is ABSENT else items
        case FieldKind.ANY if not one.json:
            return text
        case _ if text == "" and one.kind is not FieldKind.ANY:
            if one.required and not nullable:
                raise ValueError("this is needed")
            return None if nullable else ABSENT
        case FieldKind.INTEGER:
            return _number(text, whole=True)
        case FieldKind.NUMBER:
            return _number(text, whole=False)
        case FieldKind.CHOICE | FieldKind.FLAG if text in [value for value, _ in one.choices]:
            return json.loads(text)
        case FieldKind.CHOICES if set(one.chosen) <= {value for value, _ in one.choices}:
            return [json.loads(value) for value in one.chosen]
        case FieldKind.JSON | FieldKind.ANY:
            return _strict(text)
        case _:
            raise ValueError("choose one of the values")


def _number(text: str, *, whole: bool) -> int | float:
    if len(text) <= LONGEST_NUMBER and _WHOLE.fullmatch(text.strip()):
        return int(text)
    found = float(text) if not whole and _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(found):
        raise ValueError("this is no whole number" if whole else "this is no number")
    return found


def _strict(text: str) -> Any:
    try:
        return jsontext.loads(text)
    except jsontext.NotJson as error:
        raise ValueError(f"this is no JSON: {error}") from None


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
