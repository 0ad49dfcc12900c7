"""Functions of the app that say something of a call: whether one can be asked, and what it says."""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from holdfast.errors import ConfigurationError

T = TypeVar("T")
_LOG = logging.getLogger("holdfast.agent")


class UntoldError(Exception):
    """A function of the app does not say what it is asked."""


def takes(function: Callable[..., Any], *args: Any) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*args)
    except (TypeError, ValueError):
        return False
    return True


def is_async(function: object) -> bool:
    """Whether a function, or an object that can be called, gives what must be awaited."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004 - is it async?


def asked(call: Callable[[], Any], read: Callable[[Any], T], failed: str) -> T:
    """What a function of the app says, as `read` takes it.

    Raises:
        UntoldError: The function fails, or `read` does; that is logged with the text `failed`. Nothing that the function
            raises passes, a `Suspend` or a cancellation of its own included, but for Ctrl-C.
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
    """What a tool declares of its calls: the same for each, or by a plain function of the arguments.

    Args:
        declared: The value, or the function.
        field: What errors name.
        read: Checks a value, and gives it in the form that is kept.
        fix: What to declare instead of what cannot be used.
        failed: What is logged, after the field, where the function fails.
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
        """Whether a function of the app says it."""
        return self._function is not None

    def of(self, arguments: Mapping[str, Any]) -> T:
        """What holds of a call with these arguments; the function is given a copy of them."""
        function = self._function
        if function is None:
            return self._fixed
        return asked(lambda: function(copy.deepcopy(dict(arguments))), self._read, self._failed)
