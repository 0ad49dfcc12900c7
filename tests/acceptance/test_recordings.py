"""The recorded conversations, through the public client, on real Ray, real Redis and real litellm over HTTP.

All 200 are held with one approval a call. The other ways to decide are tried with those that have most to decide, and before a
release with all of them.
"""

import asyncio
import contextlib
import json
import os
from collections import Counter

import pytest
import recorded_app
from oracle import Oracle
from recorded_play import answers_of, play, shown, unique_ids
from stack_fixture import Scenarios, end_stack, start_stack

from holdfast.client import Approve, AsyncClient
from holdfast.conversation import SettledBy
from holdfast.conversation.terms.grants import Scope, Target
from holdfast.persistence import RedisStore
from holdfast.registry.inventory import processes
from holdfast.registry.pool import RESERVE
from holdfast.testing import ModelServer

AT_ONCE = 12
SAMPLE, FEW, OF_SAMPLE_AT_ONCE = 6, 2, 4
"""How many conversations of the airline, and how many parallel turns, stand for all; how many of them are held side by side."""
MODEL_S = 0.3
TIGHT = 0.6
"""How full a window is, at least, that is as large as what it holds."""
TWO_ACTORS = {"HOLDFAST_MAX_ACTORS": "2"}
"""Settings with which a conversation is left wherever its model is slower than that."""

pytestmark = pytest.mark.skipif(
    not recorded_app.DATA.is_dir() and not os.environ.get("CI"), reason="the recordings are not beside the checkout"
)


def all_or(number, name):
    """A test with all recordings, before a release, and with some of either sort, in the gate."""
    some = pytest.param(number, id=name, marks=pytest.mark.gate)
    return pytest.mark.parametrize("chosen", [pytest.param(None, id="all", marks=pytest.mark.slow), some], indirect=True)


each_way = all_or(SAMPLE, "sample")


@pytest.fixture(scope="module")
def recordings():
    return recorded_app.recordings()


@pytest.fixture(scope="module")
def stack(recordings):
    """A stack whose model replays the recordings, for all tests that need no settings of their own."""
    with replaying(recordings) as running:
        yield running


@pytest.fixture
def chosen(request, recordings):
    """The recordings that a test holds: all, or of either sort so many in which most calls are to be decided."""
    number = request.param
    if number is None:
        return recordings
    decided = {name: len(gated(recording)) for name, recording in recordings.items()}
    most = sorted(recordings, key=lambda name: (-decided[name], name))
    parallel = [name for name in most if "tools" in recordings[name]]
    airline = [name for name in most if "tools" not in recordings[name]]
    return {name: recordings[name] for name in (*airline[:number], *parallel[:number])}


def gated(recording):
    """The recorded calls that somebody has to approve, each with its tool's declaration."""
    specs = {spec["name"]: spec for spec in recorded_app.tools_of(recording)}
    calls = [(specs[call["name"]], call) for call in recorded_app.calls_of(recording["messages"])]
    return [(spec, call) for spec, call in calls if recorded_app.is_gated(spec)]


@contextlib.asynccontextmanager
async def opened(stack):
    """The store of a stack."""
    store = RedisStore(stack.redis_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def replaying(recordings, **settings):
    """A stack whose model replays the recordings."""
    with ModelServer(replay=[recording["messages"] for recording in recordings.values()]) as model:
        stack = start_stack(model, Scenarios(), **settings)
        recorded_app.RUNS = stack.runs
        try:
            yield stack
        finally:
            end_stack(stack)


def asked_of_the_model(recording):
    """How often the model is asked in a recording; where it ends with a tool's message, once in vain."""
    roles = [message["role"] for message in recording["messages"]]
    return roles.count("assistant") + (roles[-1] == "tool")


async def held(client, recordings, way="", **how):
    """The recorded conversations, held again in one of `recorded_app.WAYS`, with which their ids begin; transcripts by id."""
    slots = asyncio.Semaphore(AT_ONCE if len(recordings) > 2 * SAMPLE else OF_SAMPLE_AT_ONCE)

    async def one(name: str) -> list[dict]:
        async with slots:
            return await play(client, name, recordings[recorded_app.recording_of(name)], **how)

    names = sorted(f"{way}:{name}" if way else name for name in recordings)
    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def equal(stack, recordings, transcripts, *, executors=("server",)):
    """Each conversation ended with its own transcript, and each run at these executors happened once."""
    for name, messages in transcripts.items():
        found = recordings[recorded_app.recording_of(name)]
        recording = found["messages"]
        unique = unique_ids(recording)
        assert shown(messages, unique, recorded=False) == shown(recording, unique, recorded=True), name
        log = stack.runs / name
        runs = [json.loads(line)["key"] for line in log.read_text().splitlines()] if log.exists() else []
        there = {tool["name"] for tool in recorded_app.tools_of(found) if tool["executor"] in executors}
        ran = [call["id"] for call in asked_in(messages) if call["function"]["name"] in there]
        assert sorted(runs) == sorted(ran), name


def asked_in(messages):
    """The calls of a transcript."""
    return [call for message in messages for call in message.get("tool_calls") or []]


async def counted(store, names, counts):
    """How many events in the log of each conversation count."""
    logs = {name: await Oracle(store, recorded_app.RUNS).events(name) for name in names}
    return {name: sum(map(counts, log)) for name, log in logs.items()}


def approves(event):
    """Whether an event is somebody's approval; what a grant has settled is none."""
    return event.kind == "suspension_settled" and event.by == SettledBy.APPROVE


@pytest.mark.gate
@pytest.mark.timeout(900)
async def test_every_recorded_conversation_ends_with_its_own_transcript_and_each_run_happened_once(stack, recordings):
    async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:
        transcripts = await held(client, recordings)
    equal(stack, recordings, transcripts)


@each_way
@pytest.mark.timeout(900)
async def test_under_rules_that_ask_instead_of_the_tools_the_transcripts_are_the_same(stack, recordings, chosen):
    asked_by = Counter()

    def approve(call):
        asked_by[call.conversation_id, call.rule] += 1
        return Approve()

    async with AsyncClient.connect("recorded_app:ways", timeout_s=120) as client:
        transcripts = await held(client, chosen, "ruled", approve=approve)

    equal(stack, recordings, transcripts)
    assert asked_by == Counter(
        (f"ruled:{name}", f"asks about {spec['name']}") for name, recording in chosen.items() for spec, _ in gated(recording)
    )


@each_way
@pytest.mark.timeout(900)
async def test_with_each_second_message_steered_the_transcripts_are_the_same(stack, recordings, chosen):
    several = {name: recording for name, recording in chosen.items() if len(answers_of(recording["messages"])) > 1}
    stack.model.slow(first_token_s=MODEL_S / 3)
    try:
        async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:
            transcripts = await held(client, several, "steered", steer=True)
            turns = {name: await client.conversation(name).turns() for name in transcripts}
    finally:
        stack.model.clear()
    equal(stack, recordings, transcripts)
    second = sum(len(answers_of(recording["messages"])) // 2 for recording in several.values())
    joined = sum(len(turn.joined) for held_ones in turns.values() for turn in held_ones)
    assert second >= joined > second / 2, "the others came after the answer, and were queued"


@all_or(FEW, "few")
@pytest.mark.timeout(900)
async def test_with_all_tools_at_attached_clients_the_transcripts_are_the_same_and_each_call_is_claimed_once(
    stack, recordings, chosen
):
    async with AsyncClient.connect("recorded_app:ways", timeout_s=120) as client:
        transcripts = await held(client, chosen, "attached", attach=True)
    async with opened(stack) as store:
        claims = await counted(store, transcripts, lambda event: event.kind == "call_claimed")
        approvals = await counted(store, transcripts, approves)

    equal(stack, recordings, transcripts, executors=("server", "client", "human"))
    assert claims == {name: len(asked_in(messages)) for name, messages in transcripts.items()}
    assert approvals == {f"attached:{name}": len(gated(recording)) for name, recording in chosen.items()}


@each_way
@pytest.mark.timeout(900)
async def test_in_a_window_as_large_as_the_longest_of_them_all_is_sent_and_the_transcripts_are_the_same(
    stack, recordings, chosen
):
    async with AsyncClient.connect("recorded_app:ways", timeout_s=120) as client:
        transcripts = await held(client, chosen, "windowed")
        sent = [await client.conversation(name).context() for name in transcripts]
    equal(stack, recordings, transcripts)
    assert not any(view.left_out for view in sent)
    assert max(view.tokens / view.budget for view in sent) > TIGHT


@each_way
@pytest.mark.parametrize("way", [pytest.param("sequential", marks=pytest.mark.slow), "batched"])
@pytest.mark.timeout(900)
async def test_calls_that_wait_for_one_another_and_are_decided_together_lead_to_the_same_transcripts(
    stack, recordings, chosen, way
):
    async with AsyncClient.connect("recorded_app:ways", timeout_s=120) as client:
        transcripts = await held(client, chosen, way, together=True)
    equal(stack, recordings, transcripts)


@each_way
@pytest.mark.timeout(900)
async def test_under_grants_that_first_approvals_give_only_these_are_asked_for_and_the_transcripts_are_the_same(
    stack, recordings, chosen
):
    def approve(call):
        (target,) = call.targets or (Target("tool", call.tool),)
        return Approve(scope=Scope(target.kind, target.value, level=target.level))

    async with AsyncClient.connect("recorded_app:ways", timeout_s=120) as client:
        transcripts = await held(client, chosen, "granted", approve=approve)
        grants = {name: await client.conversation(name).grants() for name in transcripts}
    async with opened(stack) as store:
        approvals = await counted(store, transcripts, approves)

    equal(stack, recordings, transcripts)
    touched = {
        f"granted:{name}": [recorded_app.touched(spec, call["arguments"]) for spec, call in gated(recording)]
        for name, recording in chosen.items()
    }
    assert {name: {(one.kind, one.pattern) for one in given} for name, given in grants.items()} == {
        name: {(one.kind, one.value) for one in targets} for name, targets in touched.items()
    }
    assert approvals == {name: len(grants[name]) for name in transcripts}, "each but the first went on by itself"
    assert sum(approvals.values()) < sum(map(len, touched.values()))


def first_turn(recording):
    """A recording up to the end of its first turn: a child has no more."""
    messages = recording["messages"]
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return recording | {"messages": messages[: users[1]] if len(users) > 1 else messages}


def parents(recordings):
    """What the model says to the conversations that ask the recorded agents."""
    for name, recording in recordings.items():
        asks = recorded_app.asking(recorded_app.agent_of(name))
        task = json.dumps({"task": recording["messages"][0]["content"]})
        asked = {"id": "call_ask", "type": "function", "function": {"name": asks, "arguments": task}}
        yield {
            "messages": [
                {"role": "user", "content": f"ask {name}"},
                {"role": "assistant", "content": None, "tool_calls": [asked]},
                {"role": "assistant", "content": "So it is."},
            ]
        }


async def child_of(store, parent):
    """The conversation that another one waits for, once it has begun."""
    async with asyncio.timeout(120):
        while True:
            for event in await Oracle(store, recorded_app.RUNS).events(parent):
                source = getattr(event, "source", "")
                if source and (owner := await store.owner(source)) is not None and owner.started:
                    return source
            await asyncio.sleep(0.05)


@each_way
@pytest.mark.timeout(900)
async def test_as_children_of_a_parent_the_first_turns_have_the_same_transcripts(recordings, chosen):
    turns = {name: first_turn(recording) for name, recording in chosen.items()}
    turns = {name: turn for name, turn in turns.items() if turn["messages"][-1]["role"] == "assistant"}
    slots = asyncio.Semaphore(OF_SAMPLE_AT_ONCE)

    async def one(client, store, name):
        async with slots:
            parent = await client.start("asker", f"ask {name}", conversation_id=f"parent:{name}", context={"recording": name})
            child = await child_of(store, parent.id)
            transcript = await play(client, name, turns[name], child=client.conversation(child))
            state = await parent.wait(timeout_s=120)
            (said,) = [json.loads(message["content"]) for message in await parent.messages() if message["role"] == "tool"]
            assert (state.reply, said["ok"], said["result"]) == ("So it is.", True, turns[name]["messages"][-1]["content"])
            return child, transcript

    asked = {f"parent of {name}": parent for name, parent in zip(turns, parents(turns), strict=True)}
    with replaying(recordings | asked) as stack:
        async with opened(stack) as store, AsyncClient.connect("recorded_app:delegated", timeout_s=120) as client:
            held_by = await asyncio.gather(*(one(client, store, name) for name in turns))
        for turn, (child, messages) in zip(turns.values(), held_by, strict=True):
            equal(stack, {child: turn}, {child: messages})


@pytest.mark.slow  # that a conversation is left and taken up again, tests/faults/test_parking.py tells the gate
@pytest.mark.timeout(900)
async def test_on_two_actors_which_leave_each_conversation_while_its_model_works_the_transcripts_are_the_same(
    recordings,
):
    with replaying(recordings, **TWO_ACTORS) as stack:
        stack.model.slow(first_token_s=MODEL_S)
        async with AsyncClient.connect("recorded_app:app", timeout_s=120) as client:
            transcripts = await held(client, recordings)
            settings = (await client.gateway.stack.transport()).settings
            actors = [process for process in await asyncio.to_thread(processes, settings) if ":actor:" in process.name]
        equal(stack, recordings, transcripts)
        async with opened(stack) as store:
            epochs = [(await store.owner(name)).epoch for name in transcripts]
        assert len(actors) <= int(TWO_ACTORS["HOLDFAST_MAX_ACTORS"]) + RESERVE
        requests = sum(map(asked_of_the_model, recordings.values()))
        assert len(stack.model.requests) == requests  # each model call was made once,
        assert sum(epochs) > requests  # and for most of them the conversation was left and taken up again
