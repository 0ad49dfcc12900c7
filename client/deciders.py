"""Selecting pending calls by the people who may decide them."""

from dataclasses import replace

from holdfast.conversation import Principal, Proof
from holdfast.conversation.records.calls import PendingView
from holdfast.errors import InvalidInput

from .arguments import principal_of

_SEPARATOR = ","


def decider_of(approver: object) -> Principal:
    """The principal whose calls are asked for, checked. A list needs no proof, so its id and roles count as proven."""
    try:
        return replace(principal_of(approver), proof=Proof.KEY)
    except InvalidInput as error:
        raise InvalidInput("approver", error.problem, 'give a principal: Principal("ana", roles=("finance",))') from None


def decides(view: PendingView, who: Principal) -> bool:
    """Whether a principal may decide what a view shows."""
    return view.approvers is None or view.approvers.problem(who, view.requester) is None


def asked_for(approver: object) -> dict[str, str]:
    """The fields of a query for a principal's calls; none without a principal. A role with a comma raises `InvalidInput`."""
    if approver is None:
        return {}
    who = decider_of(approver)
    if any(_SEPARATOR in role for role in who.roles):
        raise InvalidInput("approver", "over HTTP no role has a comma", "leave that role out")
    return {"approver": who.id} | ({"roles": _SEPARATOR.join(who.roles)} if who.roles else {})


def asked_of(approver: str | None, roles: str | None) -> Principal | None:
    """The principal that the fields of a query name; `InvalidInput` for a bad name, or roles without a principal."""
    if approver is None:
        if roles is not None:
            raise InvalidInput("roles", "they are those of nobody", "give approver, too")
        return None
    try:
        return Principal(approver, roles=tuple(roles.split(_SEPARATOR)) if roles else (), proof=Proof.KEY).check_visible()
    except InvalidInput as error:
        raise InvalidInput("roles" if "roles" in error.field else "approver", error.problem, error.fix) from None
