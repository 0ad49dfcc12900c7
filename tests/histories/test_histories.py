"""What older versions wrote is read for ever: each is decoded, folded, taken over at every step, and goes on.

`record.py` says how a version is recorded.
"""

import functools
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from history import CONVERSATION, FOLDER, History, Step, history, path_of, said, stands, vocabulary, words
from pydantic import TypeAdapter
from writer import Writer, begin, finish, reply, resolve, send, wake

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approve,
    Cancel,
    Command,
    Principal,
    Proof,
    Redispatch,
    Review,
    RunTool,
    State,
    Status,
    SuspensionKind,
    Wake,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.log.index import facts
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import ConversationEnded
from holdfast.persistence import AppRecord, MemoryStore, RunStatus, codec
from holdfast.persistence.memory_conversations import Kept
from holdfast.persistence.redis_values import run_of

VERSIONS = range(1, codec.VERSION + 1)
HISTORIES = [history(version) for version in VERSIONS if path_of(version).exists()]
STEPS = [step for recorded in HISTORIES for step in recorded.steps]
DECISIONS = {
    SuspensionKind.APPROVAL: Approve({"amount": 3}),
    SuspensionKind.ELICITATION: Answer({"years": 9}),
    SuspensionKind.CLIENT_EXEC: Answer(0),
    SuspensionKind.LOST: Redispatch(),
    SuspensionKind.REVIEW: Review("allow"),
    SuspensionKind.DELEGATE: Cancel(),
    SuspensionKind.LIMIT: Approve(),
}

DECIDERS = [Principal(name, roles=["finance", "on call"], proof=Proof.KEY) for name in ("ana", "eve", "kim")]
NOTHING_SINCE = 6
"""From this version on, a cancellation of nothing is no event."""
OF_CHILDREN = ("Parent.", "Ancestor.", "ConversationStarted.parent", "State.parent")
"""What only conversations say that were started by others: they end with their first turn, and histories go on."""
NOTED = ("votes", "comments", "assigned", "snoozed", "escalated_at", "approvers", "expires_at", "claimed", "attempt")
"""What a pending call shows that changes while it waits."""

each_history = pytest.mark.parametrize("recorded", HISTORIES, ids=lambda recorded: f"v{recorded.version}")
each_step = pytest.mark.parametrize("step", STEPS, ids=str)


def records(recorded: History) -> list[tuple[bytes, object, object]]:
    """Everything that was written, with what reads and what writes it."""
    known = {data for step in recorded.steps for data in step.kept.known.values()}
    return [
        (recorded.app, functools.partial(codec.decode, AppRecord), codec.encode),
        (recorded.spec, lambda data: codec.decode(AgentSpec, data).stored_as("d"), codec.encode),
        *((spec, lambda data: codec.decode(AgentSpec, data).stored_as("d"), codec.encode) for spec in recorded.later_specs),
        *((entry, codec.decode_event, codec.encode) for entry in recorded.kept.log),
        *((snapshot, functools.partial(codec.decode, State), codec.encode) for _, snapshot in recorded.snapshots),
        *((data, functools.partial(codec.decode, IdempotencyRecord), codec.encode) for data in sorted(known)),
        *((data, codec.decode_outcome, codec.encode) for data in recorded.outcomes),
    ]


def spec_of(recorded: History) -> AgentSpec:
    """The spec of its agent, under the digest that it was stored as."""
    return codec.decode(AgentSpec, recorded.spec).stored_as(codec.decode(AppRecord, recorded.app).agents["desk"])


def events(step: Step):
    return [codec.decode_event(entry) for entry in step.kept.log]


def of_turn(recorded: History, state: State) -> AgentSpec:
    """The spec that the turn which goes on runs with."""
    later = [codec.decode(AgentSpec, data).stored_as("").model_copy() for data in recorded.later_specs]
    return next((spec for spec in later if state.turn is not None and spec.digest == state.turn.spec_digest), spec_of(recorded))


def folded(step: Step) -> State:
    return functools.reduce(evolve, events(step), State(conversation_id=CONVERSATION))


# There is one of each version, and it says everything.


@pytest.mark.parametrize("version", VERSIONS)
def test_every_record_version_has_a_history(version):
    assert path_of(version).exists(), (
        f"record version {version} has no history: `python tests/histories/record.py` records that of the version which the "
        f"code writes (codec.VERSION is {codec.VERSION}); its docstring says how"
    )


def test_there_are_no_other_histories():
    assert {file.name for file in FOLDER.glob("*.jsonl")} <= {path_of(version).name for version in VERSIONS}


@each_history
def test_a_history_holds_records_of_its_own_version_only(recorded):
    assert recorded.version in VERSIONS
    assert {msgpack.unpackb(data)[0] for data, _, _ in records(recorded)} == {recorded.version}


def test_the_records_are_still_those_of_the_newest_history():
    assert HISTORIES[-1].vocabulary == vocabulary(), (
        "what records can say has changed (fields, defaults, members of enumerations). If version "
        f"{codec.VERSION} was released: raise codec.VERSION, give codec.UPGRADES a function where older records read "
        "otherwise, and record a history; else record this version's anew. tests/histories/record.py says how"
    )


@each_history
def test_a_history_says_everything_that_its_version_could(recorded):
    spoken = words(said(*(decode(data) for data, decode, _ in records(recorded))))
    could = words(recorded.vocabulary) & words(vocabulary())  # what has been renamed since is called by its new name
    if recorded.version >= NOTHING_SINCE:
        could = {word for word in could if not word.startswith("NothingCancelled.")}
    could = {word for word in could if not word.startswith(OF_CHILDREN)}
    assert sorted(could - spoken) == [], "teach tests/histories/record.py to say these"


# It is read.


@each_history
def test_what_is_read_and_written_again_reads_the_same(recorded):
    for data, decode, encode in records(recorded):
        again = encode(decode(data))
        assert msgpack.unpackb(again)[0] == codec.VERSION
        assert decode(again) == decode(data)


@each_step
def test_folding_leads_to_where_the_conversation_stood(step):
    assert stands(folded(step)) == step.line["stands"]


@each_history
def test_every_snapshot_is_what_folding_from_the_start_leads_to(recorded):
    snapshots = dict(recorded.snapshots)
    assert len(snapshots) >= 5
    state = State(conversation_id=CONVERSATION)
    for seq, event in enumerate(events(recorded.steps[-1]), 1):
        state = evolve(state, event)
        if seq in snapshots:
            snapshot, expected = codec.decode(State, snapshots[seq]), state
            if recorded.version < STOPPED_SINCE and state.last is not None:
                expected = state.model_copy(update={"last": state.last.model_copy(update={"stopped": None})})
            assert (
                snapshot == expected if recorded.version >= SHOWN_SINCE else but_for_shown(snapshot) == but_for_shown(expected)
            )


STOPPED_SINCE = 10
"""The first version whose snapshots say what stopped the last turn: of older ones it is not known until the next one ends."""
SHOWN_SINCE = 6
"""The first version whose snapshots have the digests of what suspensions show, and who has approved calls. Older ones are read
with none: what runs meanwhile is asked about again by rules that ask."""


def but_for_shown(state):
    """A state as JSON, without the digests of what its open suspensions show, and without who has approved its calls."""
    plain = state.model_dump(mode="json")
    for one in plain["turn"]["calls"] if plain["turn"] is not None else ():
        del one["fulfilled"]
        if one["suspension"] is not None:
            del one["suspension"]["shown"]
    return plain


@each_history
def test_every_snapshot_and_the_log_after_it_lead_to_the_end(recorded):
    log = events(recorded.steps[-1])
    for seq, snapshot in recorded.snapshots:
        state = functools.reduce(evolve, log[seq:], codec.decode(State, snapshot))
        assert stands(state) == recorded.steps[-1].line["stands"]


@each_history
def test_what_is_known_beside_the_log_is_what_the_log_makes_known(recorded):
    known = {key: codec.decode(IdempotencyRecord, data) for key, data in recorded.kept.known.items()}
    assert facts(events(recorded.steps[-1]), 1) == known
    assert all(isinstance(one, IdempotencyRecord) for one in known.values())


@each_history
def test_the_messages_are_those_that_a_model_was_given(recorded):
    transcript = Transcript()
    for seq, event in enumerate(events(recorded.steps[-1]), 1):
        transcript.add(seq, event)
    assert transcript.messages() == recorded.steps[-1].line["messages"]


@each_history
async def test_the_spec_still_has_the_digest_that_its_turns_name(store, recorded):
    """Whatever fields specs have been given since: what a spec is stored as does not follow from what this code makes of it."""
    await load(store, recorded, recorded.steps[-1])
    begun = {event.spec_digest for event in events(recorded.steps[-1]) if event.kind == "turn_started"}
    stored = await store.spec(codec.decode(AppRecord, recorded.app).agents["desk"])
    later = {codec.decode(AgentSpec, data).stored_as("").model_copy().digest for data in recorded.later_specs}
    assert begun == {stored.digest} | later


@each_history
def test_what_waited_then_expires_now(recorded):
    for step in recorded.steps:
        state = folded(step)
        waiting = [call.tool_call_id for call in state.calls if call.suspension is not None]
        ended: list[str] = []
        log = dict(enumerate(events(step), 1))
        while state.due_at is not None and set(waiting) - set(ended):
            # given a step at which calls wait, when all their deadlines have passed, one after the other
            at, spec = max(one.expires_at for call in state.calls if (one := call.suspension)), of_turn(recorded, state)
            wake = Wake()
            read = {seq: log[seq] for seq in wake.reads(state, spec)}
            judgement = decide(state, wake.stamped(at, spec, {}, read=read))
            # then each of them ends; a question of the turn has no result
            over = {"call_resolved", "suspension_settled" if state.turn.question is not None else ""}
            ended += [event.tool_call_id for event in judgement.events if event.kind in over]
            log |= dict(enumerate(judgement.events, state.seq + 1))
            state = judgement.state
        assert set(waiting) <= set(ended)


# It goes on.


async def load(store, recorded: History, step: Step) -> None:
    """What lay in the store after a step lies in this one; nobody owns it."""
    spec, kept = spec_of(recorded), step.kept
    specs = {spec.digest: recorded.spec}
    specs |= {codec.decode(AgentSpec, data).stored_as("").model_copy().digest: data for data in recorded.later_specs}
    if isinstance(store, MemoryStore):
        runs = {effect_id: run_of(CONVERSATION, effect_id, record, store.payloads) for effect_id, record in kept.runs.items()}
        snapshot = kept.head.get("snapshot", b"")
        store._conversations[CONVERSATION] = Kept(
            log=list(kept.log),
            snapshot=snapshot,
            folded=codec.decode(State, snapshot).seq if snapshot else 0,
            known=dict(kept.known),
            runs=runs,
        )
        store._hashes[store._keys.meta("apps")][codec.decode(AppRecord, recorded.app).app] = recorded.app
        store._hashes[store._keys.meta("specs")] |= specs
    else:
        keys = store._keys
        async with store._redis.pipeline(transaction=False) as pipeline:  # one round trip, not one for each entry
            for seq, entry in enumerate(kept.log, 1):
                pipeline.xadd(keys.log(CONVERSATION), {"e": entry}, id=f"{seq}-0")
            for key, fields in ((keys.head, kept.head), (keys.known, kept.known), (keys.runs, kept.runs)):
                if fields:
                    pipeline.hset(key(CONVERSATION), mapping=fields)
            pipeline.hset(keys.meta("apps"), codec.decode(AppRecord, recorded.app).app, recorded.app)
            pipeline.hset(keys.meta("specs"), mapping=specs)
            await pipeline.execute()
    problems = [problem async for bucket in store.reindex() for problem in bucket.problems]
    assert not problems


def noted(step: Step, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What a pending call shows of votes and notes, as the log has them."""
    suspension_id = shown["suspension_id"]
    about = [event for event in events(step) if getattr(event, "suspension_id", None) == suspension_id]
    latest = {event.principal.mark: event for event in about if event.kind == "call_snoozed"}
    snoozed = {by: event.until for by, event in latest.items() if event.until > event.at}
    last = max((place for place, event in enumerate(about) if event.kind == "call_escalated"), default=None)
    stage = {name: shown.get(name) for name in ("approvers", "expires_at", "escalated_at")}
    if last is not None:
        one = about[last].model_dump(mode="json")
        stage = {"approvers": one["approvers"], "expires_at": one["expires_at"], "escalated_at": one["at"]}
    claims = [event.model_dump(mode="json") for event in about if event.kind in ("call_claimed", "call_given_back")]
    stage |= {"claimed": None, "attempt": about[0].claims}
    if claims:
        one = claims[-1]
        by = {"client_id": one["client_id"], "by": one["principal"], "at": one["at"]} if one["kind"] == "call_claimed" else None
        stage |= {"claimed": by, "attempt": one["attempt"], "expires_at": one["expires_at"]}
    withdrawn = {
        (vote.suspension_id, cast.principal.id, cast.at)
        for place, over in enumerate(events(step))
        if over.kind == "given_revoked"
        for vote in over.votes
        for cast in events(step)[:place]
        if cast.kind == "vote_cast" and cast.principal.id == over.by
    }
    kept = [event for event in about[last or 0 :] if event.kind != "call_commented"]
    kept += [event for event in about if event.kind == "call_commented"]
    said = [event.model_dump(mode="json") for event in kept if event.kind in {"vote_cast", "call_assigned", "call_commented"}]
    votes = [
        {"by": one["principal"], "value": None if one["body"] is None else json.loads(one["body"])}
        | {name: one[name] for name in ("at", "decision", "reason")}
        for one in said
        if one["kind"] == "vote_cast" and (suspension_id, one["principal"]["id"], one["at"]) not in withdrawn
    ]
    comments = [
        {"by": one["principal"], "at": one["at"], "text": one["text"]} for one in said if one["kind"] == "call_commented"
    ]
    assigned = [one["to"] for one in said if one["kind"] == "call_assigned"]
    said_last = assigned[-1] if assigned else ""
    return {"votes": votes, "comments": comments, "assigned": said_last, "snoozed": snoozed, **stage}


async def taken_over(store, step: Step) -> Writer:
    """The conversation as it stood after a step, in the hands of today's code."""
    recorded = history(step.version)
    await load(store, recorded, step)
    writer = await Writer.of(store, CONVERSATION, create=False)
    app = await store.app("shop.app:app")
    turn = writer.state.turn
    writer.spec = await store.spec(turn.spec_digest if turn is not None and turn.spec_digest else app.agents["desk"])
    return writer


async def carry_on(writer: Writer) -> None:
    """Do what is due until nothing is: people decide, workers work, the model comes to an end."""
    store, asked_again = writer.store, set()
    while True:
        state = writer.state
        waiting = [(call.tool_call_id, call.suspension) for call in state.calls if call.suspension is not None]
        effects = outstanding(state)
        if waiting:
            call_id, suspension = waiting[0]
            decision = Answer("it has arrived") if call_id in asked_again else DECISIONS[suspension.kind]
            asked_again |= {call_id} if suspension.kind is SuspensionKind.LOST else set()
            agreed = {vote.by for vote in suspension.votes}
            if agreed and suspension.kind is SuspensionKind.REVIEW:
                decision = Cancel("others have agreed to something else")
            elif agreed and suspension.kind is SuspensionKind.APPROVAL:
                decision = Approve()  # an edit would ask all of them anew
            who, client_id = next(one for one in DECIDERS if one.id not in agreed), ""
            if suspension.claim is not None:  # its client answers
                proof, _, name = suspension.claim.by.partition(":")
                who, client_id = Principal(name, proof=Proof(proof)) if name else None, suspension.claim.client_id
            await writer.do(resolve(decision, suspension_id=suspension.suspension_id, principal=who, client_id=client_id))
        elif effects and isinstance(effects[0], RunTool):
            await _run(writer, store, effects[0].effect_id)
        elif effects:
            await writer.do(begin() if state.turn is None else reply("done"))
        elif state.due_at is not None:
            await writer.do(wake(), now=max(state.due_at, state.updated_at))
        else:
            return


async def _run(writer, store, effect_id):
    """A worker does what is left to do of a run, and the conversation hears of it."""
    run = await store.run(CONVERSATION, effect_id)
    if run.status is RunStatus.RUNNABLE:
        assert await store.claim(CONVERSATION, effect_id, incarnation="i-2", worker="worker:shop|2")
        run = await store.run(CONVERSATION, effect_id)
    if run.status is RunStatus.CLAIMED:
        outcome = finish(effect_id)(writer.state)
        assert await store.finish(CONVERSATION, effect_id, incarnation=run.incarnation, outcome=codec.encode(outcome))
        run = await store.run(CONVERSATION, effect_id)
    outcome = codec.decode_outcome(run.outcome)
    await writer.do(lambda _: outcome)


@each_step
async def test_a_conversation_goes_on_from_wherever_it_stood(store, step):
    # given what lay in the store after a step
    writer = await taken_over(store, step)
    ended = step.line["stands"]["status"] == "ended"
    # when today's code takes it over, then it stands where it stood, and shows what it showed
    assert stands(writer.state) == step.line["stands"]
    assert sorted(writer.runs) == sorted(step.kept.runs)
    shown = history(step.version).shown
    views = [view.model_dump(mode="json") for view in await store.pending_of(CONVERSATION)]
    at_first = [shown[suspension_id] | {"problem": None} for suspension_id in step.line["stands"]["pending"]]
    expected = [{name: was for name, was in one.items() if name not in NOTED} for one in at_first]
    expected = [was | ({"decisions": ["cancel"]} if view["claimed"] else {}) for view, was in zip(views, expected, strict=True)]
    notes = [noted(step, shown[view["suspension_id"]]) for view in views]
    assert [{name: view[name] for name in NOTED} for view in views] == notes
    assert [{name: view[name] for name in was} for view, was in zip(views, expected, strict=True)] == expected
    assert sorted(view.suspension_id for view in (await store.pending(limit=100)).items) == sorted(
        step.line["stands"]["pending"]
    )
    # and when everything that is due is done, then each turn comes to its end
    await carry_on(writer)
    assert writer.state.status in ({Status.ENDED} if ended else {Status.IDLE, Status.FAILED})
    assert await store.load(CONVERSATION) == writer.state
    assert (await store.pending(limit=100)).items == []
    # and the next message is answered
    if ended:
        with pytest.raises(ConversationEnded):
            await writer.do(send())
    else:
        shaped = writer.spec is not None and writer.spec.reply is not None
        await writer.do(send(), begin(), reply('{"order":7}' if shaped else "welcome back"))
        assert writer.state.status is Status.IDLE
    # and the whole log, the old part and the new, folds to where it stands
    entries = await store.read(CONVERSATION, after=0, limit=1000)
    assert functools.reduce(evolve, (event for _, event in entries), State(conversation_id=CONVERSATION)) == writer.state
    assert all(second.at >= first.at for (_, first), (_, second) in pairwise(entries))


@each_history
async def test_what_was_asked_then_and_comes_again_gets_its_first_receipt(store, recorded):
    # given a history, to its end
    writer = await taken_over(store, recorded.steps[-1])
    before = writer.state
    asked = [
        step for step in recorded.steps if "asked" in step.line and step.line["log"]
    ]  # what changed nothing is soon forgotten
    since = {
        "compact": 10,
        "interrupt": 9,
        "withdraw": 9,
        "reschedule": 9,
        "claim": 9,
        "give_back": 9,
        "cancel_pending": 5,
        "revoke": 6,
        "revoke_given": 6,
        "assign": 6,
        "comment": 6,
        "snooze": 7,
        "escalate": 7,
    }
    kinds = {"start", "send", "resolve", "cancel", "end"} | {kind for kind, first in since.items() if recorded.version >= first}
    assert {step.line["asked"]["kind"] for step in asked} == kinds
    for step in asked:
        # when a caller that never heard of a reply asks again
        command = TypeAdapter(Command).validate_python(step.line["asked"])
        answer = await writer.do(lambda _, command=command: command)
        # then it is told what it was told then
        assert answer == type(answer).model_validate(step.line["reply"] | {"duplicate": True})
    assert writer.state == before
