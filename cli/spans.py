"""Lengths of time as options say them: `30d`, `12h`, `15m`."""

import re

from holdfast.errors import InvalidInput

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(text: str, option: str) -> int:
    """The seconds of a time such as `30d`.

    Raises:
        InvalidInput: The text is none; the error names the option.
    """
    found = _SPAN.fullmatch(text)
    if found is None:
        raise InvalidInput(option, f"{text!r:.40} is no time", "write a number and s, m, h, d or w: 30d")
    return int(found[1]) * _UNITS[found[2]]
