"""A body is told who asked for its call and who let it run: from the log, whatever the request says."""

import dataclasses

from given_worker import GivenWorker, carried_out
from writer import DESK, Writer, begin, call, resolve, start

from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, Tool, ToolContext
from holdfast.conversation import Approve, Principal, Proof
from holdfast.persistence import AppRecord, MemoryStore

ANA = Principal("ana", roles=("sales",), proof=Proof.OIDC)
BEN = Principal("ben", roles=("finance",), proof=Proof.KEY)


def by(principal, step):
    """The same step, by somebody."""
    return lambda state: step(state).model_copy(update={"principal": principal})


async def test_a_body_knows_who_asked_and_who_decided_with_their_proofs():
    told = []

    async def refund(context: ToolContext):
        told.append((context.requester, context.approver, context.decision, context.attempt))

    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(by(ANA, start("hello")), begin(), call("refund"))
    receipt = await writer.do(by(BEN, resolve(Approve(reason="due"))))
    [called] = writer.state.turn.calls
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=called.effect_id,
        turn_id="t1",
        tool_call_id=called.tool_call_id,
        tool="refund",
        attempt=called.attempt,
        arguments_at=called.arguments_at,
        message_seq=writer.state.turn.message_seq,
        decided_at=called.decided_at,
        fulfilled=called.fulfilled,
    )
    assert called.decided_at == receipt.seq
    tool = Tool(callback=refund, approval="required")
    worker = GivenWorker(store, Agent(name="desk", model="m", tools=[tool]))

    outcome = await carried_out(worker, request)

    assert outcome.ok
    assert told == [(ANA, BEN, None, 1)]  # the tool replays: a decision is for those that say so


async def test_nobody_is_told_where_nobody_said():
    told = []

    async def lookup(context: ToolContext):
        told.append((context.requester, context.approver))

    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("lookup"))
    [called] = writer.state.turn.calls
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=called.effect_id,
        turn_id="t1",
        tool_call_id=called.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=called.arguments_at,
    )
    worker = GivenWorker(store, Agent(name="desk", model="m", tools=[Tool(callback=lookup)]))

    for asked in (request, dataclasses.replace(request, message_seq=2)):
        await carried_out(worker, asked)
    assert told == [(None, None)]
