"""What a conversation owes others: which notices its events owe to which notification targets of its app.

An append writes what its events owe in the same script as the events, a small envelope for each; the courier delivers it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.conversation.ids import digest
from holdfast.conversation.records import events as recorded
from holdfast.conversation.records.events import Event, SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.spec import AgentSpec, NoticeKind

START, TELL, END = "start", "tell", "end"
"""The kinds of what conversations owe each other: a child is started, its parent told of its end, a child ended."""
OWN = "own"
"""The lane of deliveries to conversations."""
AFTER_ALL = 999
"""The number `n` of a quarantine's envelopes, which come after those of the log's last event."""
_NOTICE = re.compile(r"notice:([A-Za-z0-9_-]{1,64}):(.+)", re.DOTALL)
_OWN = re.compile(rf"{OWN}:([A-Za-z0-9][A-Za-z0-9._:-]{{0,127}})")


@dataclass(frozen=True, slots=True)
class Owed:
    """One thing that an event owes: its `kind`, and the `target` that gets it (see `notice_target` and `own_target`)."""

    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """One owed thing, as it is stored until it is delivered.

    `seq` is the place of its event in the log (of a quarantine: the log's end), `n` its number among those that the event owes,
    `at` when it was owed, in ms UTC by the store's clock.
    """

    kind: str
    target: str
    seq: int
    n: int
    at: int

    def message_id(self, conversation_id: str) -> str:
        """The id by which receivers recognise a repetition. After a loss of data in the store, another event has another id."""
        parts = (self.kind, self.target, str(self.seq), str(self.n), str(self.at))
        return "msg_" + digest("owed", conversation_id, *parts, length=32)


def notice_target(name: str, app: str) -> str:
    """The target that is an app's notification target."""
    return f"notice:{name}:{app}"


def notified(target: str) -> tuple[str, str] | None:
    """The name of the notification target and its app; None for another target."""
    found = _NOTICE.fullmatch(target)
    return None if found is None else (found[1], found[2])


def own_target(conversation_id: str) -> str:
    """The target that is a conversation."""
    return f"{OWN}:{conversation_id}"


def addressed(target: str) -> str | None:
    """The conversation that is the target; None for another target."""
    found = _OWN.fullmatch(target)
    return None if found is None else found[1]


def lane_of(target: str) -> str:
    """The lane of a target: each notification target has its own, and all conversations together have one."""
    return OWN if target.startswith(f"{OWN}:") else target


def shown_target(target: str) -> str:
    """What metrics call a target or lane: the name of a notification target, or `own`."""
    found = notified(target)
    return OWN if found is None else found[0]


def owed_by(events: Sequence[Event], before: State, after: State, spec: AgentSpec | None) -> list[Envelope]:
    """What events that lead from one state to another owe, judged with a spec; when it is owed is set as it is written."""
    return [
        Envelope(one.kind, one.target, seq, n, 0)
        for seq, event in enumerate(events, before.seq + 1)
        for n, one in enumerate(owes(event, before, after, spec))
    ]


def owes(event: Event, before: State, after: State, spec: AgentSpec | None) -> tuple[Owed, ...]:
    """What an event owes, between the states before and after its append."""
    match event:
        case recorded.CallSuspended() if event.source:
            return (Owed(START, own_target(event.source)),)
        case recorded.SuspensionSettled() if source := _source(event, before):
            return () if event.source_ended else (Owed(END, own_target(source)),)
        case _:
            kind = notice_kind(event)
            told = () if kind is None else _notices(kind, after, spec)
            return (*told, *_tells(after)) if isinstance(event, recorded.Ended) else told


def quarantine_owes(state: State, spec: AgentSpec | None) -> tuple[Owed, ...]:
    """What a quarantine of the conversation would owe."""
    return (*_notices(NoticeKind.QUARANTINED, state, spec), *_tells(state))


def _tells(state: State) -> tuple[Owed, ...]:
    """The word that a conversation's parent waits for."""
    return () if state.parent is None else (Owed(TELL, own_target(state.parent.conversation_id)),)


def _notices(kind: NoticeKind, state: State, spec: AgentSpec | None) -> tuple[Owed, ...]:
    if spec is None:
        return ()
    return tuple(Owed(kind.value, notice_target(one.name, state.app)) for one in spec.notify if kind in one.events)


def _source(event: recorded.SuspensionSettled, before: State) -> str:
    """The machine that a settled call waited for; empty if it waited for people."""
    call = before.calls.of(event.tool_call_id)
    return "" if call is None or call.suspension is None else call.suspension.source


def notice_kind(event: Event) -> NoticeKind | None:
    """The kind of notice about an event; None if there is none."""
    match event:
        case recorded.CallSuspended():
            lost = event.suspension_kind is SuspensionKind.LOST
            return NoticeKind.LOST_RUN if lost else NoticeKind.SUSPENDED
        case recorded.CallReminded():
            return NoticeKind.REMINDED
        case recorded.CallEscalated():
            return NoticeKind.ESCALATED
        case recorded.SuspensionSettled():
            return NoticeKind.EXPIRED if event.by is SettledBy.EXPIRY else NoticeKind.SETTLED
        case recorded.TurnCompleted():
            return NoticeKind.TURN_COMPLETED
        case recorded.TurnFailed():
            return NoticeKind.TURN_FAILED
        case recorded.Ended():
            return NoticeKind.ENDED
        case _:
            return None
