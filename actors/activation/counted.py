"""Counting what an activation decided. It counts only what it has written itself, so that a takeover counts nothing twice."""

from holdfast import metrics
from holdfast.conversation import State
from holdfast.conversation.ids import is_compaction_id
from holdfast.conversation.records import events
from holdfast.counting import Counts
from holdfast.errors import Fenced, HoldfastError, StaleCall
from holdfast.persistence import Append, TakeoverReason

from .notices import Notice


class Counted:
    """The counts of one activation, added to those of its process."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def taken_over(self, state: State, because: TakeoverReason) -> None:
        """Count a takeover."""
        self._counts.add(metrics.ACTIVATIONS, because.value if state.seq else "new")

    def written(self, write: Append) -> None:
        """Count the events of a durable write, except those of suspensions, which come as notices."""
        counts, agent = self._counts, write.after.agent
        for event in write.events:
            match event:
                case events.ConversationStarted():
                    counts.add(metrics.STARTED, agent)
                    if event.parent is not None:
                        counts.add(metrics.CHILDREN_STARTED, agent)
                case events.Ended() if write.after.parent is not None:
                    counts.add(metrics.CHILDREN_ENDED, agent)
                case events.MessageAccepted():
                    counts.add(metrics.MESSAGES, agent)
                case events.Compacted():
                    counts.add(metrics.SUMMARIES, agent, "compacted")
                case events.SummaryFailed():
                    counts.add(metrics.SUMMARIES, agent, event.reason.value)
                case events.TurnCompleted():
                    counts.add(metrics.TURNS, agent, "completed")
                    if event.stopped is not None:
                        counts.add(metrics.STOPPED, agent, event.stopped.value)
                case events.TurnFailed():
                    counts.add(metrics.TURNS, agent, event.reason.value if event.reason is not None else "failed")
                case events.TurnCancelled() if is_compaction_id(event.turn_id, last=write.after.seq):
                    counts.add(metrics.SUMMARIES, agent, "cancelled")
                case events.TurnCancelled():
                    counts.add(metrics.TURNS, agent, "cancelled")
                case _:
                    pass

    def told(self, notice: Notice) -> None:
        """Count a suspension that opened or settled, and how long the decision was waited for."""
        event, agent = notice.event, notice.agent
        if isinstance(event, events.CallSuspended):
            self._counts.add(metrics.SUSPENDED, agent, event.tool, event.suspension_kind.value)
        elif notice.before is not None and (suspension := notice.before.suspension) is not None:
            self._counts.add(metrics.SETTLED, agent, suspension.kind.value, event.by.value)
            if event.decision is not None:
                self._counts.observe(metrics.WAIT, (event.at - suspension.created_at) / 1000, agent, suspension.kind.value)

    def refused(self, error: HoldfastError, agent: str) -> None:
        """Count a refusal of a command."""
        match error:
            case StaleCall():
                self._counts.add(metrics.STALE, agent, error.reason.value)
            case Fenced():
                self._counts.add(metrics.FENCED)
            case _:
                pass
