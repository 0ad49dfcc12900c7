"""Calling functions of the app that answer a question about a call."""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

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
    """What a tool declares of its calls: the same for each, or by a plain function of the arguments.

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
