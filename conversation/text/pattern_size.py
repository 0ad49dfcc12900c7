"""The rough size of a regular expression's automaton: a part that is repeated n times counts n times."""

import re

_WIDE, _CLASS = 4, 8
"""The states of an atom that stands for most of Unicode, and of one for a class of it: unlike a letter, it is matched byte by
byte."""
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


def pattern_size(pattern: str) -> int:
    """The approximate upper bound of states in a pattern's automaton; any number for a pattern that the engine refuses."""
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
