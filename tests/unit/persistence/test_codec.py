"""Bytes and back: every record, whatever it holds; what is not ours is refused with a typed error."""

from collections.abc import Mapping
from enum import Enum
from functools import partial
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import msgpack
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.conversation import (
    AgentSpec,
    Approval,
    Executor,
    ModelFailed,
    ModelReplied,
    Principal,
    Proof,
    RunFinished,
    RunRuled,
    RunSuspended,
    SettledBy,
    State,
    ToolSpec,
)
from holdfast.conversation.record import Record
from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.events import EVENTS, CallResolved, MessageAccepted
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.rounds import Round
from holdfast.conversation.terms.approvers import MOST_VOTES, ApproverTerms
from holdfast.conversation.terms.budget import MOST_TOKENS, Budget
from holdfast.conversation.terms.context import LARGEST_BUDGET, LEAST_PREVIEW, Compact, Context, Retain
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.conversation.terms.models import MOST_RETRIES, Breaker, ModelChain, ModelSpec
from holdfast.conversation.terms.overrides import Overridable, Overrides
from holdfast.conversation.terms.spec import NotifySpec
from holdfast.conversation.terms.stopping import MOST_ANSWERS, MOST_COUNTED, Stop
from holdfast.conversation.terms.turn_stats import MOST_FUNCTIONS, TurnFunction
from holdfast.errors import CorruptStore, NewerRecord
from holdfast.persistence import AppRecord, codec

text = st.text(max_size=40)


def values(annotation):
    """Values of a field, whatever may stand there."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, arguments))
    if origin is Annotated:
        return values(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(*map(values, arguments), max_size=3)
    if annotation is Round:
        return st.lists(records(Call), max_size=3, unique_by=lambda call: call.tool_call_id).map(Round)
    if annotation is Principal:
        names = st.text("ana @7é", min_size=1, max_size=9).map(str.strip).filter(bool)
        return st.builds(Principal, names, roles=st.lists(names, max_size=3), proof=st.sampled_from(Proof))
    if annotation is DecisionRecord:  # what has a body, and what has none, is not for each kind of decision
        said = st.sampled_from([DecisionKind.DENY, DecisionKind.ANSWER, DecisionKind.APPROVE])
        unsaid = st.sampled_from([DecisionKind.APPROVE, DecisionKind.CANCEL])
        return st.builds(DecisionRecord, kind=said, body=text, reason=text) | st.builds(
            DecisionRecord, kind=unsaid, reason=text
        )
    if issubclass(annotation, Record):
        return records(annotation)
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    return {str: text, bool: st.booleans(), int: st.integers(1, 2**53), float: st.floats(1, 1e6), type(None): st.none()}[
        annotation
    ]


def records(kind, **chosen):
    """Records of a kind with anything in any field that is not chosen."""
    if kind is ToolSpec and not chosen:  # not every pair of its axes is legal
        gated = st.sampled_from([Executor.SERVER, Executor.CLIENT])
        no_questions = {"questions": st.just(value=False)}
        asking = {"executor": st.just(Executor.HUMAN), "approval": st.just(Approval.AUTO)}
        return (
            records(kind, approval=st.just(Approval.AUTO), **no_questions)
            | records(kind, executor=gated, **no_questions)
            | records(kind, **asking)
        )
    if kind is NotifySpec and not chosen:
        return records(kind, name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
    if kind is Context and not chosen:
        bounds = {"budget": st.integers(1, LARGEST_BUDGET), "preview": st.integers(LEAST_PREVIEW, LARGEST_BUDGET)}
        return records(kind, keep=st.integers(1, 10_000), **{name: st.none() | one for name, one in bounds.items()})
    if kind is Compact and not chosen:
        texts = {name: st.none() | st.text(min_size=1, max_size=40) for name in ("model", "prompt")}
        texts["model"] |= records(ModelChain)
        counts = {"keep": st.none() | st.integers(1, 10_000), "max_tokens": st.none() | st.integers(1, LARGEST_BUDGET)}
        return records(kind, at=st.floats(0.1, 1), **texts, **counts)
    if kind is Retain and not chosen:
        bounds, without = st.integers(1, LARGEST_BUDGET), dict.fromkeys(("age", "count", "tokens"), st.none())
        return st.builds(kind, **{**without, "count": bounds}) | st.builds(kind, **without, never=st.just(value=True))
    if kind is Stop and not chosen:
        bounds = st.integers(1, MOST_COUNTED)
        chosen = {
            **dict.fromkeys(("rounds", "tokens", "errors"), bounds),
            "tool": st.none(),
            "loop": st.integers(1, MOST_ANSWERS),
            "cost_usd": st.none() | st.floats(1e-9, 1e6),
            "content": st.none() | st.text(min_size=1, max_size=40),
            "when": st.lists(text.map(TurnFunction), max_size=MOST_FUNCTIONS).map(tuple),
        }
        timed = records(kind, **chosen, timeout_s=st.floats(1, 10**6))
        return timed | records(kind, **chosen, timeout_s=st.none(), waits=st.just(value=False))
    if kind is Budget and not chosen:
        return records(kind, tokens=st.integers(1, MOST_TOKENS), cost_usd=st.none() | st.floats(1e-9, 1e6))
    if kind is Breaker and not chosen:
        counts = {name: st.integers(1, 100) for name in ("failures", "probes")}
        return records(kind, cooldown_s=st.floats(1, 86_400), **counts)
    if kind in (AgentSpec, ModelSpec, ModelChain) and not chosen:
        return records(kind, retries=st.integers(0, MOST_RETRIES))
    if kind is Overrides and not chosen:
        shares = {name: st.none() | st.floats(0, 1) for name in ("temperature", "top_p")}
        words = st.none() | st.sampled_from(["low", "high"])
        return records(
            kind, model=st.none() | st.text(min_size=1), max_tokens=st.integers(1, 100), reasoning_effort=words, **shares
        )
    if kind is Overridable and not chosen:
        bounds = {name: st.none() | st.tuples(st.floats(0, 0.5), st.floats(0.5, 1)) for name in ("temperature", "top_p")}
        words = st.lists(st.sampled_from(["low", "high"]), max_size=2).map(tuple)
        return records(kind, max_tokens=st.none() | st.integers(1, 100), reasoning_effort=words, **bounds)
    if kind is ApproverTerms and not chosen:
        return records(kind, minimum=st.integers(1, MOST_VOTES))
    fields = {name: values(field.annotation) for name, field in kind.model_fields.items() if name not in chosen}
    return st.builds(kind, **fields, **chosen)


def outcomes(kind):
    """Outcomes of a kind; what only whoever judges them adds has its default."""
    return records(kind, now=st.just(0), spec=st.none(), known=st.just({}), trace=st.none(), read=st.just({}))


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_events_come_back_as_they_were(kind, data):
    event = data.draw(records(kind))
    decoded = codec.decode_event(codec.encode(event))
    assert decoded == event
    assert type(decoded) is kind


@given(records(State))
def test_states_come_back_as_they_were(state):
    assert codec.decode(State, codec.encode(state)) == state


@given(records(IdempotencyRecord))
def test_receipts_come_back_as_they_were(known):
    assert codec.decode(IdempotencyRecord, codec.encode(known)) == known


@given(records(AgentSpec))
def test_specs_come_back_under_the_digest_that_they_are_stored_as(spec):
    decoded = decode_spec(codec.encode(spec))
    assert decoded == spec
    assert decoded.digest == "d-1"


@given(records(AppRecord))
def test_apps_come_back_as_they_were(record):
    assert codec.decode(AppRecord, codec.encode(record)) == record


OUTCOMES = (RunFinished, RunRuled, RunSuspended, ModelReplied, ModelFailed)


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_outcomes_come_back_as_they_were(kind, data):
    outcome = data.draw(outcomes(kind))
    decoded = codec.decode_outcome(codec.encode(outcome))
    assert decoded == outcome
    assert type(decoded) is kind


@pytest.mark.parametrize("kind", ["cancel", "model_answered", "state", "wake"])
def test_a_record_that_is_no_outcome_is_refused_as_one(kind):
    with pytest.raises(CorruptStore, match=f"an outcome has the kind '{kind}'"):
        codec.decode_outcome(codec.pack([codec.VERSION, kind, {}]))


def test_an_outcome_that_a_release_without_records_of_model_calls_wrote_reads_as_what_it_says():
    old = codec.pack([3, "run_finished", {"effect_id": "call_1#1", "ok": True, "content": "{}"}])
    assert codec.decode_outcome(old) == RunFinished(effect_id="call_1#1", ok=True, content="{}")


def test_a_record_is_its_version_its_kind_and_its_fields():
    """What is stored for ever: these bytes must be readable by every later version."""
    event = MessageAccepted(at=1_700_000_000_000, message_id="m-1", digest="d", text="Größe 🙂")

    data = codec.encode(event)

    fields = {"at": 1_700_000_000_000, "message_id": "m-1", "digest": "d", "text": "Größe 🙂"}
    assert msgpack.unpackb(data) == [codec.VERSION, "message_accepted", fields]
    assert data[:2] == bytes([0x93, codec.VERSION])  # the scripts read the version there, as one byte
    assert codec.VERSION <= 0x7F


def test_defaults_take_no_bytes():
    empty = State(conversation_id="c-1")
    assert msgpack.unpackb(codec.encode(empty)) == [codec.VERSION, "state", {"conversation_id": "c-1"}]


def test_json_from_outside_stays_its_text():
    """Integers of any size, and floats exactly as they were written."""
    exact = '{"n":123456789012345678901234567890,"x":1.10,"e":1e400}'
    event = CallResolved(at=1, tool_call_id="c", ok=True, content=exact, by=SettledBy.RUN)

    assert codec.decode_event(codec.encode(event)).content == exact


def decode_spec(data):
    return codec.decode(AgentSpec, data).stored_as("d-1")


DECODERS = [
    codec.decode_event,
    partial(codec.decode, State),
    partial(codec.decode, IdempotencyRecord),
    decode_spec,
    partial(codec.decode, AppRecord),
    codec.decode_outcome,
]


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=60))
def test_no_bytes_lead_to_a_foreign_error(decode, data):
    with pytest.raises((CorruptStore, NewerRecord)):
        decode(data)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "record",
    [
        None,
        7,
        "text",
        [],
        [1],
        [1, "state"],
        [1, "state", {}, {}],
        ["1", "state", {}],
        [None, "state", {}],
        [1, None, {}],
        [1, ["state"], {}],
        [1, {}, {}],
        [1, "of unknown kind", {}],
        [1, "state", None],
        [1, "state", []],
        [1, "state", {"conversation_id": 7}],
        [1, "state", {"conversation_id": "c-1", "unknown": 1}],
        [1, "known", {"seq": "x", "at": 1}],
        [1, "conversation_ended", {}],
        [1, "conversation_ended", {"at": "now"}],
        [1, "spec", {"name": "x"}],
        [1, "app", {"app": 1, "code": 1}],
        [1, "run_finished", {}],
        [1, "model_replied", {}],
        [1, "model_failed", {"effect_id": 7}],
    ],
)
def test_what_is_no_record_of_ours_is_refused(decode, record):
    with pytest.raises(CorruptStore):
        decode(codec.pack(record))


ANY = {
    **{kind.__name__: (codec.encode, codec.decode_event, records(kind)) for kind in EVENTS},
    "State": (codec.encode, partial(codec.decode, State), records(State)),
    "IdempotencyRecord": (codec.encode, partial(codec.decode, IdempotencyRecord), records(IdempotencyRecord)),
    "AgentSpec": (codec.encode, decode_spec, records(AgentSpec)),
    "AppRecord": (codec.encode, partial(codec.decode, AppRecord), records(AppRecord)),
    **{kind.__name__: (codec.encode, codec.decode_outcome, outcomes(kind)) for kind in OUTCOMES},
}
"""Of each kind of record: how it is written, how it is read, and any of them."""


@pytest.mark.parametrize("kind", ANY)
@given(data=st.data())
def test_a_record_of_version_1_reads_as_what_it_says(kind, data):
    """Later versions only added members and fields with defaults; `tests/histories` has what the older ones really wrote."""
    encode, decode, any_record = ANY[kind]
    record = data.draw(any_record)
    assume(not isinstance(record, State) or not record.queue)  # until version 8 it was a list of numbers
    _, name, fields = msgpack.unpackb(encode(record))

    assert decode(msgpack.packb([1, name, fields])) == record


@pytest.mark.parametrize("version", [0, -1, -(2**63)])
@pytest.mark.parametrize("kind", ANY)
@given(data=st.data())
@settings(max_examples=5)
def test_a_version_that_never_was_is_refused(kind, version, data):
    encode, decode, any_record = ANY[kind]
    _, name, fields = msgpack.unpackb(encode(data.draw(any_record)))

    with pytest.raises(CorruptStore, match=f"unknown version {version}"):
        decode(msgpack.packb([version, name, fields]))


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("fields", [{}, [], None, {"whatever": [1, 2]}])
def test_a_newer_record_is_refused_whatever_it_holds(decode, fields):
    with pytest.raises(NewerRecord) as refused:
        decode(codec.pack([codec.VERSION + 1, "of the future", fields]))

    assert (refused.value.record, refused.value.found, refused.value.known) == (
        "of the future",
        codec.VERSION + 1,
        codec.VERSION,
    )
    assert "upgrade" in str(refused.value)


def test_an_older_record_is_upgraded_step_by_step_and_where_nothing_changed_left_alone(monkeypatch):
    def renamed(fields):
        return {("text" if name == "body" else name): value for name, value in fields.items()}

    def marked(fields):
        return fields | {"text": fields["text"] + "!"}

    monkeypatch.setattr(codec, "VERSION", 4)
    monkeypatch.setattr(codec, "UPGRADES", {("message_accepted", 1): renamed, ("message_accepted", 3): marked})
    old = codec.pack([1, "message_accepted", {"at": 1, "message_id": "m", "digest": "d", "body": "hi"}])

    assert codec.decode_event(old) == MessageAccepted(at=1, message_id="m", digest="d", text="hi!")
    assert msgpack.unpackb(codec.encode(codec.decode_event(old)))[0] == 4


def test_a_lone_surrogate_is_not_written():
    with pytest.raises(UnicodeEncodeError):
        codec.encode(MessageAccepted(at=1, message_id="m", digest="d", text="\ud800"))


def test_the_upgrades_lead_to_the_present():
    assert all(version < codec.VERSION for _, version in codec.UPGRADES)
