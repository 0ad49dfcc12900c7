"""Users' regular expressions, matched in time linear to the text: without lookaround and backreferences."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jsonschema_rs

MAX_STATES = 2048
"""The largest automaton of an expression, in states; matching takes this times the length of the text."""
_COMPILED_BYTES = 10 << 20
_WIDE, _CLASS = 4, 8
"""How many states an atom takes for most of Unicode (`.`), and for a class of it (`\\p{L}`): both are matched byte by byte."""
_TOKEN = re.compile(
    r"(?P<escape>\\(?:[pP]\{[^}]*\}|.))"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<[^>]*>|[a-zA-Z-]*:?))?)"
    r"|(?P<close>\))"
    r"|\{(?P<low>[0-9]{1,9})(?P<comma>,)?(?P<high>[0-9]{1,9})?\}"
    r"|(?P<any>\.)"
    r"|(?P<free>[*+?|^$])"
    r"|(?P<letter>.)",
    re.DOTALL,
)


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
        self._found = _compiled(pattern)  # by itself first: the brackets below could balance brackets of its own
        self._whole = _compiled(f"^(?:{pattern})$")

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"

    def found(self, text: str) -> bool:
        """Whether the expression matches some part of a text."""
        return self._found.is_valid(text)

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole of a text."""
        return self._whole.is_valid(text)


def pattern_size(pattern: str) -> int:
    """The approximate upper bound of states in a pattern's automaton: a part that is repeated n times counts n times.

    For a pattern that the engine refuses, the number means nothing.
    """
    stack: list[list[int]] = [[0, 0]]  # for each open group: the states before its last atom, and the states of that atom
    for token in _TOKEN.finditer(pattern):
        here = stack[-1]
        match token.lastgroup:
            case "open":
                stack.append([0, 0])
            case "close" if len(stack) > 1:
                before, last = stack.pop()
                stack[-1] = [sum(stack[-1]), before + last + 1]
            case "low" | "comma" | "high":
                here[1] *= max(int(token["low"]), int(token["high"] or 0), 1)
            case "free":
                here[:] = [here[0], here[1]] if token[0] in "*+?" else [sum(here) + 1, 0]
            case _:
                here[:] = [sum(here), _states(token[0])]
    return 1 + sum(sum(group) for group in stack)


def _states(atom: str) -> int:
    if "\\p" in atom.lower():
        return _CLASS
    return _WIDE if atom == "." or atom.startswith(("[^", "\\S", "\\W", "\\D")) else 1


def literal(text: str) -> str:
    """The expression that matches exactly this text."""
    return "".join(char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}" for char in text)


def _compiled(pattern: str) -> "jsonschema_rs.Validator":
    import jsonschema_rs  # noqa: PLC0415 - imported only if there is an expression

    options = jsonschema_rs.RegexOptions(size_limit=_COMPILED_BYTES, dfa_size_limit=_COMPILED_BYTES)
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, validate_formats=False, offline=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a compiler in Rust may also panic, which is no Exception
        raise BadRegex("it is no regular expression that can be matched in linear time") from error
