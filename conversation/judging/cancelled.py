"""What the model reads of calls that were cancelled."""

from holdfast.conversation.records.calls import Call
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.spec import Executor

CANCELLED = "cancelled before it was answered; it did not run"
CANCELLED_RUN = "cancelled while it ran; it may or may not have taken effect"
CANCELLED_CLIENT = "cancelled before the client reported a result; it may or may not have taken effect"
AT_CLIENTS = (SuspensionKind.CLIENT_EXEC, SuspensionKind.LOST)
"""The kinds of suspension in which a client's call may have been executed."""
CANCELLED_AGENT = "cancelled before the agent that was asked answered; what it did until then stands"


def why_cancelled(call: Call, reason: str = "") -> str:
    """The error text that tells the model why a call was cancelled, and whether it may have run.

    A lost run may have taken effect, and so may a client's call, whose execution Holdfast does not see. An agent that was asked
    may have done a part.
    """
    kind = None if call.suspension is None else call.suspension.kind
    if call.executor is Executor.CLIENT:
        what = CANCELLED_CLIENT if call.claims or kind in AT_CLIENTS else CANCELLED
    elif kind is SuspensionKind.DELEGATE:
        what = CANCELLED_AGENT
    else:
        what = CANCELLED_RUN if call.attempt else CANCELLED
    return f"{what}: {reason}" if reason else what
