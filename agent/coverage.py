"""Whether a pattern covers a call: certainly (for rules that allow) or possibly (for rules that deny or ask)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

from holdfast.conversation.text import jsontext
from holdfast.conversation.text.confusables import skeleton
from holdfast.conversation.text.matching import is_plain_script

from .patterns import Condition, Pattern
from .readings import Readings, text_of

MOST_VALUES = 1024
"""How many values an argument may have, including lists and their contents, for a pattern to allow it."""
_KEPT = 8192
"""The most characters of a text whose readings are cached."""
_COMMANDS = frozenset({"command", "cmd"})
"""Names of arguments that always hold commands."""


class Covered(IntEnum):
    """Whether a pattern covers a call, for rules that deny or ask."""

    NO = 0
    PERHAPS = 1  # it is unknown what the command runs, and it may match
    YES = 2  # it matches in some reading


@dataclass(frozen=True, slots=True)
class Shells:
    """What the rules about a tool say about commands.

    Attributes:
        arguments: The arguments that hold commands; None stands for the primary one.
        programs: The programs that rules name: the first word after one of them, options aside, is not a program.
    """

    arguments: frozenset[str | None]
    programs: frozenset[str]

    @classmethod
    def of(cls, patterns: Iterable[Pattern]) -> "Shells":
        """Collect them from these patterns."""
        globs = [(one.argument, one.command) for pattern in patterns for one in pattern.conditions if one.command is not None]
        arguments = frozenset(argument for argument, command in globs if command.is_command)
        held = arguments | _COMMANDS | {None}
        return cls(arguments, frozenset(one.name for argument, one in globs if argument in held and one.name is not None))


class Inspected:
    """A call as patterns inspect it; shared results are computed once.

    Args:
        tool: The tool's name.
        arguments: The call's arguments: an object, or the text of one as the model wrote it.
        primary: The name of the tool's primary argument; None if it has none.
        defaults: The values of arguments that are left out.
        shells: What the tool's rules say about commands.

    Attributes:
        opaque: Whether the arguments cannot be inspected: they are no JSON object, too many, or nested too deep.
    """

    def __init__(
        self,
        tool: str,
        arguments: object,
        primary: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        *,
        shells: Shells,
    ) -> None:
        self.tool = tool
        self._primary = primary
        self._programs = shells.programs
        self._commands = _COMMANDS | {primary if one is None else one for one in shells.arguments}
        found = _object(arguments)
        self.opaque = found is None
        self._arguments = {**(defaults or {}), **(found or {})}
        self._readings: dict[str, Readings | None] = {}

    def is_covered(self, pattern: Pattern) -> bool:
        """Whether the pattern certainly covers the call."""
        if not pattern.names(self.tool):
            return False
        return not pattern.conditions or (not self.opaque and all(map(self._holds, pattern.conditions)))

    def may_be_covered(self, pattern: Pattern) -> Covered:
        """Whether the pattern covers the call in any of its readings."""
        if not pattern.may_name(self.tool):
            return Covered.NO
        found = Covered.YES
        for condition in () if self.opaque else pattern.conditions:
            found = min(found, self._may_hold(condition))
            if found is Covered.NO:
                break
        return found

    def _holds(self, condition: Condition) -> bool:
        name = self._primary if condition.argument is None else condition.argument
        values = None if name is None else _certain(self._arguments, name)
        texts = [text_of(value) for value in values or ()]
        if name in self._commands and not all(is_plain_script(text) or condition.is_exactly(text) for text in texts):
            return False
        return bool(texts) and all(map(condition.strict.covers, texts))

    def _may_hold(self, condition: Condition) -> Covered:
        name = self._primary if condition.argument is None else condition.argument
        if name is None:
            return Covered.YES  # the meant argument is unknown
        if name not in self._readings:
            values = list(_possible(self._arguments, name))
            self._readings[name] = _readings(values) if values else None
        readings = self._readings[name]
        if readings is None:  # a missing argument does not match, unless it is the primary one
            return Covered.YES if condition.argument is None else Covered.NO
        if condition.loose.may_cover(readings):
            return Covered.YES
        if name not in self._commands:
            return Covered.NO
        commands, glob = readings.commands, condition.command
        if glob is not None and glob.is_among(commands.certain):
            return Covered.YES
        possible = commands.possible(self._programs)
        return Covered.PERHAPS if possible is None or (glob is not None and glob.may_be_among(possible)) else Covered.NO


def _readings(values: list[Any]) -> Readings:
    alone = values[0] if len(values) == 1 else values
    return readings_of(alone) if isinstance(alone, str) and len(alone) <= _KEPT else Readings(alone)


@lru_cache(maxsize=16)
def readings_of(text: str) -> Readings:
    """The readings of a text, cached because a call is judged when it is proposed and again before it runs."""
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
    """The scalars that an argument certainly has; None if one is missing, or its name may also mean another argument."""
    if "." in name and name in arguments:
        return None  # either this argument, or one inside an object
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
    said = skeleton(name)
    return lambda other: other != name and skeleton(other) == said


def _possible(arguments: Mapping[str, Any], name: str) -> list[Any]:
    """Every value that an argument may have, including those under look-alike names."""
    found = [value for key, value in arguments.items() if skeleton(key) == skeleton(name)]
    if "." in name:
        here: list[Any] = [arguments]
        for part in map(skeleton, name.split(".")):
            after: list[Any] = []
            while here:
                one = here.pop()
                if isinstance(one, list):
                    here += one
                elif isinstance(one, Mapping):
                    after += [value for key, value in one.items() if skeleton(key) == part]
            here = after
        found += here
    return found


def defaults_of(parameters: str) -> dict[str, Any]:
    """The defaults in the JSON Schema of a tool's parameters; none if it is unreadable."""
    try:
        schema = jsontext.loads(parameters)
    except jsontext.NotJson:
        return {}
    known = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(known, dict):
        return {}
    return {name: one["default"] for name, one in known.items() if isinstance(one, dict) and "default" in one}
