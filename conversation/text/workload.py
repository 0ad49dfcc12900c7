"""The work of validating a value by a JSON Schema, computed before the validation begins.

A running validation cannot be stopped, and twenty lines of schema can make it apply one subschema 2^20 times to one value. The
schema is therefore read as a graph: each subschema leads to those for the same value (`$ref`, `anyOf`, ...) and to those for
the values inside it (`items`, `properties`, ...). From this follows, depth by depth, how often each one is applied at most.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .jsontext import MAX_DEPTH
from .regex import pattern_size

MAX_SUBSCHEMAS = 2_000
"""How many subschemas one schema may have. The schemas of the largest tools have some hundred."""
MAX_REFERENCES = 500
"""How many references one schema may have."""
MAX_PATTERNS = 50_000
"""How many states the automata of one schema's patterns may have together: about a tenth of a second to build them."""
MAX_STEPS = 20_000_000
"""How many steps one validation may take, at about ten nanoseconds each: it blocks an actor's loop for under a second."""
MAX_LOCATED = 1_000, 5_000_000
"""The bounds for asking the validator where a value does not fit, since it copies the value at each branch that it has tried:
how often a single value may be judged, and that number times the size of the whole value."""

_ESCAPED = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_SAME_ONE = ("not", "if", "then", "else")
_SAME_MANY = ("allOf", "anyOf", "oneOf")
_SAME_NAMED = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_PART_ONE = (
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
)
_PART_MANY = ("prefixItems", "items")
_PART_NAMED = ("properties", "patternProperties")
_TWICE = ("unevaluatedItems", "unevaluatedProperties")
_HELD = ("$defs", "definitions")


class Unusable(ValueError):
    """The schema exceeds the bounds, or has a reference that leads nowhere or in a circle; the message says what to do."""


@dataclass(slots=True)
class _Node:
    """One subschema: its own cost (`steps` per value, `states` per character), and the subschemas that it leads to.

    `same` are those for the same value, with the number of their applications; `parts` are those for the values inside it.
    """

    steps: int = 1
    states: int = 0
    same: list[tuple[int, int]] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a value: the number of its values, and of the characters of its texts and keys, at each depth."""

    values: tuple[int, ...]
    characters: tuple[int, ...]

    @classmethod
    def of(cls, value: Any) -> "Size | None":
        """The size of a value; None if the value is nested deeper than `jsontext.MAX_DEPTH`."""
        values, characters, level, keys = list[int](), list[int](), [value], 0
        while level:
            if len(values) > MAX_DEPTH:
                return None
            below: list[Any] = []
            here = named = 0
            for item in level:
                if isinstance(item, str):
                    here += len(item)
                elif isinstance(item, dict):
                    named += sum(map(len, item))
                    below += item.values()
                elif isinstance(item, list | tuple):
                    below += item
            values.append(len(level))
            characters.append(here + named + keys)  # keys are judged where they stand, and by propertyNames
            level, keys = below, named
        return cls(tuple(values), tuple(characters))


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of one validation: all its `steps`, and how often a single value is judged at most (`spread`)."""

    steps: int
    spread: int

    @property
    def too_much(self) -> bool:
        """Whether the validation is too much work to begin."""
        return self.steps > MAX_STEPS

    def located(self, size: Size) -> bool:
        """Whether the validator may be asked where the value does not fit."""
        spread, whole = MAX_LOCATED
        return self.spread <= spread and self.spread * (sum(size.values) + sum(size.characters)) <= whole


class SchemaGraph:
    """The graph of a schema's subschemas, from which a validation's work is computed; `Unusable` if it exceeds the bounds."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._nodes: list[_Node] = []
        self._numbers: dict[int, int] = {}
        self._found: list[Any] = []
        self._anchors: dict[str, list[Any]] = {}
        self._references = 0
        self._number(schema)
        for one in _within(schema):
            self._note_anchors(one)
            self._number(one)
        done = 0
        while done < len(self._found):  # references may lead to subschemas under any keyword
            self._read(done)
            done += 1
        if sum(node.states for node in self._nodes) > MAX_PATTERNS:
            raise Unusable(f"its patterns are too large together: at most {MAX_PATTERNS} states; repeat less in them")
        self._order = self._ordered()

    def workload(self, size: Size) -> Workload:
        """The most work that validating a value of that size takes."""
        steps = spread = 0
        applied = {0: 1}
        for values, characters in zip(size.values, size.characters, strict=True):
            applied = self._spread(applied)
            spread = max(spread, sum(applied.values()))
            for number, times in applied.items():
                node = self._nodes[number]
                steps += times * (values * node.steps + characters * node.states)
            if steps > MAX_STEPS:
                break
            below: dict[int, int] = {}
            for number, times in applied.items():
                for part in self._nodes[number].parts:
                    below[part] = below.get(part, 0) + times
            applied = below
        return Workload(steps, spread)

    def _spread(self, applied: dict[int, int]) -> dict[int, int]:
        """How often each subschema is applied to the values of one depth, by its number."""
        found = dict(applied)
        for number in self._order:
            times = found.get(number, 0)
            if times:
                for other, factor in self._nodes[number].same:
                    found[other] = min(found.get(other, 0) + times * factor, MAX_STEPS)
        return found

    def _number(self, schema: Any) -> int:
        number = self._numbers.get(id(schema)) if isinstance(schema, dict) else None
        if number is None:
            number = len(self._found)
            if number >= MAX_SUBSCHEMAS:
                raise Unusable(f"it has more than {MAX_SUBSCHEMAS} subschemas; split it, or describe less")
            self._found.append(schema)  # the list also keeps the schema alive, and so its `id` unique
            self._nodes.append(_Node())
            if isinstance(schema, dict):
                self._numbers[id(schema)] = number
        return number

    def _note_anchors(self, schema: dict[str, Any]) -> None:
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                self._anchors.setdefault(schema[keyword], []).append(schema)
        own = schema.get("$id", schema.get("id"))
        if isinstance(own, str) and schema is not self._root:
            if not own.startswith("#"):
                raise Unusable(f"a subschema has the $id {own!r:.80}: leave it out, and refer to it by '#/$defs/NAME'")
            self._anchors.setdefault(own[1:], []).append(schema)

    def _read(self, number: int) -> None:
        schema, node = self._found[number], self._nodes[number]
        if not isinstance(schema, dict):
            return
        factor = 3 if any(keyword in schema for keyword in _TWICE) else 1  # these keywords evaluate the others again
        for keyword, value in schema.items():
            node.steps += 1 if _leads(keyword) else _weight(value)
        for keyword in _REFERENCES:
            if isinstance(schema.get(keyword), str):
                node.same += [(self._number(target), factor) for target in self._targets(keyword, schema[keyword])]
        node.same += [(self._number(child), factor) for child in _same(schema)]
        node.parts = [self._number(child) for child in _parts(schema)]
        node.states = sum(pattern_size(pattern) for pattern in _patterns(schema))

    def _targets(self, keyword: str, reference: str) -> list[Any]:
        self._references += 1
        if self._references > MAX_REFERENCES:
            raise Unusable(f"it has more than {MAX_REFERENCES} references; put some schemas where they are referred to")
        base = self._root.get("$id") if isinstance(self._root, dict) else None
        if isinstance(base, str) and base and reference.startswith(f"{base.rstrip('#')}#"):
            reference = reference[len(base.rstrip("#")) :]
        if reference in ("#", "") or keyword == "$recursiveRef":
            return [self._root]
        if not reference.startswith("#"):
            raise Unusable(f"it refers to {reference!r:.80}, which is never fetched: put that into $defs, as '#/$defs/NAME'")
        name = _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), reference[1:])
        found = [_at(self._root, name)] if name.startswith("/") else self._anchors.get(name, [])
        if not found or not all(isinstance(one, dict | bool) for one in found):
            raise Unusable(f"it refers to {reference!r:.80}, which it does not hold: correct the reference")
        return found

    def _ordered(self) -> list[int]:
        """The numbers of the subschemas, each before the subschemas that it applies to the same value."""
        left = [0] * len(self._nodes)
        for node in self._nodes:
            for other, _ in node.same:
                left[other] += 1
        order = [number for number, count in enumerate(left) if not count]
        for number in order:  # the list grows meanwhile
            for other, _ in self._nodes[number].same:
                left[other] -= 1
                if not left[other]:
                    order.append(other)
        if len(order) < len(self._nodes):
            raise Unusable("it refers to itself for the same value, so no judgement would end: correct the reference")
        return order


def _leads(keyword: str) -> bool:
    return keyword in _SAME_ONE + _SAME_MANY + _SAME_NAMED + _PART_ONE + _PART_MANY + _PART_NAMED + _HELD + _REFERENCES


def _schemas(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | bool):
        yield value


def _same(schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in _SAME_ONE:
        yield from _schemas(schema.get(keyword))
    for keyword in _SAME_MANY:
        yield from _listed(schema.get(keyword))
    for keyword in _SAME_NAMED:
        yield from _named(schema.get(keyword))


def _parts(schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in _PART_ONE:
        yield from _schemas(schema.get(keyword))
    for keyword in _PART_MANY:
        yield from _listed(schema.get(keyword))
    for keyword in _PART_NAMED:
        yield from _named(schema.get(keyword))


def _listed(value: Any) -> Iterator[Any]:
    for child in value if isinstance(value, list) else ():
        yield from _schemas(child)


def _named(value: Any) -> Iterator[Any]:
    for child in value.values() if isinstance(value, dict) else ():
        yield from _schemas(child)


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    named = schema.get("patternProperties")
    yield from named if isinstance(named, dict) else ()


def _within(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema itself, and every subschema under a keyword that takes subschemas."""
    stack = [schema]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield one
            stack.extend(_same(one))
            stack.extend(_parts(one))
            for keyword in _HELD:
                stack.extend(_named(one.get(keyword)))


def _weight(value: Any) -> int:
    """The number of values under a keyword that takes no schema (`enum`, ...): each may be compared with the judged value."""
    weight, stack = 0, [value]
    while stack:
        one = stack.pop()
        weight += 1
        if isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
    return weight


def _at(schema: Any, pointer: str) -> Any:
    """The value that a JSON pointer leads to; None if it leads nowhere."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict) and name in schema:
            schema = schema[name]
        elif isinstance(schema, list) and name.isascii() and name.isdigit() and len(name) < 6 and int(name) < len(schema):  # noqa: PLR2004 - more than any list here has
            schema = schema[int(name)]
        else:
            return None
    return schema
