"""The check of an audit chain: every link is computed anew from the log alone, and compared with the stored heads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from holdfast.conversation.ids import suspension_id
from holdfast.conversation.records.event_base import ChainLink
from holdfast.conversation.records.events import CallSuspended, Event, ModelAnswered, SuspensionSettled
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import FIRST_WORDS, SuspensionKind

from .auditing import AuditEntry, entry_of, genesis, is_audited, shown_digest

MOST_BREAKS = 100
"""How many breaks a check keeps: the first ones."""
_BOUND = FIRST_WORDS | {SuspensionKind.CLIENT_EXEC}
"""The suspension kinds whose ids are derived from the model's arguments, or from their `seq`."""


@dataclass(frozen=True, slots=True)
class AuditBreak:
    """A break of the chain at a place in the log."""

    seq: Annotated[int | None, Field(description="The place in the log; None for the head of a receipt without a known place.")]
    problem: Annotated[str, Field(description="What is wrong there.")]


@dataclass(frozen=True, slots=True)
class _Shown:
    seq: int
    digest: str
    tool: str


class ChainCheck:
    """The check of one conversation's chain. It is fed the log in order, and holds the calls of one answer at a time.

    `kept` are heads from receipts that somebody has kept, each with the receipt's `seq` (None: without one).
    """

    def __init__(self, conversation_id: str, kept: Mapping[str, int | None] | None = None) -> None:
        self.conversation_id = conversation_id
        self.seq = 0
        self.head = ""
        self.breaks: list[AuditBreak] = []
        self.missing = dict(kept or {})
        self._adrift = False
        self._answered_at = 0
        self._arguments: dict[str, str] = {}
        self._asked: dict[str, int] = {}
        self._shown: dict[str, _Shown] = {}

    def add(self, seq: int, event: Event) -> AuditEntry | None:
        """Check the event at `seq`; the entry if it is a link, with its `problem` if it has one."""
        if seq != self.seq + 1:
            self.note(self.seq + 1, f"the log has no entry here: {self.seq} is followed by {seq}")
            self._adrift = True
        self.seq = seq
        if isinstance(event, ModelAnswered):
            self._answered_at = seq
            self._arguments = {call.tool_call_id: call.arguments for call in event.calls}
            self._asked, self._shown = {}, {}
        elif isinstance(event, CallSuspended):
            self._suspended(seq, event)
        if isinstance(event, ChainLink) and is_audited(event):
            return self._link(entry_of(self.conversation_id, seq, event), event)
        return None

    def unreadable(self, seq: int, why: str) -> AuditEntry:
        """Record that the entry at `seq` cannot be read, and return an entry that says so."""
        self.seq, self._adrift = seq, True
        self.note(seq, f"the entry cannot be read: {why}")
        return AuditEntry(self.conversation_id, seq, problem=why)

    def standing(self, state: State) -> None:
        """Compare the chain so far with the state that the store has at this place."""
        if state.seq == self.seq and state.audit_head != self.head and not self._adrift:
            self.note(self.seq, "the conversation's state has another head than its log")

    def done(self, expected: int) -> None:
        """Finish the check; the log must not end before `expected`."""
        if self.seq < expected:
            self.note(self.seq + 1, f"the log ends at {self.seq}, the conversation's state says {expected}")
        self.breaks += absences(self.missing)

    def note(self, seq: int | None, problem: str) -> None:
        """Record a break of the chain at `seq`, or of the chain as a whole."""
        if len(self.breaks) < MOST_BREAKS:
            self.breaks.append(AuditBreak(seq, problem))

    def _link(self, entry: AuditEntry, event: ChainLink) -> AuditEntry:
        problem = None
        if isinstance(event, SuspensionSettled):
            shown = self._shown.pop(event.suspension_id, None)
            entry = entry if shown is None else replace(entry, tool=shown.tool)
            if shown is not None and event.shown and event.shown != shown.digest:
                problem = "what was shown is not what the log has now"
                self.note(shown.seq, f"{problem}, as its decision at {entry.seq} says")
        if not event.head:  # an older release wrote it, or somebody removed its head
            if self.head:
                problem = "it has no head, and the chain had begun before it"
                self.note(entry.seq, problem)
            return replace(entry, problem=problem)
        previous = self.head or genesis(self.conversation_id)
        if self._adrift:
            problem = problem or "the head before it is not known"
        elif entry.follows(previous) != event.head:
            problem = "its head does not follow from it and the head before"
            self.note(entry.seq, problem)
        self.head, self._adrift = event.head, False
        if event.head in self.missing and self.missing[event.head] in (None, entry.seq):
            del self.missing[event.head]
        return replace(entry, previous=previous, head=event.head, problem=problem)

    def _suspended(self, seq: int, event: CallSuspended) -> None:
        ordinal = self._asked[event.tool_call_id] = self._asked.get(event.tool_call_id, 0) + 1
        self._shown[event.suspension_id] = _Shown(seq, shown_digest(event), event.tool)
        if event.own_arguments is not None:
            if event.suspension_id != suspension_id(self.conversation_id, event.tool_call_id, ordinal, event.own_arguments):
                self.note(seq, f"the arguments of {event.tool_call_id} are not those that its suspension stands for")
            return
        text = self._arguments.get(event.tool_call_id)
        if event.arguments_at != self._answered_at or text is None or event.suspension_kind not in _BOUND:
            return
        by = (text, f"@{event.arguments_at}")  # `seq` alone, if the call was held before, or asked about at its dispatch
        ids = (suspension_id(self.conversation_id, event.tool_call_id, ordinal, one) for one in by)
        if event.suspension_id not in ids:
            self.note(event.arguments_at, f"the arguments of {event.tool_call_id} are not those that were shown at {seq}")


def absences(heads: Mapping[str, int | None]) -> list[AuditBreak]:
    """A break for each kept head that the chain lacks, with the receipt's `seq`."""
    return [AuditBreak(seq, f"the head {head:.16}… of a receipt is not in the chain") for head, seq in heads.items()]
