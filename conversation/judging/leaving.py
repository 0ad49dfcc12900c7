"""What waits for one client alone: the calls that it has claimed, and what only its principal may decide."""

from collections.abc import Collection, Iterable

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.presence import LEAVES_MS, Present, client_name, mark_of
from holdfast.conversation.terms.principal import Principal

LEFT = "the client left"


def left_behind(
    state: State,
    client_id: str,
    by: Principal | None,
    present: Iterable[Present],
    *,
    now: int,
    kinds: Collection[SuspensionKind] | None = None,
) -> tuple[Call, ...]:
    """The calls that wait for a client of this principal alone, and for the principal if no other client of it is there.

    Of the latter, only those that wait for these `kinds` of decisions; None: all.
    """
    name, mark = client_name(client_id, by), mark_of(by)
    here = (one for one in present if one.until + LEAVES_MS > now)
    alone = by is not None and not any(one.by == mark and one.name != name for one in here)
    return tuple(
        call
        for call in state.calls.awaiting()
        if _is_claimed(call, name) or (alone and by is not None and call.waits_for_only(by) and _is_of(call, kinds))
    )


def _is_of(call: Call, kinds: Collection[SuspensionKind] | None) -> bool:
    return kinds is None or (call.suspension is not None and call.suspension.kind in kinds)


def _is_claimed(call: Call, name: str) -> bool:
    return call.suspension is not None and call.suspension.claim is not None and call.suspension.claim.name == name
