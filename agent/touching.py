"""What a call touches: the targets that its tool declares, as a list or by a function of the arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.conversation.terms.grants import MOST_TARGETS, CallTarget, Target
from holdfast.errors import ConfigurationError

from .functions import Declared, UntoldError

Touched: TypeAlias = Sequence[Target] | Callable[[dict[str, Any]], Sequence[Target]]
"""The targets of a tool's calls: the same for each call, or a plain function of the arguments."""
_FIX = 'give [Target("path", "src/a", level="write")], or a function (not async) of the arguments that returns such a list'


class Touching(Declared[tuple[CallTarget, ...]]):
    """The declaration of what a tool's calls touch: 1 to `MOST_TARGETS` targets each."""

    def __init__(self, declared: Touched, field: str) -> None:
        def read(found: Any) -> tuple[CallTarget, ...]:
            problem = ""
            if isinstance(found, str) or not isinstance(found, Sequence):
                problem = f"{type(found).__name__} is no list of targets"
            elif not 1 <= len(found) <= MOST_TARGETS:
                problem = f"it has {len(found)} targets, 1 to {MOST_TARGETS} are allowed"
            elif wrong := [one for one in found if not isinstance(one, Target)]:
                problem = f"{wrong[0]!r:.60} is no Target"
            if problem:
                raise ConfigurationError(field, problem, _FIX)
            return tuple(CallTarget(kind=one.kind, value=one.value, level=one.level) for one in found)

        failed = "could not say what a call touches, so no grant covers it"
        super().__init__(declared, field, read=read, fix=_FIX, failed=failed)

    def by(self, arguments: Mapping[str, Any]) -> tuple[CallTarget, ...]:
        """The targets of a call with these arguments; none, which no grant covers, if the function fails."""
        try:
            return self.of(arguments)
        except UntoldError:
            return ()
