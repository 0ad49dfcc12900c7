"""How much of a tool's exception the model reads and the store keeps."""

import inspect
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

from holdfast.errors import ConfigurationError
from holdfast.redaction import said

from .callback import InvalidArguments, ValidatorRaised

_LOG = logging.getLogger("holdfast.agent")
_FIX = 'give errors="full", errors="type", or a function (not async) of the exception that returns text'


class Disclosure(StrEnum):
    """How much of an exception is shown."""

    FULL = "full"  # its class and its text, without secrets
    TYPE = "type"  # the name of its class


Errors: TypeAlias = str | Callable[[BaseException], str]
"""A `Disclosure`, or a function of the app from an exception to the text that is shown."""


def checked(errors: Any, field: str) -> Errors:
    """The policy for exceptions, if the value is one."""
    if isinstance(errors, str) and errors in tuple(Disclosure):
        return Disclosure(errors)
    if not callable(errors) or inspect.iscoroutinefunction(errors) or isinstance(errors, str | type):
        raise ConfigurationError(field, f"{errors!r:.60} does not say what is told of an exception", _FIX)
    try:
        inspect.signature(errors).bind(None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(field, f"it cannot be called with an exception ({error})", _FIX) from error
    function: Callable[[BaseException], str] = errors
    return function


def told(errors: Errors, error: BaseException) -> str:
    """The text that is told of an exception, secrets included; the name of its class if the app's function fails.

    Holdfast's own texts about wrong arguments are told under every policy.
    """
    if isinstance(error, ValidatorRaised) and error.__cause__ is not None:
        return f"$: a validator raised {told(errors, error.__cause__)}"
    if isinstance(error, InvalidArguments):
        return str(error)
    if errors == Disclosure.FULL:
        return said(error)
    name = type(error).__name__
    if isinstance(errors, str):
        return name
    try:
        text = errors(error)
        if not isinstance(text, str):
            raise TypeError(f"it returned {type(text).__name__}, not text")  # noqa: TRY301 - logged like any other failure
    except BaseException:  # noqa: BLE001 - if the app's code fails, the exception's class is told
        _LOG.warning("errors= could not say what is told of %s", name, exc_info=True)
        return name
    return text
