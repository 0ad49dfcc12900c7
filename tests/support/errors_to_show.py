"""One error of each class with telling fields, and how errors are compared: by class, typed fields and words."""

import inspect
import re
from collections.abc import Mapping

from holdfast import errors
from holdfast.errors import HoldfastError, InvalidDecision, LinkProblem, SettledBy, StaleCall, StaleReason

EXPORTED = [found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, HoldfastError)]
REFUSED = {"s-1": StaleCall("c-1", "s-1", StaleReason.UNKNOWN), "s-2": InvalidDecision("decision", "no", "decide otherwise")}
VALUES = {
    float: 0.5,
    Mapping[str, HoldfastError]: REFUSED,
    int: 7,
    int | None: 7,
    StaleReason: StaleReason.EXPIRED,
    LinkProblem: LinkProblem.KEY,
    SettledBy | None: SettledBy.DENY,
}
_TIME = re.compile(r"\b[0-9]{13}\b")


def _example(error):
    """An instance with telling arguments."""
    if not error.arguments:
        return error("it said so")
    return error(*(VALUES.get(one, f"{name}-x") for name, one in error.arguments.items()))


SHOWN = {error: _example(error) for error in EXPORTED}
"""An error of each class."""


def as_told(value):
    """An error as it is compared: its class, its fields and arguments with their types, and its words; times as such."""
    if isinstance(value, HoldfastError):
        return type(value).__name__, as_told(vars(value)), as_told(value.args), _TIME.sub("a time", str(value))
    if isinstance(value, dict):
        return {name: as_told(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [as_told(one) for one in value]
    return type(value).__name__, _TIME.sub("a time", value) if isinstance(value, str) else None if _is_time(value) else value


def _is_time(value):
    return type(value) is int and _TIME.fullmatch(str(value)) is not None
