"""What it costs that a call is gated: bytes of a turn and of its snapshot, the decision, and the gate before each run.

A way to decide about a call is an entry of `WAYS`: a further one is a further line of each table.
"""

import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from rich.progress import track
from writer import NextCommand, Writer, begin, call, finish, reply, resolve, send, start

from benchmarks import rules, stack, store_drive
from benchmarks.result import Part, Row, Table, number
from holdfast.actors.worker.gate import Gate, required_again, stopped
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, Rules, Tool, TurnContext
from holdfast.agent.coverage import readings_of
from holdfast.conversation import Approve, Approvers, ApproverTerms, Level, Principal, Proof, Scope
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.approvers import MOST_VOTES
from holdfast.conversation.terms.grants import MOST_GRANTS, CallTarget
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.persistence import AppRecord, RedisStore, codec

ARGUMENTS = '{"order":"A-1042","amount":40}'
GATED, UNGATED = "refund", "lookup"
ALLOWED = RuleVerdict(effect=RuleEffect.ALLOW, rule="small refunds")
ASKED = RuleVerdict(effect=RuleEffect.ASK, rule="refunds", reason="Somebody of finance looks at it.")
GATE_MUST_BE_MS, NOTHING, MOST_BESIDE = 0.5, 0.05, 1.5
APP = "shop:app"
CLAIMS = 20
"""How many claims, and passes of each kind of call, there are in a round."""
ROUND = 200
"""How many passes of the gate one sample of its processor time has: a single one is shorter than the clock's grain."""


def asked(
    tool: str, *, ruled: RuleVerdict | None = None, path: str | None = None, approvers: ApproverTerms | None = None
) -> NextCommand:
    """The model asks for a call of a tool, as the worker has judged it."""
    targets = None if path is None else (CallTarget(kind="path", value=path, level=Level.WRITE),)
    return lambda state: call(
        ProposedCall(
            tool_call_id=f"call_{state.seq + 1}",
            name=tool,
            arguments=ARGUMENTS,
            ruled=ruled,
            targets=targets,
            approvers=approvers,
        )
    )(state)


def vote(number_of: int) -> NextCommand:
    """Somebody agrees."""
    return resolve(Approve(), principal=Principal(f"person-{number_of}", roles=["finance"], proof=Proof.OIDC))


def votes(count: int) -> "Way":
    """So many people agree to a call."""
    terms = Approvers("role:finance", minimum=count).terms
    decisions = tuple(partial(vote, number_of) for number_of in range(count))
    return Way(f"{count} people agree to it", lambda: asked(GATED, approvers=terms), decisions)


@dataclass(frozen=True, slots=True)
class Way:
    """How a turn's one call is decided: by nobody, or by these steps, in a conversation with so many grants."""

    name: str
    proposal: Callable[[], NextCommand]
    decisions: Sequence[Callable[[], NextCommand]] = ()
    grants: int = 0


def approval() -> NextCommand:
    """Somebody lets the call run."""
    return resolve(Approve(reason="it is due"))


WAYS = (
    Way("nobody is asked", lambda: asked(UNGATED)),
    Way("a rule allows it", lambda: asked(GATED, ruled=ALLOWED)),
    Way("an approval", lambda: asked(GATED), (approval,)),
    Way("an approval that a rule asks for", lambda: asked(UNGATED, ruled=ASKED), (approval,)),
    Way("a grant covers it", lambda: asked(GATED, path="src/part-0/page.py"), grants=1),
    Way("one of 64 grants covers it", lambda: asked(GATED, path="src/part-63/page.py"), grants=MOST_GRANTS),
    votes(2),
    votes(MOST_VOTES),
    Way("an approval beside 64 grants", lambda: asked(GATED, path="lib/page.py"), (approval,), grants=MOST_GRANTS),
)
BARE, APPROVED, COVERED, BESIDE = (
    next(way.name for way in WAYS if way.name == name)
    for name in ("nobody is asked", "an approval", "one of 64 grants covers it", "an approval beside 64 grants")
)


@dataclass(slots=True)
class Turns:
    """What the turns of one way took: bytes and milliseconds, a value for each turn."""

    written: list[int] = field(default_factory=list)
    log: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    decided_ms: list[float] = field(default_factory=list)


async def opened(store: RedisStore, number_of: int, way: Way) -> Writer:
    """A conversation that rests after its first turns, in which the way's grants were given."""
    writer = await Writer.of(store, f"way-{number_of}")
    await writer.do(start(app=APP), begin(), reply("Hello."))
    for granted in range(way.grants):
        scope = Scope("path", f"src/part-{granted}/**", level="write")
        await writer.do(send(), begin(), asked(GATED, path=f"src/part-{granted}/a.py"))
        await writer.do(resolve(Approve(scope=scope)))
        await writer.do(finish())
        await writer.do(reply("Done."))
    assert len(writer.state.grants) == way.grants
    writer.events.clear()
    return writer


async def turn(writer: Writer, way: Way, found: Turns) -> None:
    """A turn of one call, each command an append of its own, as an actor writes them."""
    before = await store_drive.written_bytes(writer.store)
    await writer.do(send("Refund it."))
    await writer.do(begin())
    await writer.do(way.proposal())
    found.open.append(len(codec.encode(writer.state)))
    for decision in way.decisions:
        began = time.perf_counter()
        await writer.do(decision())
        found.decided_ms.append((time.perf_counter() - began) * 1000)
    await writer.do(finish())
    await writer.do(reply("It is refunded."))
    found.written.append(await store_drive.written_bytes(writer.store) - before)
    found.log.append(sum(len(codec.encode(event)) for event in writer.events))
    found.rest.append(len(codec.encode(writer.state)))
    writer.events.clear()


async def turns(home: Path, count: int) -> dict[str, Turns]:
    """Turns of all ways, one of each after the other, so that the machine treats them alike; nothing else writes meanwhile."""
    found = {way.name: Turns() for way in WAYS}
    async with store_drive.opened(home, "gating") as (_, store):
        await store._redis.config_set("auto-aof-rewrite-percentage", 0)
        writers = [await opened(store, place, way) for place, way in enumerate(WAYS)]
        for _ in track(range(count), "turns", console=stack.console, transient=True):
            for way, writer in zip(WAYS, writers, strict=True):
                await turn(writer, way, found[way.name])
    return found


def request(tool: str) -> RunRequest:
    """A run that nobody was asked about."""
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="bench",
        spec_digest="digest",
        effect_id="call_1#1",
        turn_id="t1",
        tool_call_id="call_1",
        tool=tool,
        attempt=1,
        arguments_at=3,
    )


AGENT = Agent(
    name="bench",
    tools=[
        Tool(
            name=tool,
            parameters={"type": "object", "properties": {name: {} for name in arguments}},
            callback=lambda **_: "done",
            primary=rules.PRIMARY.get(tool),
        )
        for tool, arguments in dict(rules.CALLS.values()).items()
    ],
)


TURN = TurnContext(conversation_id="c-1", agent="bench")


def passed(in_force: Rules | None, run: RunRequest, arguments: dict) -> None:
    """What a worker decides right before it claims a run."""
    required = required_again(AGENT, run, arguments, TURN)
    assert stopped(in_force, AGENT, run, arguments, required=required) is None or in_force


async def ungated(gate: Gate, samples: dict[str, list[float]]) -> None:
    """The gate where no rules are in force, as often as it reads them anew between, and one such reading."""
    tool, arguments = rules.CALLS["a short command"]
    run = request(tool)
    began = time.process_time_ns()
    await gate._look()
    samples["reading"].append(processor_ms(began))
    began = time.process_time_ns()
    for _ in range(ROUND):
        in_force, _until = await gate.begin_by("bench")
        passed(in_force, run, arguments)
    samples["without rules"].append(processor_ms(began, ROUND))


async def claimed(store: RedisStore, name: str, samples: dict[str, list[float]]) -> None:
    """What the gate stands before: claims of runs, each of which nobody was asked about."""
    writer = await Writer.of(store, name)
    await writer.do(start(app=APP), begin(), call(*[UNGATED] * CLAIMS))
    for effect_id in writer.effect_ids:
        began = time.process_time_ns()
        assert await store.claim(name, effect_id, incarnation="i-1", worker="w-1")
        samples["the claim"].append(processor_ms(began))


async def dispatched(home: Path, rounds: int) -> dict[str, list[float]]:
    """The processor time of the gate before a run, and of the claim after it, in milliseconds."""
    samples: dict[str, list[float]] = {
        "the claim": [],
        "reading": [],
        "without rules": [],
        **{name: [] for name in rules.CALLS},
    }
    async with store_drive.opened(home, "dispatch") as (_, store):
        await store.put_app(AppRecord(app=APP, code="code-1"), [])
        gate, given = Gate(store, lambda: store.app(APP)), rules.rules()
        gc.collect()
        for number_of in track(range(rounds), "gate", console=stack.console, transient=True):
            await claimed(store, f"claims-{number_of}", samples)
            await ungated(gate, samples)
            for name, (tool, arguments) in rules.CALLS.items():
                run = request(tool)
                for _ in range(CLAIMS):
                    readings_of.cache_clear()
                    given.verdict(tool, json.dumps(arguments), primary=rules.PRIMARY.get(tool))  # as it was proposed
                    began = time.process_time_ns()
                    passed(given, run, arguments)
                    samples[name].append(processor_ms(began))
    return samples


def processor_ms(began: int, passes: int = 1) -> float:
    """Milliseconds of processor time since then, for each of so many passes."""
    return (time.process_time_ns() - began) / 1e6 / passes


def measure(*, quick: bool) -> Part:
    """The goals, a table of the turns' bytes, one of the gate."""
    count, rounds = (12, 4) if quick else (200, 40)
    with stack.home() as home:
        found = asyncio.run(turns(home, count))
        samples = asyncio.run(dispatched(home, rounds))
    p50 = {name: statistics.median(each) for name, each in samples.items()}
    dearest = max(rules.CALLS, key=p50.__getitem__)
    return Part(
        rows=[
            *_gate_goals(p50, dearest, samples),
            *_turn_goals(found),
        ],
        tables=[_turn_table(found), _gate_table(samples)],
        raw={"turns": {name: asdict(one) for name, one in found.items()}, "gate": samples},
    )


def _gate_goals(p50: dict[str, float], dearest: str, samples: dict[str, list[float]]) -> list[Row]:
    without, claim, hundred = p50["without rules"], p50["the claim"], p50[dearest]
    none = "processor time of the gate before a run without rules, against the run's claim (p50)"
    many = "processor time of the gate before a run with 100 rules, for the dearest kind of call (p50)"
    return [
        Row(none, without, "ms", claim, without / claim, NOTHING, ROUND * len(samples["without rules"])),
        Row(many, hundred, "ms", GATE_MUST_BE_MS, hundred / GATE_MUST_BE_MS, 1.0, len(samples[dearest])),
    ]


def _turn_goals(found: dict[str, Turns]) -> list[Row]:
    beside, alone = (statistics.median(found[name].decided_ms) for name in (BESIDE, APPROVED))
    late, early = found[COVERED].written[-1], found[COVERED].written[1]
    count = len(found[COVERED].written)
    decided = "an approval beside 64 grants, judged and written, against one without (p50)"
    flat = f"bytes written by turn {count} under 64 grants, snapshot included, against turn 2"
    return [
        Row(decided, beside, "ms", alone, beside / alone, MOST_BESIDE, count),
        Row(flat, late, "B", early, late / early, 1.1, 1),
    ]


def _turn_table(found: dict[str, Turns]) -> Table:
    bare = statistics.median(found[BARE].written)
    lines = []
    for name, one in found.items():
        written, log, waits, rest = (statistics.median(each) for each in (one.written, one.log, one.open, one.rest))
        decided = f"{number(statistics.median(one.decided_ms))} ms" if one.decided_ms else "-"
        sizes = [f"{value:,.0f} B" for value in (written, log, waits, rest)]
        lines.append([name, sizes[0], f"{written / bare:.2f}", *sizes[1:], decided])
    columns = [
        "the turn's one call",
        "written",
        "ratio",
        "its log entries",
        "snapshot with it open",
        "snapshot after it",
        "decision",
    ]
    return Table("A turn of one call, by how it is decided (median)", columns, lines)


def _gate_table(samples: dict[str, list[float]]) -> Table:
    names = {
        "the claim": "the claim of a run, for comparison",
        "reading": "reading which rules are in force, at most twice a second",
        "without rules": "the gate without rules",
    }
    lines = []
    for name, each in samples.items():
        p99 = statistics.quantiles(each, n=100)[98]
        said = names.get(name, f"the gate with 100 rules: {name}")
        lines.append([said, f"{statistics.median(each):.3f} ms", f"{p99:.3f} ms"])
    return Table("Processor time of a worker before a run", ["what", "p50", "p99"], lines)
