"""The steps of clients that execute calls, for whatever takes the steps of `writer`."""

import uuid
from typing import Any

from writer import NextCommand

from holdfast.conversation import Claim, Command, GiveBack, State, SuspensionKind
from holdfast.conversation.terms.presence import OnDetach
from holdfast.conversation.terms.principal import Principal


def claim(
    client_id: str = "tab-1",
    tool_call_id: str | None = None,
    *,
    request_id: str | None = None,
    principal: Principal | None = None,
    on_detach: OnDetach = OnDetach.KEEP,
) -> NextCommand:
    """The step by which a client claims the named call, else the first that clients execute and none has claimed."""

    def step(state: State) -> Command:
        about = _at_client(state, tool_call_id, claimed=False) | {"request_id": request_id or uuid.uuid4().hex}
        return Claim(client_id=client_id, principal=principal, on_detach=on_detach, **about)

    return step


def give_back(
    client_id: str = "tab-1",
    tool_call_id: str | None = None,
    *,
    began: bool = True,
    reason: str = "",
    request_id: str | None = None,
    principal: Principal | None = None,
) -> NextCommand:
    """The step by which a client gives the named call back, else the first claimed one."""

    def step(state: State) -> Command:
        about = _at_client(state, tool_call_id, claimed=True) | {"request_id": request_id or uuid.uuid4().hex}
        return GiveBack(client_id=client_id, principal=principal, began=began, reason=reason, **about)

    return step


def _at_client(state: State, tool_call_id: str | None, *, claimed: bool) -> dict[str, Any]:
    """The call, and its suspension; the last one, if no call fits better."""
    found = {"tool_call_id": tool_call_id or "call-9", "suspension_id": "s-9"}
    for call in state.calls:
        one = call.suspension
        if one is None or tool_call_id not in (None, call.tool_call_id) or one.kind is not SuspensionKind.CLIENT_EXEC:
            continue
        found = {"tool_call_id": call.tool_call_id, "suspension_id": one.suspension_id}
        if tool_call_id is not None or (one.claim is not None) == claimed:
            break
    return found
