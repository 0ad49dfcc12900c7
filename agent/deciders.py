"""Who may decide a tool's calls, as its declaration says: the same for each call, or by a function of the arguments."""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.conversation.approvers import Approvers, ApproverTerms, terms_of
from holdfast.errors import ConfigurationError

from .approving import is_async
from .suspend import Suspend

logger = logging.getLogger("holdfast.agent")

Who: TypeAlias = Approvers | Sequence[str]
"""Who may decide: `Approvers`, or a list of roles and ids."""
DecidedBy: TypeAlias = Who | Callable[[dict[str, Any]], Who | None]
"""Who may decide a tool's calls: the same for each, or a plain function of the arguments; None: whoever may decide at all."""
_FIX = 'give Approvers("role:finance"), a list ["role:finance"], or a function (not async) of the arguments that returns one'


class UntoldError(Exception):
    """The app's function does not say who may decide a call."""


class Deciders:
    """The declaration of who may decide a tool's calls.

    Args:
        declared: `Approvers`, a list, or a function of the arguments.
        field: What errors name.

    Raises:
        ConfigurationError: It is none of them, or names nobody.
    """

    def __init__(self, declared: DecidedBy, field: str) -> None:
        self._field = field
        self._function: Callable[[dict[str, Any]], Who | None] | None = None
        self._fixed: ApproverTerms | None = None
        if not callable(declared):
            self._fixed = terms_of(declared, field)
            return
        if is_async(declared) or not _takes_one(declared):
            raise ConfigurationError(field, "it is no plain function of the arguments", _FIX)
        self._function = declared

    @property
    def by_function(self) -> bool:
        """Whether a function of the app says it."""
        return self._function is not None

    def of(self, arguments: Mapping[str, Any]) -> ApproverTerms | None:
        """Who may decide a call with these arguments.

        Raises:
            UntoldError: The function fails, or returns something else (logged).
        """
        if self._function is None:
            return self._fixed
        try:
            said = self._function(copy.deepcopy(dict(arguments)))
            if inspect.iscoroutine(said):
                said.close()  # nobody awaits it
            return None if said is None else terms_of(said, self._field)
        except KeyboardInterrupt:
            raise
        except (BaseException, Suspend) as error:  # the app's code may raise anything, and nobody may decide the call then
            logger.warning("%s could not say who may decide a call, so it does not run", self._field, exc_info=True)
            raise UntoldError(self._field) from error


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind({})
    except (TypeError, ValueError):
        return False
    return True
