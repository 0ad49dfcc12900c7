"""The spans of the turns in one activation, and of the suspensions that end in it.

No span is open while a turn waits for a decision: the turn's span ends, and another begins when the turn goes on, perhaps days
later in another process, with the trace context from the log. If a process dies, its open turn span is lost; the spans of the
work in it are not.
"""

from opentelemetry.trace import INVALID_SPAN, Span

from holdfast import traces
from holdfast.conversation import CancelPending, CancelTurn, Command, End, Event, Resolve, ResolveMany, Revoke, State, Wake
from holdfast.conversation.ids import is_compaction_id
from holdfast.conversation.records import events
from holdfast.conversation.records.commands import TurnPrepared
from holdfast.persistence import Append
from holdfast.settings import TraceContinuation, TraceSettings
from holdfast.work_context import traceparent_of

from .notices import Notice

BEFORE = "before"
"""The link to the turn's previous span."""
DECISION = "decision"
"""The link to the span of the decision."""
NO_DECISIONS = frozenset({events.SettledBy.EXPIRY, events.SettledBy.CANCELLATION})


class TurnTrace:
    """The span of the current turn, if it is traced."""

    def __init__(self, conversation_id: str, settings: TraceSettings, *, visited: State | None = None) -> None:
        """The trace of an owner, or of a guest of a `visited` state, which makes a span only if the turn ends or waits."""
        self._conversation_id = conversation_id
        self._settings = settings
        self._exports = traces.tracer_provider() is not None  # set up, if at all, before the process takes up conversations
        self._span: Span | None = None
        self._first: Span | None = None  # the first span of a turn, until its beginning is written
        self._resumed: Span | None = None  # the next span of a turn, until its continuation is written
        turn = visited.turn if visited is not None and visited.busy and self._exports else None
        # The trace context in which a guest found the turn:
        self._visited = None if turn is None else turn.latest or turn.traceparent

    def of(self, state: State, command: Command, now: int) -> str | None:
        """The trace context of the turn's span for the events of a command; None if there is none.

        A span that begins with the command becomes the turn's span once that is `written`. `now` is the store's time, in ms
        UTC.
        """
        self._first = self._resumed = None
        if isinstance(command, TurnPrepared):
            return self.beginning(state)
        if state.turn is None:
            return None
        if self._visited is not None:
            return self._visited
        due = isinstance(command, Wake) and command.acts(state, now)
        if self._span is None and (state.busy or due or isinstance(command, Resolve | ResolveMany | CancelPending)):
            self._resumed = self._goes_on(state, command)
        span = self._span or self._resumed
        return None if span is None else traceparent_of(span)

    def beginning(self, state: State) -> str | None:
        """The trace context of the next turn's first span, for its event; its parent is the message's trace context."""
        if not state.queue:
            return None
        self._first = self._begun(state, state.next_turn_id, parent=state.queue[0].traceparent)
        return traceparent_of(self._first)

    def for_work(self, state: State) -> str | None:
        """The trace context of the span that the turn's work belongs to; a takeover begins a new span."""
        if state.turn is None:
            return None
        if self._span is None and self._visited is None:
            self._span = self._goes_on(state, None)
        return self._visited if self._span is None else traceparent_of(self._span)

    def written(self, write: Append) -> None:
        """Begin and end the turn's spans by the events of a durable write."""
        ended = any(_ends(event, write.after.seq) for event in write.events)
        if self._visited is not None and write.events and (ended or not write.after.busy):
            before = write.before
            named = before.present_turn_id or ""
            self._span = self._begun(before, named, self._visited, {BEFORE: self._visited}, at_ms=before.updated_at)
        for event in write.events:
            match event:
                case events.TurnStarted(traceparent=str()) | events.CompactionStarted(traceparent=str()):
                    # what is cancelled before it begins has none
                    self._span, self._first = self._first, None
                case events.SuspensionSettled():
                    self._span, self._resumed = self._span or self._resumed, None
                case events.Compacted() if _ends(event, write.after.seq):
                    self._end("completed")
                case events.SummaryFailed() if _ends(event, write.after.seq):
                    self._end("failed", error=event.reason.value)
                case events.TurnCompleted():
                    self._end("completed")
                case events.TurnFailed():
                    self._end("failed", error="failed" if event.reason is None else event.reason.value)
                case events.TurnCancelled():
                    self._end("cancelled")
                case _:
                    pass
        if write.events and not write.after.busy:
            self._end("waiting")

    def told(self, notice: Notice) -> None:
        """Begin and end the span of a suspension that settled."""
        event, call = notice.event, notice.before
        if isinstance(event, events.CallSuspended) or call is None or call.suspension is None or not self._exports:
            return
        suspension, alone = call.suspension, self._settings.continuation is TraceContinuation.LINK
        who = event.principal
        said = {
            traces.CONVERSATION: self._conversation_id,
            traces.AGENT: notice.agent,
            traces.TOOL: call.tool,
            traces.CALL: call.tool_call_id,
            traces.SUSPENSION: suspension.suspension_id,
            traces.WAIT_KIND: suspension.kind.value,
            traces.WAIT_OUTCOME: event.by.value,
            traces.PROOF: None if who is None else who.proof.value,
            traces.DECIDED_BY: who.id if who is not None and self._settings.content else None,
        }
        span = traces.begin(
            f"holdfast.wait {call.tool}",
            said,
            parent=None if alone else suspension.traceparent,
            links={DECISION: _caller(notice.command)} | ({BEFORE: suspension.traceparent} if alone else {}),
            at_ms=suspension.created_at,
        )
        traces.end(span, ok=None if event.decision is None and event.by in NO_DECISIONS else True, at_ms=event.at)

    def left(self) -> None:
        """End the turn's span: the activation is over, or begins anew."""
        self._first = self._resumed = None
        self._end("left")

    def _goes_on(self, state: State, command: Command | None) -> Span:
        turn = state.turn
        before = None if turn is None else turn.latest or turn.traceparent
        if state.busy:  # the turn has not waited: another process takes it over
            return self._begun(state, state.present_turn_id or "", parent=before, links={BEFORE: before})
        first = None if turn is None or self._settings.continuation is TraceContinuation.LINK else turn.traceparent
        return self._begun(state, state.present_turn_id or "", parent=first, links={BEFORE: before, DECISION: _caller(command)})

    def _begun(
        self, state: State, turn: str, parent: str | None, links: dict[str, str | None] | None = None, at_ms: int | None = None
    ) -> Span:
        if parent is None and not self._exports:
            return INVALID_SPAN
        said = {
            traces.OPERATION: "invoke_agent",
            traces.AGENT: state.agent,
            traces.CONVERSATION: self._conversation_id,
            traces.TURN: turn,
        }
        return traces.begin(f"invoke_agent {state.agent}", said, parent=parent, links=links, at_ms=at_ms)

    def _end(self, outcome: str, *, error: str | None = None) -> None:
        span, self._span = self._span, None
        if span is not None:
            traces.say(span, {traces.TURN_OUTCOME: outcome, traces.ERROR: error})
            traces.end(span, ok=None if error is None else False)


def _caller(command: Command | None) -> str | None:
    return (
        command.traceparent if isinstance(command, Resolve | ResolveMany | CancelPending | CancelTurn | Revoke | End) else None
    )


def _ends(event: Event, last: int) -> bool:
    """Whether an event ends a turn, or a summary between turns; `last` is the place of the last event."""
    if isinstance(event, events.Compacted | events.SummaryFailed):
        return is_compaction_id(event.turn_id, last=last)
    return isinstance(event, events.TurnCompleted | events.TurnFailed | events.TurnCancelled)
