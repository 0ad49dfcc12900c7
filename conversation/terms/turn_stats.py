"""What a turn has used, and the app's own functions of that: records know a function by its name alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

MOST_FUNCTIONS = 8
"""The most functions of one agent: all of them are asked about each answer, within one time."""
NAME_CHARS = 64
"""How many characters of a function's name are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStats:
    """What a turn has used once the model has asked for calls, which have not begun. Times in integer milliseconds UTC.

    Attributes:
        rounds: How many answers have asked for calls, this one included.
        model_calls: How many answers there are.
        tokens: The tokens of all requests and answers together, as far as the provider counts them.
        cost_usd: What the answers have cost in US dollars, as far as their prices are known.
        errors: How many results in a row have failed, up to this answer.
        calls: The names of the tools that this answer asks for, in its order.
        text: The text of this answer.
        started_at: When the turn began, by the store's clock.
        at: When this answer was whole, by the same clock.
    """

    rounds: int = 0
    model_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    errors: int = 0
    calls: tuple[str, ...] = ()
    text: str = ""
    started_at: int = 0
    at: int = 0


Judging: TypeAlias = Callable[[TurnStats], str | bool | None]
"""A function that ends a turn by the text of its reason (or True), and lets it go on by None (or False)."""


class TurnFunction:
    """A function that judges a turn.

    Attributes:
        name: Its name, by which two count as the same.
        function: The function itself; None in what was stored.
    """

    __slots__ = ("function", "name")

    def __init__(self, name: str, function: Judging | None = None) -> None:
        self.name = name
        self.function = function

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, TurnFunction) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type["TurnFunction"], tuple[str]]:
        return TurnFunction, (self.name,)


When: TypeAlias = Judging | TurnFunction | Sequence[Judging | TurnFunction]


class TurnFunctions:
    """Marks a field of functions: one or several are given, a tuple of `TurnFunction` is kept, and their names are stored."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema of such a field."""
        del source, handler
        names = core_schema.plain_serializer_function_ser_schema(lambda kept: tuple(one.name for one in kept))
        return core_schema.no_info_plain_validator_function(_kept, serialization=names)


def _kept(given: Any) -> tuple[TurnFunction, ...]:
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    if len(listed) > MOST_FUNCTIONS:
        raise ValueError(f"{len(listed)} functions are given, {MOST_FUNCTIONS} are allowed")
    return tuple(_one(given) for given in listed)


def _one(given: Any) -> TurnFunction:
    if isinstance(given, TurnFunction):
        return given
    if isinstance(given, str):  # as it is stored
        return TurnFunction(given[:NAME_CHARS])
    if not callable(given):
        problem = f"{type(given).__name__} is no function: give functions of TurnStats"
        raise ValueError(problem)  # noqa: TRY004 - pydantic reports no other error
    return TurnFunction(str(getattr(given, "__name__", type(given).__name__))[:NAME_CHARS], given)
