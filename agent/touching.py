"""What a call touches: the targets that its tool declares, as a list or by a function of the arguments."""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.conversation.grants import MOST_TARGETS, CallTarget, Target
from holdfast.errors import ConfigurationError

from .approving import is_async
from .suspend import Suspend

logger = logging.getLogger("holdfast.agent")

Touched: TypeAlias = Sequence[Target] | Callable[[dict[str, Any]], Sequence[Target]]
"""The targets of a tool's calls: the same for each call, or a plain function of the arguments."""
_FIX = 'give [Target("path", "src/a", level="write")], or a function (not async) of the arguments that returns such a list'


class Touching:
    """The declaration of what a tool's calls touch.

    Args:
        declared: A list, or a function of the arguments.
        field: What errors name.

    Raises:
        ConfigurationError: It is neither, or the list has what is no target, or more than `MOST_TARGETS`.
    """

    def __init__(self, declared: Touched, field: str) -> None:
        self._field = field
        self._function: Callable[[dict[str, Any]], Sequence[Target]] | None = None
        self._fixed: tuple[CallTarget, ...] = ()
        if callable(declared):
            if is_async(declared) or not _takes_one(declared):
                raise ConfigurationError(field, "it is no plain function of the arguments", _FIX)
            self._function = declared
            return
        try:
            self._fixed = _checked(declared)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(field, str(error), _FIX) from None

    @property
    def by_function(self) -> bool:
        """Whether a function of the app says it."""
        return self._function is not None

    def by(self, arguments: Mapping[str, Any]) -> tuple[CallTarget, ...]:
        """What a call with these arguments touches; nothing, which no grant covers, where the function fails (logged)."""
        if self._function is None:
            return self._fixed
        try:
            said = self._function(copy.deepcopy(dict(arguments)))
            if inspect.iscoroutine(said):
                said.close()  # nobody awaits it
            return _checked(said)
        except KeyboardInterrupt:
            raise
        except (BaseException, Suspend):  # the app's code may raise anything, and no grant covers the call then
            logger.warning("%s could not say what a call touches, so no grant covers it", self._field, exc_info=True)
            return ()


def _checked(found: object) -> tuple[CallTarget, ...]:
    if isinstance(found, str) or not isinstance(found, Sequence):
        message = f"{type(found).__name__} is no list of targets"
        raise TypeError(message)
    if not 1 <= len(found) <= MOST_TARGETS:
        message = f"it has {len(found)} targets, 1 to {MOST_TARGETS} are allowed"
        raise ValueError(message)
    for one in found:
        if not isinstance(one, Target):
            message = f"{one!r:.60} is no Target"
            raise TypeError(message)
    return tuple(CallTarget(kind=one.kind, value=one.value, level=one.level) for one in found)


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind({})
    except (TypeError, ValueError):
        return False
    return True
