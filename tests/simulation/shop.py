"""The app of the simulation: tools of every sort, whose bodies tell the ledger, and a model that is a function."""

import asyncio
import random
import zlib

from holdfast.actors.signature import sealed
from holdfast.agent import Agent, App, Suspend, Tool, ToolContext, delegate
from holdfast.conversation import (
    Answer,
    Approvers,
    Budget,
    Deny,
    Escalate,
    FailureReason,
    Limits,
    ModelFailed,
    ModelReplied,
    Review,
    Stop,
    Target,
)
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.sizes import budget_of, fixed_tokens, message_tokens
from holdfast.conversation.terms.context import Compact, Context
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.persistence import AppRecord

from .loop import PROCESS
from .voters import approvers

PATH = "shop:app"
CODE = "code-1"
PARAMETERS = {"type": "object", "properties": {"ms": {"type": "integer"}, "how": {"type": "string"}}}


class OutOfStock(Exception):
    """What a body raises."""


def _body(name):
    async def body(context: ToolContext, ms: int = 0, how: str = "") -> str:
        process = PROCESS.get()
        ledger = process.world.ledger
        _, effect_id = process.worker._claims._of_tasks[asyncio.current_task()].work
        number = int(effect_id.rpartition("#")[2])
        body = ledger.begun(process, context.conversation_id, context.tool_call_id, number, name)
        try:
            await asyncio.sleep(ms / 1000)
        finally:
            ledger.over(body)
        if how == "raise":
            raise OutOfStock(name)
        if how == "review":
            raise Suspend("look at it", payload={"ms": ms})
        if how == "pass":
            told = context.decision
            if not isinstance(told, Review) or told.verdict == "review":
                raise Suspend("may it?", resume="pass_to_tool", expires_s=7)
            return f"{name}: {told.verdict}"
        return f"{name} done"

    return body


def _server(name, **options):
    declared = {"targets": TOUCHES[name]} if name in TOUCHES else {}
    return Tool(name=name, description=name, parameters=PARAMETERS, callback=_body(name), **declared, **options)


def _outside(name, **options):
    return Tool(name=name, description=name, parameters=PARAMETERS, **options)


def _accounts(given):
    """One target, to read or to write as the arguments say; for one amount, one that can be read in two ways."""
    ms, how = given.get("ms", 0), given.get("how", "")
    return [Target("path", "a/../b") if ms == 6000 else Target("account", f"{ms}", level="read" if how == "raise" else "write")]


def _orders(given):
    """Two targets, which no one grant covers."""
    order = Target("order", f"o-{given.get('ms', 0)}", level="write")
    return [order, Target("depot", given.get("how", "none"), level="execute")]


TOUCHES = {
    "lookup": lambda given: [Target("order", f"o-{given.get('ms', 0)}", level="read")],
    "refund": _accounts,
    "reship": _orders,
}
"""What calls touch, by tool; the others do not say it."""
LATE = Escalate(
    Approvers("role:support", "role:finance", minimum=2), for_s=6, then=Escalate(["role:finance"], for_s=3, then=Deny("late"))
)
"""What follows when nobody decides about a refund."""
ANSWERS = {"type": ["string", "boolean", "null"]}
TOOLS_OF_ALL = [
    _server("lookup"),
    _server("charge", on_lost="error"),
    _server("refund", approval="required", approvers=approvers, on_timeout=LATE, reminders_s=[4, 1]),
    _server("reship", approval="required", on_lost="redispatch", approvers=approvers),
    _outside("ask", executor="human", response_schema=ANSWERS, on_timeout=Answer("nobody said"), reminders_s=[2]),
    _outside("locate", executor="client"),
    _outside("share", executor="client", approval="required"),
]
LIMITS = Limits(
    max_model_calls=6,
    approval_timeout_s=12,
    answer_timeout_s=9,
    client_timeout_s=60,
    run_timeout_s=4,
    model_timeout_s=4,
    descendants=5,
)
ASKED = {"desk": {"deadline_s": 5}, "clerk": {"deadline_s": 50, "approval": "required"}, "board": {"deadline_s": 80}}
"""The agents, and how each is asked by the others."""
EXECUTIONS = {"desk": "parallel", "clerk": "sequential", "board": "batch"}
STOPS = {
    "scout": Stop(rounds=2, cost_usd=0.3, errors=2, loop=3, timeout_s=9, then="last_words"),
    "runner": Stop(rounds=3, cost_usd=0.7, errors=3, tool="charge", timeout_s=14, waits=True),
}
"""The agents whose turns stop; nobody asks them for anything but people."""
ASKS = {
    "careful": Stop(rounds=2, cost_usd=0.3, errors=2, loop=3, timeout_s=9, then="ask"),
    "wary": Stop(rounds=1, errors=3, tool="charge", timeout_s=14, waits=True, then="ask"),
}
"""The agents whose turns ask whether they may go on."""
COSTS = (None, None, 0.0, 0.1, 0.1, 0.2, 0.35)
"""What an answer to such a turn costs, in US dollars."""
AGENTS = [
    Agent(
        name=name,
        tools=[*TOOLS_OF_ALL, *(delegate(other, **options) for other, options in ASKED.items() if other != name)],
        limits=LIMITS,
        execution=execution,
        client_grace_s=4,
    )
    for name, execution in EXECUTIONS.items()
]
TARGETS = (
    NotifySpec(name="ops", events=tuple(NoticeKind)),
    NotifySpec(name="ends", events=(NoticeKind.TURN_COMPLETED, NoticeKind.TURN_FAILED, NoticeKind.ENDED)),
)
STOPPING = [
    Agent(name="scout", tools=TOOLS_OF_ALL, limits=LIMITS, client_grace_s=4, stop=STOPS["scout"], budget=Budget(cost_usd=0.5)),
    Agent(
        name="runner",
        tools=TOOLS_OF_ALL,
        limits=LIMITS,
        client_grace_s=4,
        execution="sequential",
        stop=STOPS["runner"],
        budget=[Budget(cost_usd=1.2), Budget(cost_usd=2.5, per="day")],
    ),
]
ASKING = [
    Agent(name="careful", tools=TOOLS_OF_ALL, limits=LIMITS, client_grace_s=4, stop=ASKS["careful"]),
    Agent(name="wary", tools=TOOLS_OF_ALL, limits=LIMITS, client_grace_s=4, execution="batch", stop=ASKS["wary"]),
]
ALLOWED = {"temperature": (0, 1), "max_tokens": 100}
"""What messages may override, where they may."""
ROOM = 400
"""How many tokens the messages of a request may have in a window."""
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def _windowed(compact=None, **more):
    """An agent that sends the last messages of its conversations, and a summary of those before if it has `compact`."""
    said = {"tools": TOOLS_OF_ALL, "limits": LIMITS, "client_grace_s": 4, "overridable": ALLOWED, **more}
    fixed = fixed_tokens(Agent(**said).spec)
    budget = (fixed + ROOM) * 4 // 3  # a quarter is the answer's
    return Agent(**said, context=Context(budget=budget, keep=2, preview=None, compact=compact))


WINDOWED = [
    _windowed(name="teller"),
    _windowed(name="filer", reply=SHAPE, execution="sequential"),
    _windowed(name="chronicler", compact=Compact(at=0.6, timeout_s=2)),
]
"""The agents with a window; the second one replies in a shape, of the third one's conversations summaries are made."""
SUMMARISED = [
    _windowed(
        name="annalist",
        compact=Compact(at=0.9, timeout_s=2),
        stop=Stop(rounds=3, cost_usd=0.6, timeout_s=9, then="last_words"),
        budget=Budget(cost_usd=2.5, per="day"),
    ),
    _windowed(
        name="archivist",
        compact=Compact(at=0.9, timeout_s=2),
        execution="sequential",
        stop=Stop(rounds=2, errors=3, then="ask"),
        budget=Budget(cost_usd=2),
    ),
]
"""The agents of whose conversations people ask for summaries, beside one that makes none."""
AGENTS += STOPPING
AGENTS += WINDOWED
RULED = [*AGENTS]
"""The agents for which rules are published."""
AGENTS += ASKING
AGENTS += SUMMARISED
for agent in AGENTS:
    agent.spec = agent.spec.model_copy(update={"notify": TARGETS})
AGENT = AGENTS[0]
BY_NAME = {agent.name: agent for agent in AGENTS}
KEY = b"k" * 32
"""What records of the app are signed with; the store does not have it."""
APP = App(agents=AGENTS)
TOOLS = [tool.name for tool in TOOLS_OF_ALL] + ["refund", "ask", "share"]


def record(code, address, rules):
    """What stands for the app, with this version of its code and these rules, as its publisher signed it for that store."""
    agents = {agent.name: agent.spec.digest for agent in AGENTS}
    return sealed(KEY, address, AppRecord(app=PATH, code=code, agents=agents, rules=rules))


def agent_of(conversation_id, events=()):
    """The agent of a conversation, by its log; of one that has none yet, the agent that clients start it with.

    A half are with the desk; those of seeds with stops are with an agent whose turns stop, or ask first, of seeds with windows
    with one that has a window, of seeds in which people ask for summaries with one that makes them, mostly.
    """
    if events:
        return BY_NAME[events[0].agent]
    if conversation_id.startswith("s-"):
        return STOPPING[int(conversation_id.removeprefix("s-")) % 2]
    if conversation_id.startswith("q-"):
        return ASKING[int(conversation_id.removeprefix("q-")) % 2]
    if conversation_id.startswith("w-"):
        return WINDOWED[int(conversation_id.removeprefix("w-")) % len(WINDOWED)]
    if conversation_id.startswith("h-"):
        return [*SUMMARISED, WINDOWED[0]][int(conversation_id.removeprefix("h-")) % 3]
    return AGENTS[(0, 0, 1, 2)[zlib.crc32(conversation_id.encode()) % 4]]


def is_child(conversation_id):
    """Whether an id is that of a conversation that was started for a call of another one."""
    return conversation_id.startswith("d-")


class Model:
    """Answers as the seed and the transcript say: the same question, the same answer."""

    def __init__(self, seed, rng):
        self._seed = seed
        self._rng = rng
        self._tools = TOOLS
        self._most = rng.choice((1, 2, 3))
        self._talkative = rng.choice((0.2, 0.5, 0.8))
        self._slow = rng.choice((0.0, 0.0, 0.05))
        self._often = False
        self._words = ""
        self.lies = self.holds = 1

    def slow(self):
        """From now on, take seconds."""
        self._slow = 0.5

    def busy(self):
        """From now on, ask for many calls."""
        self._most, self._talkative = 3, 0.1

    def restless(self):
        """From now on, ask for calls again and again, and for the same ones."""
        self._most, self._talkative, self._often = 2, 0.05, True

    def brief(self):
        """From now on, mostly ask for no calls."""
        self._most, self._talkative = 1, 8

    def wordy(self):
        """From now on, make long replies."""
        self._words = " and so on" * 24

    def careful(self):
        """From now on, ask for calls that are to be approved, most of the time."""
        self._tools = [*TOOLS, *(name for name in ("refund", "refund", "reship") for _ in range(4))]

    def at_clients(self):
        """From now on, ask for calls that clients carry out, most of the time."""
        self._tools = [*self._tools, *(name for name in ("locate", "locate", "share") for _ in range(5))]

    def delegating(self):
        """From now on, ask other agents, too."""
        self._tools = [*self._tools, *(f"ask_{name}" for name in ASKED for _ in range(len(self._tools) // 3))]

    def seconds(self):
        draw = self._rng.random
        return draw() * (10 if draw() < self._slow else 0.5)

    def answer(self, request, messages, spec):
        """The answer to what a worker sends for an agent, whose spec has the overrides of the turn's message."""
        return self.to(request.conversation_id, request.effect_id, messages, spec)

    def to(self, conversation_id, effect_id, messages, spec):
        """The one answer to these messages, with these model options."""
        asked = repr([(message["role"], message["content"]) for message in messages])
        said = zlib.crc32((asked + ("" if spec.overridable is None else spec.model_options)).encode())
        rng = random.Random(f"{self._seed}/{conversation_id}/{said}")
        rounds = 0
        for message in reversed(messages):
            if message["role"] == "user":
                break
            rounds += message["role"] == "assistant"
        if rng.random() < 0.03:
            return ModelFailed(effect_id=effect_id, error="the model is overloaded")
        if spec.context is not None and _tokens(spec, messages) > budget_of(spec) * self.holds:
            return ModelFailed(effect_id=effect_id, error="it is too long", reason=FailureReason.CONTEXT_OVERFLOW)
        if not spec.tools:
            return self._summary(rng, effect_id, messages, spec)
        talkative = max(self._talkative, 6 if spec.reply is not None else 2 if is_child(conversation_id) else 0)
        if rounds >= 4 or rng.random() < talkative * (0.1 + rounds / 4):
            reply = f"reply {rng.randrange(1000)}{self._words}"
            return self._answered(
                effect_id, messages, spec, **({"content": reply} if spec.reply is None else _shaped(rng, reply))
            )
        calls = tuple(self._call(rng, number) for number in range(rng.randint(1, self._most)))
        return self._answered(effect_id, messages, spec, calls=calls)

    def _answered(self, effect_id, messages, spec, **said):
        """An answer, with what the provider counts."""
        if self._often:
            said |= {"output_tokens": 7, "cost_usd": _cost(effect_id, messages, said)}
        if spec.context is not None:
            said["input_tokens"] = int(_tokens(spec, messages) * self.lies)
        return ModelReplied(effect_id=effect_id, **said)

    def _summary(self, rng, effect_id, messages, spec):
        """Notes, with what they cost where a budget counts that."""
        said = _notes(rng)
        if self._often and BY_NAME[spec.name].spec.budgets:
            said |= {"output_tokens": 7, "cost_usd": _cost(effect_id, messages, said)}
        return ModelReplied(effect_id=effect_id, **said)

    def _call(self, rng, number):
        call_id = rng.choice(("call_1", f"call_{rng.randrange(1000)}", f"call_{rng.randrange(1000)}", ""))
        ms = rng.choice((0, 50, 300, 1000, 3000, 6000))
        how = rng.choice(("ok", "ok", "ok", "raise", "review", "pass"))
        if self._often:
            ms, how = rng.choice((50, 300, 3000)), rng.choice(("ok",) * 5 + ("raise",))
        arguments = f'{{"ms":{ms},"how":"{how}"}}' if rng.random() < 0.95 else '{"ms":'
        name = rng.choice(self._tools) if rng.random() < 0.98 else "unheard_of"
        if name.startswith("ask_"):
            arguments = f'{{"task":"{"" if how == "raise" else f"do {ms}"}"}}'
        return ProposedCall(tool_call_id=call_id, name=name, arguments=arguments)


def _tokens(spec, messages):
    return fixed_tokens(spec) + sum(map(message_tokens, messages))


def _cost(effect_id, messages, said):
    return COSTS[zlib.crc32(repr((effect_id, len(messages), said)).encode()) % len(COSTS)]


def _notes(rng):
    """Notes that are short, too long or none, or calls in place of notes."""
    if rng.random() < 0.1:
        return {"calls": (ProposedCall(tool_call_id="", name="lookup", arguments="{}"),)}
    notes = f"notes {rng.randrange(1000)}"
    return {"content": rng.choice((notes, notes, notes, notes * 300, " "))}


def _shaped(rng, otherwise):
    """An object that fits a shape or does not, or another reply, as a text or as calls."""
    replies = [rng.choice(('{"n":7}', '{"n":"many"}', otherwise)) for _ in range(rng.choice((1, 1, 1, 2)))]
    if rng.random() < 0.5:
        return {"content": replies[0]}
    return {"calls": tuple(ProposedCall(tool_call_id="", name=FINAL_ANSWER, arguments=reply) for reply in replies)}
