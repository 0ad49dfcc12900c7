"""What becomes of effects that fail for a reason which lies in their conversation: how often they may, and what is recorded."""

from holdfast.conversation import FailureReason, ModelFailed, ModelReplied, RunFinished
from holdfast.conversation.envelope import failure
from holdfast.errors import CorruptStore
from holdfast.redaction import PLAIN

UNEXPLAINED = 20
"""How often an effect may fail in a way that nothing explains: about a minute long."""
UNREADABLE = 5
"""How often one may fail because the store holds what cannot be read: that mends itself less often."""


class Failures:
    """Those of one effect in one activation."""

    def __init__(self) -> None:
        self._count = 0

    def unexplained(self, error: Exception) -> str | None:
        """Count an error that nobody foresaw; what to say of it once that is enough."""
        return self._counted(error, UNEXPLAINED)

    def waited(self, error: Exception) -> str | None:
        """Count an error that is waited out, if it says that something cannot be read; what to say once that is enough.

        What a newer release wrote can be read, by others.
        """
        # A worker may have found it: then Ray has wrapped what was raised there.
        reasons = (error, error.__cause__, getattr(error.__cause__, "cause", None))
        unreadable = next((reason for reason in reasons if isinstance(reason, CorruptStore)), None)
        return self._counted(unreadable, UNREADABLE) if unreadable is not None else None

    def _counted(self, error: Exception, allowed: int) -> str | None:
        self._count += 1
        return f"failed {self._count} times ({PLAIN.said(error, 300)})" if self._count >= allowed else None


def instead_of(outcome: ModelReplied | RunFinished, said: str) -> ModelFailed | RunFinished:
    """The outcome that is recorded where this one could not be judged or written; `said` is what that attempt raised."""
    problem = f"what came back cannot be recorded ({said})"
    if isinstance(outcome, ModelReplied):
        return ModelFailed(effect_id=outcome.effect_id, error=problem, reason=FailureReason.UNUSABLE)
    return RunFinished(effect_id=outcome.effect_id, ok=False, content=failure(problem))
