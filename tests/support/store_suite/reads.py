"""Cases of reading: snapshot and log tail, places in the log, waiting for the next event."""

import asyncio

import pytest
from claiming import claim, give_back
from writer import (
    DESK,
    NextCommand,
    Writer,
    assign,
    begin,
    call,
    cancel,
    cancel_pending,
    comment,
    compact,
    end,
    escalate,
    fail_model,
    finish,
    interrupt,
    lose,
    reply,
    reschedule,
    resolve,
    revoke,
    revoke_given,
    rule,
    send,
    snooze,
    start,
    summarize,
    suspend,
    wake,
    withdraw,
)

from holdfast.conversation import (
    Answer,
    Approve,
    ApproverTerms,
    BeginTurn,
    Cancel,
    Deny,
    Execution,
    Level,
    Principal,
    Proof,
    Redispatch,
    Resume,
    Review,
    Scope,
    State,
    Stop,
    SuspensionKind,
    When,
    evolve,
    outstanding,
)
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.records.event_base import FailureReason, SummaryFailure
from holdfast.conversation.records.events import EVENTS, NothingCancelled
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.stages import OnTimeout, Stage
from holdfast.conversation.terms.stopping import Then
from holdfast.errors import ConversationNotFound
from holdfast.persistence import Store

LIFE: tuple[tuple[NextCommand, ...], ...] = (
    (start("hello", context='{"order":12345678901234567890}'),),
    (begin(),),
    (call(("lookup", '{"a":1}'), ("ask", '{"q":"Größe? 🙂"}'), "refund", "nonsense", content="let me see"),),
    (resolve(Answer("blue\u0000\u2028")),),
    (send("and this?"),),
    (finish(content='{"ok":true,"result":0.1}'),),
    (resolve(Approve({"amount": 2**70})),),
    (finish(ok=False, content='{"ok":false,"error":"no"}'),),
    (reply("done"),),
    (begin(),),
    (call("share", "charge"),),
    (lose(),),
    (resolve(Approve()),),
    (rule(effect=RuleEffect.ALLOW),),
    (resolve(Answer(None)),),
    (fail_model(),),
    (send("once more"), begin()),
    (call("refund", "locate", "ask"),),
    (claim(),),
    (give_back(began=False, reason="the tab sleeps"),),
    (claim("tab-2"),),
    (resolve(Deny("not today")),),
    (cancel_pending(kind=SuspensionKind.ELICITATION),),
    (cancel(),),
    (cancel(),),
    (compact(),),
    (begin(),),
    (summarize(failed=SummaryFailure.NOT_ASKED),),
    (send("bye"),),
    (begin(),),
    (fail_model(reason=FailureReason.CONTEXT_OVERFLOW, reducible=True),),
    (summarize(failed=SummaryFailure.EMPTY),),
    (summarize("Größe? 🙂"),),
    (call("lookup"),),
    (lose(),),
    (finish(),),
    (call("ship"),),
    (resolve(Approve({"to": "Rome"})),),
    (lose(),),
    (resolve(Redispatch()),),
    (lose(),),
    (resolve(Answer(False)),),
    (call("lookup"),),
    (suspend(report_md="# Look", payload='{"a":1}', resume=Resume.PASS_TO_TOOL),),
    (resolve(Review("review", "less")),),
    (suspend(),),
    (resolve(Cancel("never mind")),),
    (end(),),
)
"""Appends that lead a conversation through every kind of event."""


IN_SEQUENCE = DESK.model_copy(update={"execution": Execution.SEQUENTIAL})
STOPPING = DESK.model_copy(update={"stop": Stop(tool="lookup", then=Then.LAST_WORDS)})


async def _folded(store: Store, conversation_id: str) -> State:
    """What the log of a conversation leads to."""
    folded = State(conversation_id=conversation_id)
    for _, event in await store.read(conversation_id, after=0):
        folded = evolve(folded, event)
    return folded


async def _claimed(clerk: Writer, other: Store, *, now: int) -> None:
    """A call is claimed, given back and claimed again, and each reader sees that."""
    ana, bo = (Principal(name, proof=Proof.OIDC) for name in ("ana", "bo"))
    await clerk.do(begin(), call("locate"), now=now)
    for step, attempt in ((claim(principal=ana), 1), (give_back(principal=ana), 1), (claim("tab-2", principal=bo), 2)):
        await clerk.do(step, comment("mine?", principal=ana), now=now)
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        (view,) = await other.pending_of("c-2")
        (waiting,) = clerk.state.calls
        assert waiting.suspension is not None
        assert (view.attempt, view.expires_at) == (attempt, waiting.suspension.expires_at)
        assert (view.claimed is None) == (waiting.suspension.claim is None)
        assert view.decisions == (("answer", "fail", "cancel") if view.claimed is None else ("cancel",))
    assert view.claimed is not None
    assert (view.claimed.client_id, view.claimed.by, view.claimed.at) == ("tab-2", bo, now)
    (listed,) = [one for one in (await other.pending(limit=50)).items if one.conversation_id == "c-2"]
    assert (listed.claimed, listed.attempt, listed.expires_at) == (view.claimed, 2, view.expires_at)
    assert listed.decisions == ("cancel",)
    assert len(view.comments) == 3


async def _stopped(clerk: Writer, other: Store, *, now: int) -> None:
    """A turn reaches a bound of its agent, and the model says its last words."""
    clerk.spec = STOPPING
    await clerk.do(cancel(), send("and briefly?"), begin(), call("lookup"), now=now)
    for step in (finish(), call("lookup", content="that is all")):
        await clerk.do(step, now=now)
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")


class Reading:
    """A reader gets the events and states that were written."""

    async def test_snapshot_and_tail_equal_the_fold(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        for steps in LIFE:
            await writer.do(*steps)
            assert await other.load("c-1") == writer.state == await _folded(other, "c-1")

        assert writer.state.ended
        clerk = await Writer.of(store, "c-2")
        clerk.spec = IN_SEQUENCE
        await clerk.do(start("hello", message_id="m-2"), begin(), call("lookup", "refund", prompt="May it?"))
        await clerk.do(finish())
        await clerk.do(resolve(Approve(scope=Scope("tool", "refund", level=Level.EXECUTE))))
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await clerk.do(*(revoke(grant.grant_id, reason="enough") for grant in clerk.state.grants))
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await clerk.do(cancel(), send("and for two?"), begin())
        asked = ProposedCall(tool_call_id="call_two", name="refund", arguments="{}", approvers=ApproverTerms(minimum=2))
        await clerk.do(call(asked))
        ana, bo = (Principal(name, proof=Proof.OIDC) for name in ("ana", "bo"))
        vote = resolve(Approve(), principal=ana)
        for step in (assign("ana", principal=ana), comment("Größe? 🙂", principal=bo), vote, revoke_given("ana"), vote):
            await clerk.do(step)
            assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await clerk.do(resolve(Approve(), principal=bo))
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        late = OnTimeout(stages=(Stage(approvers=ApproverTerms(minimum=2), for_s=5),), reminders_s=(1,))
        asked = asked.model_copy(
            update={"tool_call_id": "call_late", "ruled": RuleVerdict(effect=RuleEffect.ASK, on_timeout=late)}
        )
        await clerk.do(cancel(), send("and too late?"), begin(), call(asked))
        for number in range(4):  # a reminder, an escalation by hand, its reminder, and the stage of the deadline
            due = {"now": (clerk.state.due_at or 0) - (number == 1)}
            await clerk.do(*[escalate(ApproverTerms(who=(("id:bo",),)), principal=ana)] if number == 1 else [wake()], **due)
            assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await clerk.do(snooze(60, principal=ana), now=due["now"])
        await clerk.do(snooze(90, principal=ana), now=due["now"])
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        (view,) = await other.pending_of("c-2")
        assert view.snoozed == {"oidc:ana": (due["now"] or 0) + 90_000}
        now = due["now"]
        assert (view.approvers, view.escalated_at) == (ApproverTerms(minimum=2), now)
        assert view.expires_at == (now or 0) + 5000
        (listed,) = [one for one in (await other.pending(limit=50)).items if one.conversation_id == "c-2"]
        assert (listed.approvers, listed.escalated_at) == (ApproverTerms(minimum=2), now)
        await clerk.do(send("later", message_id="m-l", due=(now or 0) + 10**6), now=now)
        seq = clerk.state.delayed[0].seq
        await clerk.do(reschedule("m-l", seq, due=(now or 0) + 10**5), send("steer", when=When.STEER), now=now)
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await clerk.do(cancel_pending(), now=now)
        await clerk.do(wake(), now=(now or 0) + 10**5)
        await clerk.do(withdraw("m-l", seq), interrupt("stop"), now=(now or 0) + 10**5)
        assert await other.load("c-2") == clerk.state == await _folded(other, "c-2")
        await _claimed(clerk, other, now=(now or 0) + 10**5)
        await _stopped(clerk, other, now=(now or 0) + 10**5)
        assert {type(event) for event in (*writer.events, *clerk.events)} == set(EVENTS) - {NothingCancelled}

    async def test_every_activation_begins_where_the_last_one_stood(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        for steps in LIFE:
            await writer.do(*steps)
            next_one = await writer.succeeded()
            assert next_one.state == writer.state
            work = [effect for effect in outstanding(writer.state) if not isinstance(effect, BeginTurn)]
            assert set(next_one.runs) == {effect.effect_id for effect in work}
            writer = next_one

    async def test_events_read_back_as_they_were_written(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        for steps in LIFE:
            await writer.do(*steps)

        assert await other.read("c-1", after=0) == list(enumerate(writer.events, 1))

    async def test_reading_goes_on_after_a_place(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        everything = await store.read("c-1", after=0)

        assert [seq for seq, _ in everything] == [1, 2, 3, 4, 5]
        assert await store.read("c-1", after=3) == everything[3:]
        assert await store.read("c-1", after=1, limit=2) == everything[1:3]
        assert await store.read("c-1", after=5) == []
        assert await store.read("c-1", after=500) == []

    async def test_a_blocked_read_wakes_at_the_next_event(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        waiting = [asyncio.create_task(other.read("c-1", after=2, block_ms=20_000)) for _ in range(3)]
        unborn = asyncio.create_task(other.read("c-2", after=0, block_ms=20_000))
        await asyncio.sleep(0)  # let them begin; it holds also if they have not

        await writer.do(begin())
        await (await Writer.of(store, "c-2")).do(start())

        for got in await asyncio.gather(*waiting):
            assert [(seq, event.kind) for seq, event in got] == [(3, "turn_started")]
        assert [seq for seq, _ in await unborn] == [1, 2]

    async def test_a_blocked_read_outlasts_a_release(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        waiting = asyncio.create_task(other.read("c-1", after=5, block_ms=20_000))
        await store.now()  # let it begin; it holds also if it has not
        await writer.release()
        anew = await Writer.of(store, "c-1")

        await anew.do(resolve(Answer("blue")))

        assert [(seq, event.kind) for seq, event in await waiting] == [(6, "suspension_settled"), (7, "call_resolved")]

    async def test_a_blocked_read_returns_at_once_if_there_is_something(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())

        assert [seq for seq, _ in await store.read("c-1", after=0, block_ms=20_000)] == [1, 2]
        assert [seq for seq, _ in await store.read("c-1", after=0, limit=1, block_ms=20_000)] == [1]

    async def test_a_blocked_read_ends_with_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())

        assert await store.read("c-1", after=2, block_ms=20) == []

    async def test_a_blocked_read_can_be_given_up(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        waiting = asyncio.create_task(store.read("c-1", after=2, block_ms=20_000))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert (await store.load("c-1")) == writer.state

    async def test_events_are_found_by_their_places(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))

        found = await store.at("c-1", [4, 1, 99, 0, 4])

        assert found == [writer.events[3], writer.events[0], None, None, writer.events[3]]
        assert await store.at("c-1", []) == []
        assert await store.at("c-unknown", [1]) == [None]

    async def test_what_was_never_started_has_no_state(self, store: Store) -> None:
        with pytest.raises(ConversationNotFound):
            await store.load("c-1")
        with pytest.raises(ConversationNotFound):
            await store.pending_of("c-1")
        assert await store.read("c-1", after=0) == []

    async def test_open_suspensions_are_shown_in_the_models_order(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        calls = (("ask", '{"q":"colour?"}'), "lookup", ("refund", '{"amount":7}'), "locate")
        await writer.do(start(), begin(), call(*calls, prompt="Really?"))

        views = await other.pending_of("c-1")

        assert [(view.tool, view.kind, view.arguments) for view in views] == [
            ("ask", "elicitation", {"q": "colour?"}),
            ("refund", "approval", {"amount": 7}),
            ("locate", "client_exec", {}),
        ]
        first = views[0]
        assert (first.conversation_id, first.agent, first.prompt) == ("c-1", "desk", "Really?")
        assert first.response_schema == {"type": ["string", "boolean", "null"]}
        assert first.expires_at == first.created_at + 3600_000
        assert tuple(view.suspension_id for view in views) == writer.suspension_ids

    async def test_edited_arguments_are_what_is_shown_next(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(("share", '{"amount":7}')))
        await writer.do(resolve(Approve({"amount": 5})), rule(effect=RuleEffect.ALLOW))

        (view,) = await store.pending_of("c-1")

        assert (view.kind, view.arguments) == ("client_exec", {"amount": 5})
