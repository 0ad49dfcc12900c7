"""Who may decide a tool's calls, as declared: the same for each call, or by a function of the arguments."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from holdfast.conversation.terms.approvers import Approvers, ApproverTerms, terms_of

from .functions import Declared

Who: TypeAlias = Approvers | Sequence[str]
"""Who may decide: `Approvers`, or a list of roles and ids."""
DecidedBy: TypeAlias = Who | Callable[[dict[str, Any]], Who | None]
"""Who may decide a tool's calls: the same for each, or a plain function of the arguments; None: anybody may decide."""
_FIX = 'give Approvers("role:finance"), a list ["role:finance"], or a function (not async) of the arguments that returns one'


class Deciders(Declared[ApproverTerms | None]):
    """The declaration of who may decide a tool's calls; a call does not run if its function fails."""

    def __init__(self, declared: DecidedBy, field: str) -> None:
        def read(said: Any) -> ApproverTerms | None:
            return None if said is None and callable(declared) else terms_of(said, field)

        super().__init__(declared, field, read=read, fix=_FIX, failed="could not say who may decide a call, so it does not run")
