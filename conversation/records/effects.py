"""Effects: the work that the machine wants done. An outcome is accepted only while its effect's id is outstanding."""

from typing import Literal, TypeAlias

from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms


class BeginTurn(Record):
    """Look up the agent's spec and the app's code in force, and begin the turn of the message at `message_seq`."""

    kind: Literal["begin_turn"] = "begin_turn"
    effect_id: str
    message_seq: int


class CallModel(Record):
    """Call the model with the transcript up to and including `upto_seq`; the turn's message is at `message_seq`."""

    kind: Literal["call_model"] = "call_model"
    effect_id: str
    spec_digest: str
    code: str
    upto_seq: int
    message_seq: int = 0


class RunTool(Record):
    """Run a server call's callback, with the arguments in the event whose `seq` is `arguments_at`.

    `attempt` is the number of the run, `resumed` counts the runs that followed a decision on a suspension of the previous run.
    `message_seq` is the turn's message, `decided_at` the decision that let the call run, `passed_at` the decision that the body
    is given (0: none). `rule` names the permission rule by which it runs without asking, `grants` the grants. The run is
    claimed only if no grant was revoked since (`grants_epoch`), and before the first of them ends. `granted_at` is the decision
    that gave the first grant; `givers` are the grants by holders of API keys, as pairs of grant and holder's name. `approvers`
    may decide the call; `fulfilled` are the terms by which people have approved it (`()`: anybody might, None: not approved).
    """

    kind: Literal["run_tool"] = "run_tool"
    effect_id: str
    spec_digest: str
    code: str
    turn_id: str
    tool_call_id: str
    tool: str
    attempt: int
    arguments_at: int
    message_seq: int = 0
    resumed: int = 0
    decided_at: int = 0
    rule: str = ""
    grants: tuple[str, ...] = ()
    grants_epoch: int = 0
    grants_until: int | None = None
    approvers: ApproverTerms | None = None
    fulfilled: tuple[ApproverTerms, ...] | None = None
    passed_at: int = 0
    granted_at: int = 0
    givers: tuple[tuple[str, str], ...] = ()


Effect: TypeAlias = BeginTurn | CallModel | RunTool
