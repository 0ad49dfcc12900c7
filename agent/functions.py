"""Declarations about a tool's calls, as a value or as a function: who may decide them, and what they touch."""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.conversation.terms.approvers import Approvers, ApproverTerms, terms_of
from holdfast.conversation.terms.grants import MOST_TARGETS, CallTarget, Target
from holdfast.errors import ConfigurationError

T = TypeVar("T")
_LOG = logging.getLogger("holdfast.agent")


class UntoldError(Exception):
    """A function of the app failed to answer."""


def takes(function: Callable[..., Any], *args: Any) -> bool:
    """Whether a function can be called with this number of arguments."""
    try:
        inspect.signature(function).bind(*args)
    except (TypeError, ValueError):
        return False
    return True


def is_async(function: object) -> bool:
    """Whether a function or callable object is async."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004 - is it async?


def asked(call: Callable[[], Any], read: Callable[[Any], T], failed: str) -> T:
    """The answer of a function of the app, as converted by `read`.

    Raises:
        UntoldError: The function or `read` fails, which is logged with the text `failed`. The function's own errors, including
            `Suspend` and cancellations, become this one, except KeyboardInterrupt.
    """
    try:
        said = call()
        if inspect.iscoroutine(said):
            said.close()  # nobody awaits it
        return read(said)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _LOG.warning("%s", failed, exc_info=True)
        raise UntoldError(failed) from error


class Declared(Generic[T]):
    """What a tool declares about its calls: one value for all, or a plain function of the arguments.

    Args:
        declared: The value, or the function.
        field: The field that errors name.
        read: Checks a value, and converts it to the form that is kept.
        fix: What to declare instead of an unusable value.
        failed: The log text, after the field, if the function fails.
    """

    def __init__(self, declared: Any, field: str, *, read: Callable[[Any], T], fix: str, failed: str) -> None:
        self._read, self._failed = read, f"{field} {failed}"
        self._function: Callable[[dict[str, Any]], Any] | None = declared if callable(declared) else None
        if self._function is None:
            self._fixed = read(declared)
        elif is_async(declared) or not takes(declared, {}):
            raise ConfigurationError(field, "it is no plain function of the arguments", fix)

    @property
    def by_function(self) -> bool:
        """Whether a function of the app answers."""
        return self._function is not None

    def of(self, arguments: Mapping[str, Any]) -> T:
        """The answer for a call with these arguments; a function gets a copy of them."""
        function = self._function
        if function is None:
            return self._fixed
        return asked(lambda: function(copy.deepcopy(dict(arguments))), self._read, self._failed)


Who: TypeAlias = Approvers | Sequence[str]
"""Who may decide: `Approvers`, or a list of roles and ids."""
DecidedBy: TypeAlias = Who | Callable[[dict[str, Any]], Who | None]
"""Who may decide a tool's calls: one value for all, or a plain function of the arguments; None: anybody may decide."""
_FIX_DECIDERS = (
    'give Approvers("role:finance"), a list ["role:finance"], or a function (not async) of the arguments that returns one'
)


class Deciders(Declared[ApproverTerms | None]):
    """The declaration of who may decide a tool's calls; a call does not run if its function fails."""

    def __init__(self, declared: DecidedBy, field: str) -> None:
        def read(said: Any) -> ApproverTerms | None:
            return None if said is None and callable(declared) else terms_of(said, field)

        super().__init__(
            declared, field, read=read, fix=_FIX_DECIDERS, failed="could not say who may decide a call, so it does not run"
        )


Touched: TypeAlias = Sequence[Target] | Callable[[dict[str, Any]], Sequence[Target]]
"""The targets of a tool's calls: one list for all, or a plain function of the arguments."""
_FIX_TOUCHED = (
    'give [Target("path", "src/a", level="write")], or a function (not async) of the arguments that returns such a list'
)


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
                raise ConfigurationError(field, problem, _FIX_TOUCHED)
            return tuple(CallTarget(kind=one.kind, value=one.value, level=one.level) for one in found)

        failed = "could not say what a call touches, so no grant covers it"
        super().__init__(declared, field, read=read, fix=_FIX_TOUCHED, failed=failed)

    def by(self, arguments: Mapping[str, Any]) -> tuple[CallTarget, ...]:
        """The targets of a call with these arguments; none, which no grant covers, if the function fails."""
        try:
            return self.of(arguments)
        except UntoldError:
            return ()
