"""Effects that fail for a reason in their own conversation: how often one may fail, and what is recorded in its place."""

from holdfast.conversation import FailureReason, ModelFailed, ModelReplied, RunFinished, RunRuled, RunSuspended
from holdfast.conversation.envelope import failure
from holdfast.errors import CorruptStore
from holdfast.redaction import PLAIN

UNEXPLAINED = 20
"""How many unexplained failures of an effect put its conversation in quarantine: its tries until then take about a minute."""
UNREADABLE = 5
"""How many failures put the conversation in quarantine if a record cannot be read, which mends itself less often."""


class Failures:
    """The count of one effect's failures in one activation."""

    def __init__(self) -> None:
        self._count = 0

    def unexplained(self, error: Exception) -> str | None:
        """Count an error that nobody foresaw; the reason for quarantine, None while the effect may be tried again."""
        return self._counted(error, UNEXPLAINED)

    def waited(self, error: Exception) -> str | None:
        """Count an error if its cause is `CorruptStore`; the reason for quarantine, None while the effect may be tried again.

        A record of a newer release does not count: processes of that release can read it.
        """
        # A worker may have met the unreadable record: then Ray has wrapped the error that was raised there.
        reasons = (error, error.__cause__, getattr(error.__cause__, "cause", None))
        unreadable = next((reason for reason in reasons if isinstance(reason, CorruptStore)), None)
        return self._counted(unreadable, UNREADABLE) if unreadable is not None else None

    def _counted(self, error: Exception, allowed: int) -> str | None:
        self._count += 1
        return f"failed {self._count} times ({PLAIN.said(error, 300)})" if self._count >= allowed else None


def instead_of(outcome: ModelReplied | RunFinished | RunSuspended | RunRuled, said: str) -> ModelFailed | RunFinished:
    """The failure to record in place of an outcome that could not be judged or written; `said` says what was raised then."""
    problem = f"what came back cannot be recorded ({said})"
    if isinstance(outcome, ModelReplied):
        return ModelFailed(effect_id=outcome.effect_id, error=problem, reason=FailureReason.UNUSABLE)
    return RunFinished(effect_id=outcome.effect_id, ok=False, content=failure(problem))
