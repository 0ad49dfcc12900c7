"""Effects: the work that a state requires. An outcome is accepted only while its effect is outstanding."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.state import State, Status, Turn
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.spec import Executor
from holdfast.conversation.terms.turn_stats import TurnStats


@dataclass(frozen=True)
class BeginTurn:
    """Look up the agent's spec and the app's code in force, and begin the turn, or summary, that `message_seq` asks for."""

    kind: ClassVar = "begin_turn"
    effect_id: str
    message_seq: int


@dataclass(frozen=True)
class CallModel:
    """Call the model with the transcript up to and including `upto_seq`; the turn's message is at `message_seq`.

    `stopped` is the bound, in words, that the turn has reached: the model is asked for its last words, without tools. `stats`
    is what a turn has used whose agent has a `Stop`. The last summary is at `compacted_at` in the log, for what stands up to
    `boundary` (0: there is none). `compact`: somebody has asked for a summary, so it is made first, whatever the threshold.
    """

    kind: ClassVar = "call_model"
    effect_id: str
    spec_digest: str
    code: str
    upto_seq: int
    message_seq: int = 0
    stopped: str = ""
    stats: TurnStats | None = None
    boundary: int = 0
    compacted_at: int = 0
    compact: bool = False


@dataclass(frozen=True)
class RunTool:
    """Run a server call's callback, with the arguments in the event whose `seq` is `arguments_at`.

    A call of another `executor` is carried out elsewhere: the rules in force and the app's functions are asked, and no more.

    `attempt` is the number of the run, `resumed` counts the runs that followed a decision on a suspension of the previous run.
    `message_seq` is the turn's message, `decided_at` the decision that let the call run, `passed_at` the decision that the body
    is given (0: none). `rule` or `grants` let it run without asking. The run is claimed only if no grant was revoked since it
    was scheduled (`grants_epoch`), and before the first of its grants ends (`grants_until`). `granted_at` is the decision that
    gave the first grant; `givers` are pairs of a grant and the API key that gave it. `approvers` may decide the call;
    `fulfilled` are the terms under which it was approved (`()`: anybody could approve it; None: it was not).
    """

    kind: ClassVar = "run_tool"
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
    executor: Executor = Executor.SERVER

    @property
    def judges_only(self) -> bool:
        """Whether no body runs here: the call is carried out elsewhere, if the rules in force let it."""
        return self.executor is not Executor.SERVER


Effect: TypeAlias = BeginTurn | CallModel | RunTool


def outstanding(state: State) -> tuple[Effect, ...]:
    """The effects that must be under way: the turn's beginning, the model call or the runs."""
    if state.ended or state.seq == 0:
        return ()
    turn = state.turn
    if turn is None:
        if not state.queue:
            return ()
        return (BeginTurn(effect_id=f"begin:{state.queue[0].seq}", message_seq=state.queue[0].seq),)
    if state.status is Status.GENERATING:
        return (
            CallModel(
                effect_id=turn.model_effect_id,
                spec_digest=turn.spec_digest,
                code=turn.code,
                upto_seq=state.seq,
                message_seq=turn.message_seq,
                stopped="" if turn.stopping is None else turn.stopping.detail,
                stats=turn.stats,
                boundary=state.boundary,
                compacted_at=state.compacted_at,
                compact=bool(state.compacting) and turn.stopping is None,
            ),
        )
    return tuple(_run_tool(state, turn, call) for call in turn.calls.running())


def effect_of(state: State, effect_id: str) -> Effect | None:
    """The outstanding effect of that id; None if there is none."""
    if state.turn is not None and state.turn.calls.any_running:
        call = None if state.ended else state.turn.calls.run(effect_id)
        return None if call is None else _run_tool(state, state.turn, call)
    return next((effect for effect in outstanding(state) if effect.effect_id == effect_id), None)


def _run_tool(state: State, turn: Turn, call: Call) -> RunTool:
    given = [grant for grant in (state.grants if call.grants else ()) if grant.grant_id in call.grants]
    return call.carried(
        RunTool,
        effect_id=call.effect_id,
        spec_digest=turn.spec_digest,
        code=turn.code,
        turn_id=turn.turn_id,
        message_seq=turn.message_seq,
        grants_epoch=state.grants_epoch if call.grants else 0,
        grants_until=_until(state, call),
        granted_at=next((grant.seq for grant in given if grant.grant_id == call.grants[0]), 0),
        givers=tuple((grant.grant_id, grant.by.id) for grant in given if grant.by is not None and grant.by.proof is Proof.KEY),
    )


def _until(state: State, call: Call) -> int | None:
    """The earliest end (ms UTC) of the grants by which a call runs; None if all last, 0 if one is no longer in force."""
    standing = {grant.grant_id: grant.ends_at for grant in state.grants} if call.grants else {}
    ends = (standing.get(grant_id, 0) for grant_id in call.grants)
    return min((at for at in ends if at is not None), default=None)
