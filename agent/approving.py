"""Whether a call needs an approval, according to a function of the app."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import Approval
from holdfast.errors import ConfigurationError

from .functions import UntoldError, asked, is_async, takes


@dataclass(frozen=True, kw_only=True)
class TurnContext:
    """The turn in which the model asks for a call, for the function that says whether the call needs an approval.

    Attributes:
        conversation_id: The conversation.
        agent: The agent's name.
        requester: The sender of the message that the turn answers, and how that was proven; None if unknown.
        context: The JSON value that `start` was given for this conversation.
        attended: Whether there is a person to ask, as `start` was told.
    """

    conversation_id: str
    agent: str
    requester: Principal | None = None
    context: Any = None
    attended: bool = True


Needs: TypeAlias = Callable[[dict[str, Any]], bool | str] | Callable[[dict[str, Any], TurnContext], bool | str]
"""Whether a person must approve a call first, by its arguments and its turn: True or False, `required` or `auto`."""
_NOWHERE = TurnContext(conversation_id="", agent="")


class Approving:
    """A function of the app that says whether a call needs an approval: of the arguments, or of the arguments and the turn."""

    def __init__(self, function: Needs, field: str) -> None:
        self._function: Callable[..., Any] = function
        alone = takes(function, {})
        self.takes_turn = not alone and takes(function, {}, _NOWHERE)
        if is_async(function) or not (alone or self.takes_turn):
            problem = "it is neither a mode nor a plain function of the arguments, or of the arguments and the turn"
            fix = 'use auto or required, or a function (not async) such as lambda arguments: arguments["amount"] > 100'
            raise ConfigurationError(field, problem, fix)
        self._failed = f"{field} could not say whether a call needs an approval, so a person is asked"

    def needed(self, arguments: Mapping[str, Any] | None, turn: TurnContext) -> bool:
        """Whether a person must approve the call first; true if the arguments are unreadable or the function fails."""
        if arguments is None:
            return True
        given = (copy.deepcopy(dict(arguments)), *((turn,) if self.takes_turn else ()))
        try:
            return asked(lambda: self._function(*given), _is_required, self._failed)
        except UntoldError:
            return True


def _is_required(said: Any) -> bool:
    return said if isinstance(said, bool) else Approval(said) is Approval.REQUIRED
