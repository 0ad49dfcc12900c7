"""Write docs/lifecycle.md from the machine itself: `python docs/lifecycle.py`.

The table is `holdfast.conversation.TABLE`. The diagram's arrows are found by walking the machine: every state that a few
representative commands lead to is built with `decide` and `evolve`, so an arrow stands there because a conversation took it.
"""  # noqa: INP001 - a script beside the pages it writes

import inspect
import re
from collections import deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from holdfast.conversation import (
    TABLE,
    AgentSpec,
    Answer,
    Approval,
    Approve,
    BeginTurn,
    CallModel,
    CancelTurn,
    Command,
    CompactNow,
    Decision,
    End,
    Executor,
    Interrupt,
    Limits,
    ModelFailed,
    ModelReplied,
    OnLost,
    Redispatch,
    Resolve,
    Review,
    RunFinished,
    RunSuspended,
    RunTool,
    Send,
    Start,
    State,
    Status,
    Stop,
    Summarized,
    SummaryFailure,
    SuspensionKind,
    ToolSpec,
    Wake,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.judging.table import Handled, Ignored, Refused
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, RunLost, TurnPrepared
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import HoldfastError

PAGE = Path(__file__).with_name("lifecycle.md")
LONGEST_WALK = 9
WORDS = {
    "start": "start",
    "send": "send",
    "interrupt": "interrupt",
    "compact": "compact",
    "resolve": "resolve",
    "cancel": "cancel",
    "end": "end",
    "turn_prepared": "turn cannot begin",
    "model_replied": "model replies",
    "model_failed": "model fails",
    "summarized": "model summarises",
    "run_finished": "run finishes",
    "run_suspended": "run asks for a review",
    "run_lost": "run is lost",
    "wake": "deadline passes",
}
"""The commands as the diagram names them."""

_TOOLS = (
    ToolSpec(name="look_up"),
    ToolSpec(name="ship", on_lost=OnLost.ERROR),
    ToolSpec(name="refund", approval=Approval.REQUIRED, on_lost=OnLost.ASK),
    ToolSpec(name="ask", executor=Executor.HUMAN),
    ToolSpec(name="camera", executor=Executor.CLIENT, approval=Approval.REQUIRED),
)
_SPEC = AgentSpec(name="support", model="openai/gpt-4o-mini", tools=_TOOLS)
_SPENT = _SPEC.model_copy(update={"limits": Limits(max_model_calls=1)})
_STOPPED = _SPEC.model_copy(update={"stop": Stop(rounds=1, errors=1, tool="look_up", timeout_s=60)})
_ASKED = _SPEC.model_copy(update={"stop": Stop(tool="ask")})
_TALKS = _SPEC.model_copy(update={"stop": Stop(errors=1, then="last_words")})
_ASKS = _SPEC.model_copy(update={"stop": Stop(errors=1, then="ask")})
_SPECS = {spec.digest: spec for spec in (_SPEC, _SPENT, _STOPPED, _ASKED, _TALKS, _ASKS)}
_ROUNDS = (("look_up",), ("ship",), ("refund",), ("ask",), ("camera",), ("look_up", "ask"))
_FIRST_ANSWER: dict[SuspensionKind, Decision] = {
    SuspensionKind.APPROVAL: Approve(),
    SuspensionKind.ELICITATION: Answer(1),
    SuspensionKind.CLIENT_EXEC: Answer(1),
    SuspensionKind.LOST: Redispatch(),
    SuspensionKind.REVIEW: Review("allow"),
    SuspensionKind.LIMIT: Approve(),
}


def edges() -> dict[tuple[Status, Status], list[str]]:
    """Each change of status, with the kinds of the commands that bring it about."""
    found: dict[tuple[Status, Status], list[str]] = {}
    first = State(conversation_id="c-1")
    seen = {_shape(first)}
    waiting = deque([(first, 0)])
    ids = (f"id-{number}" for number in count())
    while waiting:
        state, steps = waiting.popleft()
        for command in _commands(state, ids):
            after = _after(state, command)
            if after is None:
                continue
            if after.status is not state.status:
                kinds = found.setdefault((state.status, after.status), [])
                if command.kind not in kinds:
                    kinds.append(command.kind)
            if _shape(after) not in seen and steps < LONGEST_WALK:
                seen.add(_shape(after))
                waiting.append((after, steps + 1))
    return found


def _after(state: State, command: Command) -> State | None:
    """The state that a command leads to; None if it changes nothing."""
    now = (state.due_at or state.updated_at) + 1 if isinstance(command, Wake) else state.updated_at + 1
    try:
        judgement = decide(state, command.stamped(now, command.spec or _spec(state), {}))
    except HoldfastError:
        return None
    after = state
    for event in judgement.events:
        after = evolve(after, event)
    return after if judgement.events else None


def _spec(state: State) -> AgentSpec:
    """The spec that the turn runs with."""
    return _SPEC if state.turn is None else _SPECS.get(state.turn.spec_digest, _SPEC)


def _commands(state: State, ids: Iterator[str]) -> Iterator[Command]:
    yield Start(agent="support", app="app:app", text="Hello", message_id=next(ids))
    yield Send(text="Hello", message_id=next(ids))
    for call in state.calls:
        if call.suspension is not None:
            ruling = DecisionRecord.of(_FIRST_ANSWER[call.suspension.kind])
            yield Resolve(tool_call_id=call.tool_call_id, ruling=ruling, decision_id=next(ids))
    yield Interrupt(text="Hello", request_id=next(ids))
    yield CompactNow(request_id=next(ids))
    yield CancelTurn(request_id=next(ids))
    yield End(request_id=next(ids))
    for effect in outstanding(state):
        match effect:
            case BeginTurn():
                for spec in _SPECS.values():
                    yield TurnPrepared(effect_id=effect.effect_id, spec=spec)
                yield TurnPrepared(effect_id=effect.effect_id, problem="the agent is gone")
            case CallModel():
                yield ModelReplied(effect_id=effect.effect_id, content="Done.")
                for tools in _ROUNDS:
                    calls = tuple(ProposedCall(tool_call_id=next(ids), name=tool, arguments="{}") for tool in tools)
                    yield ModelReplied(effect_id=effect.effect_id, calls=calls)
                yield ModelFailed(effect_id=effect.effect_id, error="overloaded")
                yield Summarized(effect_id=effect.effect_id, failed=SummaryFailure.EMPTY)
            case RunTool():
                yield RunFinished(effect_id=effect.effect_id, ok=True, content='{"ok":true,"result":1}')
                yield RunSuspended(effect_id=effect.effect_id, title="Look at this")
                yield RunLost(effect_id=effect.effect_id)
    yield Wake()


def _shape(state: State) -> tuple[object, ...]:
    """What tells two states apart here; ids and counters do not."""
    calls = tuple((call.tool, call.status, call.suspensions) for call in state.calls if call.status is not CallStatus.RESOLVED)
    turn = state.turn
    terms = (turn.spec_digest, turn.rounds, turn.stopping is not None, turn.compacts) if turn is not None else ()
    by_hand = state.compacts_next or (turn is not None and turn.compacts)
    last = state.last.outcome if by_hand and state.last is not None else ""  # which is the status again behind it
    return state.status, terms, min(len(state.queue), 2), state.compacts_next, last, calls


def meanings() -> dict[Status, str]:
    """When each status holds, as the enumeration itself says it."""
    found = re.findall(r'= "(\w+)"  # (.+)', inspect.getsource(Status))
    return {Status(value): meaning for value, meaning in found}


def diagram() -> str:
    """The mermaid diagram of all changes of status but those that `end` makes from everywhere."""
    lines = ["stateDiagram-v2", "    [*] --> generating: start"]
    for (before, after), kinds in edges().items():
        if before is not Status.ABSENT and after is not Status.ENDED:
            lines.append(f"    {before} --> {after}: {', '.join(WORDS[kind] for kind in kinds)}")
    lines += [f"    {before} --> ended: end" for before, after in edges() if after is Status.ENDED]
    return "\n".join([*lines, "    ended --> [*]"])


def table() -> str:
    """`TABLE`, commands down and statuses across."""
    rows = [["command", *TABLE], ["---"] * (len(TABLE) + 1)]
    rows += [[f"`{kind}`", *(_cell(TABLE[status][kind]) for status in TABLE)] for kind in TABLE[Status.IDLE]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(rule: Handled | Refused | Ignored) -> str:
    match rule:
        case Handled():
            return "judged"
        case Refused(error):
            return f"`{error.__name__}`"
        case Ignored():
            return "ignored"


def reasons() -> str:
    """Why commands are ignored, each reason once."""
    found: dict[str, list[str]] = {}
    for row in TABLE.values():
        for kind, rule in row.items():
            if isinstance(rule, Ignored) and kind not in found.setdefault(rule.why, []):
                found[rule.why].append(kind)
    return "\n".join(f"- {', '.join(f'`{kind}`' for kind in kinds)}: {why}." for why, kinds in found.items())


def render() -> str:
    """The whole page."""
    statuses = "\n".join(f"| `{status}` | {meaning} |" for status, meaning in meanings().items())
    return f"""<!-- Written by docs/lifecycle.py: run it again after a change of the machine. -->

# The life of a conversation

A conversation is a log of events. Its state is what `evolve` folds from the log, `decide` judges each command against that
state, and `outstanding` says what must be going on now. All three are pure functions in `conversation/`; an actor only carries
them out. A live conversation and one that was just revived from its log therefore take the same path.

## Statuses

| status | when it holds |
| --- | --- |
{statuses}

`idle`, `awaiting_input`, `failed` and `ended` are the statuses in which a conversation rests: `wait` returns, and the actor may
leave. In the others something is going on that nobody has to ask for.

## Diagram

```mermaid
{diagram()}
```

Arrows that stay where they are (a `send` that queues during a turn, the first of two answers) are left out. A turn that is
about to begin counts as `generating`. A run that is lost leads on where its tool says `on_lost="error"`, and to a person where
it says `"ask"`; with `"redispatch"` it is scheduled again, and the status stays. The arrows from calls to `failed` are taken by
a turn that has used up its model calls (`Limits.max_model_calls`); those to `idle`, unless by a cancellation, by a turn that
[stops](stops.md). A model call that fails leads to `idle` if it was for such a turn's last words. A conversation that was
started for a [delegated](delegation.md) call goes to `ended` in the append that ends its first turn, however that ends; such a
call itself awaits another conversation, whose word (`tell`) settles it.

## Every command in every status

`judged` means that the command is looked at on its merits: it may still be refused, for a stale call or an answer that breaks
its schema. An error's name means that the command raises it and nothing is written. What is ignored changes nothing.
A command whose id was accepted before is answered with the first receipt, whatever the table says.

{table()}

What is ignored, and why:

{reasons()}
"""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
