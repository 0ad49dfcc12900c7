"""The spans of turns and waits: of which trace they are, also after a wait and in another actor, and what they say."""

import asyncio

import pytest
from hosted import GATED, OPEN, START, FakeWorkers, activated, decided, stored, until
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from spans import CALLER, CALLERS_TRACE, Spans, id_of, links_of, parent_of, trace_of
from writer import Writer, begin, call, compact, fail_model, reply, resolve, summarize

from holdfast.actors.activation.turn_trace import TurnTrace
from holdfast.actors.workers import NoWorker, log_fields
from holdfast.conversation import Approve, CancelTurn, Deny, Principal, RunFinished, Send, Status, Wake, decide
from holdfast.conversation.terms.stages import NOTHING, Default, OnTimeout
from holdfast.conversation.text.envelope import success
from holdfast.persistence import Append, TakeoverReason
from holdfast.settings import TraceContinuation, TraceSettings
from holdfast.work_context import TRACE

DECIDER = "00-11111111111111111111111111111111-2222222222222222-01"
TRACED_START = START.model_copy(update={"traceparent": CALLER})
LINK = TraceSettings(continuation=TraceContinuation.LINK)


@pytest.fixture
def spans(monkeypatch):
    with Spans().collected(monkeypatch) as collected:
        yield collected


async def waiting(store):
    return await until(store, lambda state: state.calls.any_awaiting)


async def idle(store):
    return await until(store, lambda state: state.status is Status.IDLE)


async def turn_with_a_wait(*, decision=None, settings=None, elsewhere=False, start=TRACED_START, **said):
    """A turn that waits for a decision and goes on, with the same actor or with another one."""
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    workers.gate.set()
    activation = await activated(store, workers, traces=settings)
    await activation.ask(start)
    state = await waiting(store)
    workers.answers.append(reply())
    if elsewhere:
        owner = await store.owner("c-1")
        activation = await activated(store, workers, seen=owner.token, because=TakeoverReason.DIED, traces=settings)
    await activation.ask(decided(state, decision or Approve()).model_copy(update={"traceparent": DECIDER, **said}))
    await idle(store)
    return store, workers


async def test_a_turn_without_waits_is_one_span_below_who_started_it(spans):
    store, workers = await stored(OPEN), FakeWorkers(call("refund"), reply())
    workers.gate.set()
    activation = await activated(store, workers)
    await activation.ask(TRACED_START.model_copy(update={"spec": OPEN}))
    await idle(store)

    turn = spans.one("invoke_agent desk")
    assert (trace_of(turn), parent_of(turn)) == (CALLERS_TRACE, CALLER[36:52])
    assert dict(turn.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "c-1",
        "holdfast.turn.id": "t1",
        "holdfast.turn.outcome": "completed",
    }
    assert {request.traceparent[36:52] for request in (*workers.calls, *workers.runs)} == {id_of(turn)}


async def test_who_comes_without_a_trace_begins_one(spans):
    await turn_with_a_wait(start=START)

    assert parent_of(spans.named("invoke_agent")[0]) is None
    assert len({trace_of(span) for span in spans.all()}) == 1


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another actor"])
async def test_a_turn_goes_on_after_a_wait_below_its_first_span_and_links_to_the_one_before(spans, elsewhere):
    store, workers = await turn_with_a_wait(elsewhere=elsewhere)

    first, second = spans.named("invoke_agent")
    wait = spans.one("holdfast.wait refund")
    assert {trace_of(span) for span in spans.all()} == {CALLERS_TRACE}
    assert first.attributes["holdfast.turn.outcome"] == "waiting"
    assert parent_of(wait) == parent_of(second) == id_of(first)
    assert links_of(second) == {"before": id_of(first), "decision": DECIDER[36:52]}
    assert links_of(wait) == {"decision": DECIDER[36:52]}
    assert [request.traceparent[36:52] for request in workers.calls] == [id_of(first), id_of(second)]
    events = {event.kind: event for _, event in await store.read("c-1", after=0)}
    assert events["message_accepted"].traceparent == CALLER
    assert events["turn_started"].traceparent[36:52] == events["call_suspended"].traceparent[36:52] == id_of(first)
    assert events["suspension_settled"].traceparent[36:52] == id_of(second)
    assert wait.start_time == events["call_suspended"].at * 1_000_000
    assert wait.end_time == events["suspension_settled"].at * 1_000_000


@pytest.mark.parametrize("settings", [None, LINK], ids=["parent", "link"])
async def test_after_each_wait_a_turn_goes_on_beside_the_span_before_and_not_below_it(spans, settings):
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    workers.gate.set()
    activation = await activated(store, workers, traces=settings)
    await activation.ask(TRACED_START)
    for answer in (call("refund"), reply()):
        state = await waiting(store)
        workers.answers.append(answer)
        (asked,) = state.calls
        await activation.ask(resolve(Approve(), asked.tool_call_id)(state))
        await until(store, lambda state, before=state: state.seq > before.seq + 4)
    await idle(store)

    first, second, third = spans.named("invoke_agent")
    assert [links_of(span) for span in (second, third)] == [{"before": id_of(first)}, {"before": id_of(second)}]
    below = None if settings is LINK else id_of(first)
    assert [parent_of(span) for span in (second, third)] == [below, below]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another actor"])
async def test_with_links_alone_each_stretch_of_a_turn_is_a_trace_of_its_own(spans, elsewhere):
    await turn_with_a_wait(settings=LINK, elsewhere=elsewhere)

    first, second = spans.named("invoke_agent")
    wait = spans.one("holdfast.wait")
    assert parent_of(wait) is None
    assert parent_of(second) is None
    assert len({trace_of(first), trace_of(second), trace_of(wait)}) == 3
    assert links_of(second) == links_of(wait) == {"before": id_of(first), "decision": DECIDER[36:52]}


async def test_log_lines_of_the_work_name_its_trace(spans):
    class Seeing(FakeWorkers):
        async def call_model(self, app, code, request):
            seen.append((TRACE.get(), log_fields(request)["trace"]))
            return await super().call_model(app, code, request)

    seen = []
    store, workers = await stored(GATED), Seeing(reply())
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    await idle(store)

    assert seen == [(CALLERS_TRACE, CALLERS_TRACE)]
    assert TRACE.get() == ""


@pytest.mark.parametrize("settings", [None, LINK], ids=["parent", "link"])
async def test_an_actor_that_takes_over_in_the_middle_of_a_turn_goes_on_in_its_trace(spans, settings):
    store, workers = await stored(OPEN), FakeWorkers(call("refund"))
    first = await activated(store, workers, traces=settings)
    await first.ask(TRACED_START.model_copy(update={"spec": OPEN}))
    async with asyncio.timeout(10):
        while not workers.runs:
            await asyncio.sleep(0)
    second = FakeWorkers(reply())
    second.join_answer = RunFinished(effect_id=workers.runs[0].effect_id, ok=True, content=success("1"))
    await activated(store, second, seen=(await store.owner("c-1")).token, because=TakeoverReason.DIED, traces=settings)
    await idle(store)
    first._stop()

    over, left = spans.named("invoke_agent")
    assert [left.attributes["holdfast.turn.outcome"], over.attributes["holdfast.turn.outcome"]] == ["left", "completed"]
    assert {trace_of(left), trace_of(over)} == {CALLERS_TRACE}
    assert parent_of(over) == id_of(left)
    assert links_of(over) == {"before": id_of(left)}
    assert second.calls[0].traceparent[36:52] == id_of(over)


async def test_a_denial_is_no_error_and_nobody_is_named(spans):
    ana = Principal("ana@shop.example", proof="oidc")
    await turn_with_a_wait(decision=Deny("too much"), principal=ana)

    wait = spans.one("holdfast.wait refund")
    assert wait.status.status_code is StatusCode.OK
    state = dict(wait.attributes)
    assert len(state.pop("holdfast.suspension.id")) > 8
    assert state == {
        "gen_ai.conversation.id": "c-1",
        "gen_ai.agent.name": "desk",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.id": "call_4_1",
        "holdfast.wait.kind": "approval",
        "holdfast.wait.outcome": "deny",
        "holdfast.wait.decided_by.proof": "oidc",
    }
    assert "ana@" not in "".join(span.to_json() for span in spans.all())
    assert "too much" not in "".join(span.to_json() for span in spans.all())


async def test_who_decided_is_named_where_content_is_on(spans):
    await turn_with_a_wait(settings=TraceSettings(content=True), principal=Principal("ana@shop.example"))

    assert spans.one("holdfast.wait").attributes["holdfast.wait.decided_by.id"] == "ana@shop.example"


@pytest.mark.parametrize(
    ("terms", "status"),
    [(NOTHING, StatusCode.UNSET), (OnTimeout(default=Default(kind="deny", value='"late"')), StatusCode.OK)],
    ids=["an error", "a default"],
)
async def test_a_wait_whose_time_passes_ends_with_that_outcome(spans, terms, status):
    clock = [1_700_000_000_000]
    spec = GATED.model_copy(update={"tools": tuple(one.model_copy(update={"on_timeout": terms}) for one in GATED.tools)})
    store, workers = await stored(spec, clock=lambda: clock[0]), FakeWorkers(call("refund"))
    activation = await activated(store, workers, clock=lambda: clock[0])
    await activation.ask(TRACED_START.model_copy(update={"spec": spec}))
    state = await waiting(store)
    workers.answers.append(reply())
    workers.gate.set()
    clock[0] = state.calls.due_at + 1
    activation._owned.time.heard(clock[0])
    await activation.ask(Wake())
    await idle(store)

    wait = spans.one("holdfast.wait")
    assert (wait.attributes["holdfast.wait.outcome"], wait.status.status_code) == ("expiry", status)
    assert len(spans.named("invoke_agent")) == 2


async def test_a_look_at_a_turn_that_waits_begins_no_span(spans):
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    await waiting(store)
    begun = len(spans.begun)
    await activation.ask(Wake())

    assert len(spans.begun) == begun > 0


async def test_a_cancellation_ends_the_wait_and_no_span_of_the_turn_begins(spans):
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    await waiting(store)
    await activation.ask(CancelTurn(request_id="x-1"))

    assert [span.name for span in spans.all()] == ["invoke_agent desk", "holdfast.wait refund"]
    assert spans.one("holdfast.wait").attributes["holdfast.wait.outcome"] == "cancellation"


async def test_a_message_that_was_queued_begins_its_turn_below_who_sent_it(spans):
    store, workers = await stored(GATED), FakeWorkers()
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    await activation.ask(Send(text="and?", message_id="m-2", traceparent=DECIDER))
    workers.answers += [reply(), reply()]
    workers.gate.set()
    state = await until(store, lambda state: state.turns == 2 and state.status is Status.IDLE)

    first, second = spans.named("invoke_agent")
    assert (trace_of(first), trace_of(second)) == (CALLERS_TRACE, DECIDER[3:35])
    assert parent_of(second) == DECIDER[36:52]
    assert state.queue == ()


async def test_a_turn_that_is_cancelled_before_it_began_takes_no_span_from_the_next_one(spans):
    class Away(FakeWorkers):
        away = True

        async def published(self, app, agent):
            if self.away:
                message = "away"
                raise NoWorker(message)
            return await super().published(app, agent)

    store, workers = await stored(OPEN), Away(reply())
    workers.gate.set()
    activation = await activated(store, workers)
    await activation.ask(TRACED_START.model_copy(update={"spec": OPEN}))
    await activation.ask(Send(text="and?", message_id="m-2", traceparent=DECIDER))
    workers.away = False
    await activation.ask(CancelTurn(request_id="x-1"))
    await until(store, lambda state: state.turns == 2 and state.status is Status.IDLE)

    turn = spans.one("invoke_agent")
    assert (trace_of(turn), turn.attributes["holdfast.turn.outcome"]) == (DECIDER[3:35], "completed")
    assert turn.attributes["holdfast.turn.id"] == "t2"


async def test_a_guest_ends_the_span_of_a_summary_though_a_message_waits_behind_it(spans):
    store = await stored(OPEN)
    writer = await Writer.of(store, "c-1")
    writer.spec = OPEN
    await writer.do(lambda _: TRACED_START, begin(), reply(), compact("x-1"))
    before, trace = writer.state, TurnTrace("c-1", TraceSettings())
    begun = decide(before, begin()(before).stamped(0, OPEN, {}, trace.beginning(before)))
    begun = decide(begun.state, Send(text="and?", message_id="m-2").stamped(0, OPEN, {}))
    made = decide(begun.state, summarize(boundary=3)(begun.state).stamped(0, OPEN, {}))
    TurnTrace("c-1", TraceSettings(), visited=begun.state).written(Append("", "a-1", begun.state, made.state, 0, made.events))

    assert [span.attributes["holdfast.turn.id"] for span in spans.named("invoke_agent")] == [before.next_turn_id]
    assert made.state.busy


async def test_a_turn_that_fails_says_why_in_one_word(spans):
    store, workers = await stored(GATED), FakeWorkers(fail_model("the key sk-secret is bad", reason="model_error"))
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    await until(store, lambda state: state.status is Status.FAILED)

    turn = spans.one("invoke_agent")
    assert (turn.status.status_code, turn.attributes["error.type"]) == (StatusCode.ERROR, "model_error")
    assert "secret" not in turn.to_json()


async def test_a_decision_that_comes_twice_leaves_one_wait(spans):
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    activation = await activated(store, workers)
    await activation.ask(TRACED_START)
    decision = decided(await waiting(store), Deny())
    first, again = await activation.ask(decision), await activation.ask(decision)

    assert (first.duplicate, again.duplicate) == (False, True)
    assert len(spans.named("holdfast.wait")) == 1


async def test_where_nobody_traces_a_callers_context_goes_on_to_workers_and_nothing_else_is_stored():
    store, workers = await turn_with_a_wait()

    assert [request.traceparent for request in workers.calls] == [CALLER, CALLER]
    kept = {event.kind: event.traceparent for _, event in await store.read("c-1", after=0) if hasattr(event, "traceparent")}
    assert kept == {"message_accepted": CALLER, "turn_started": CALLER, "call_suspended": CALLER, "suspension_settled": None}


async def test_without_a_context_nothing_is_stored():
    store, workers = await turn_with_a_wait(start=START, traceparent=None)

    assert {request.traceparent for request in workers.calls} == {None}
    kept = [getattr(event, "traceparent", None) for _, event in await store.read("c-1", after=0)]
    assert set(kept) == {None}


async def test_a_trace_that_its_caller_does_not_sample_is_not_recorded(spans):
    await turn_with_a_wait(start=START.model_copy(update={"traceparent": CALLER[:-1] + "0"}))

    assert spans.all() == ()


async def test_a_bad_trace_context_counts_as_none(spans):
    await turn_with_a_wait(start=START.model_copy(update={"traceparent": "00-nonsense"}))

    assert parent_of(spans.named("invoke_agent")[0]) is None


async def test_what_a_sampler_raises_costs_the_span_alone(spans, monkeypatch):
    def broken(*_args, **_kwargs):
        message = "no"
        raise ZeroDivisionError(message)

    monkeypatch.setattr(spans.provider, "sampler", ALWAYS_OFF)
    monkeypatch.setattr(type(ALWAYS_OFF), "should_sample", broken)
    await turn_with_a_wait()

    assert spans.all() == ()
