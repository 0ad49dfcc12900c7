"""Whether a pattern covers a call: beyond doubt, as what allows must, or perhaps, as is enough for what denies or asks."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from holdfast.conversation import jsontext
from holdfast.conversation.folding import folded

from .patterns import Condition, Pattern
from .readings import Readings, text_of

MOST_VALUES = 1024
"""How many values an argument may have, lists and what lies in them together, for a pattern to allow it."""
_KEPT = 8192
"""How long a text may be, in characters, whose readings are kept for a while."""


class Inspected:
    """A call as patterns look at it; what several of them ask is found out once.

    Args:
        tool: The tool's name.
        arguments: The call's arguments: an object, or the text of one as the model wrote it.
        primary: The name of the tool's primary argument; None if it has none.
        defaults: The values of arguments that are left out.

    Attributes:
        opaque: Whether the arguments cannot be inspected: they are no JSON object, too many, or nested too deep.
    """

    def __init__(
        self, tool: str, arguments: object, primary: str | None = None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.tool = tool
        self._primary = primary
        found = _object(arguments)
        self.opaque = found is None
        self._arguments = {**(defaults or {}), **(found or {})}
        self._readings: dict[str, Readings | None] = {}

    def is_covered(self, pattern: Pattern) -> bool:
        """Whether the pattern covers the call beyond doubt."""
        if not pattern.names(self.tool):
            return False
        return not pattern.conditions or (not self.opaque and all(map(self._holds, pattern.conditions)))

    def may_be_covered(self, pattern: Pattern) -> bool:
        """Whether the pattern covers the call in any way in which it may be read."""
        return pattern.may_name(self.tool) and (self.opaque or all(map(self._may_hold, pattern.conditions)))

    def _holds(self, condition: Condition) -> bool:
        name = self._primary if condition.argument is None else condition.argument
        values = None if name is None else _certain(self._arguments, name)
        return bool(values) and all(condition.strict.covers(text_of(value)) for value in values or ())

    def _may_hold(self, condition: Condition) -> bool:
        name = self._primary if condition.argument is None else condition.argument
        if name is None:
            return True  # nobody said which argument is meant
        if name not in self._readings:
            values = list(_possible(self._arguments, name))
            self._readings[name] = _readings(values) if values else None
        readings = self._readings[name]
        if readings is None:
            return condition.argument is None  # what is left out is not there, but for what the tool is about
        return condition.loose.may_cover(readings)


def covers(pattern: Pattern, tool: str, arguments: object, primary: str | None = None) -> bool:
    """Whether a pattern covers a call beyond doubt; the arguments are those of `Inspected`."""
    return Inspected(tool, arguments, primary).is_covered(pattern)


def may_cover(pattern: Pattern, tool: str, arguments: object, primary: str | None = None) -> bool:
    """Whether a pattern covers a call in any way in which it may be read; the arguments are those of `Inspected`."""
    return Inspected(tool, arguments, primary).may_be_covered(pattern)


def _readings(values: list[Any]) -> Readings:
    alone = values[0] if len(values) == 1 else values
    return readings_of(alone) if isinstance(alone, str) and len(alone) <= _KEPT else Readings(alone)


@lru_cache(maxsize=16)
def readings_of(text: str) -> Readings:
    """What a text may mean. A call is judged when it is proposed and again before it runs: for the latter it is still known."""
    return Readings(text)


def _object(arguments: object) -> Mapping[str, Any] | None:
    try:
        if isinstance(arguments, str):
            found = jsontext.loads(arguments) if arguments.strip() else {}
        else:
            found = jsontext.loads(jsontext.dumps(arguments))  # bounds, too
    except jsontext.NotJson:
        return None
    return found if isinstance(found, dict) else None


def _certain(arguments: Mapping[str, Any], name: str) -> list[Any] | None:
    """The scalars that an argument has; None where its name could also mean another one, or one of them is left out."""
    if "." in name and name in arguments:
        return None  # either this one, or the one in an object
    here: list[Any] = [arguments]
    for part in name.split("."):
        after: list[Any] = []
        for one in here:
            if not isinstance(one, Mapping) or part not in one or any(map(_like(part), one)):
                return None
            after += one[part] if isinstance(one[part], list) else [one[part]]
            if len(after) > MOST_VALUES:
                return None
        here = after
    return here if all(isinstance(one, str | int | float) for one in here) else None


def _like(name: str) -> Any:
    said = folded(name)
    return lambda other: other != name and folded(other) == said


def _possible(arguments: Mapping[str, Any], name: str) -> list[Any]:
    """Every value that an argument may have, also under names that look like its own."""
    found = [value for key, value in arguments.items() if folded(key) == folded(name)]
    if "." in name:
        here: list[Any] = [arguments]
        for part in map(folded, name.split(".")):
            after: list[Any] = []
            while here:
                one = here.pop()
                if isinstance(one, list):
                    here += one
                elif isinstance(one, Mapping):
                    after += [value for key, value in one.items() if folded(key) == part]
            here = after
        found += here
    return found


def defaults_of(parameters: str) -> dict[str, Any]:
    """The defaults that the JSON Schema of a tool's parameters names; what cannot be read has none."""
    try:
        schema = jsontext.loads(parameters)
    except jsontext.NotJson:
        return {}
    known = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(known, dict):
        return {}
    return {name: one["default"] for name, one in known.items() if isinstance(one, dict) and "default" in one}
