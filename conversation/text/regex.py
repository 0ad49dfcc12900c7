"""Users' regular expressions, matched in time linear to the text: without lookaround and backreferences."""

from typing import TYPE_CHECKING

from .pattern_size import pattern_size

if TYPE_CHECKING:
    import jsonschema_rs

MAX_STATES = 2048
"""The largest automaton of an expression, in states; matching takes this times the length of the text."""
_COMPILED_BYTES = 10 << 20


class BadRegex(ValueError):
    """The text is not a regular expression, or cannot be matched in linear time; the message says why."""


class Regex:
    """A regular expression, compiled once; `BadRegex` if the pattern is invalid, or its automaton would be too large.

    The syntax is ECMA-262 without lookaround and references; flags stand in the pattern (`(?i)`).
    """

    __slots__ = ("_found", "_whole", "pattern")

    def __init__(self, pattern: str) -> None:
        if pattern_size(pattern) > MAX_STATES:
            problem = f"it is too large: a part counts as often as it may be repeated, and {MAX_STATES} states are allowed"
            raise BadRegex(problem)
        self.pattern = pattern
        self._found = _compiled(pattern)  # before it is put into brackets, which could balance its own
        self._whole = _compiled(f"^(?:{pattern})$")

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"

    def found(self, text: str) -> bool:
        """Whether the expression matches some part of a text."""
        return self._found.is_valid(text)

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole of a text."""
        return self._whole.is_valid(text)


def literal(text: str) -> str:
    """The expression that matches exactly this text."""
    return "".join(char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}" for char in text)


def _compiled(pattern: str) -> "jsonschema_rs.Validator":
    import jsonschema_rs  # noqa: PLC0415 - only who has such an expression pays for it

    options = jsonschema_rs.RegexOptions(size_limit=_COMPILED_BYTES, dfa_size_limit=_COMPILED_BYTES)
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, validate_formats=False, offline=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a compiler in Rust may also panic, which is no Exception
        raise BadRegex("it is no regular expression that can be matched in linear time") from error
