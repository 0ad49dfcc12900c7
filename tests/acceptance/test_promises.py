"""What Holdfast promises its callers, on the real thing: acknowledgement, at most once, order, deadlines, many clients."""

import asyncio
import contextlib
import json
import os
import sys
import textwrap
import time

import pytest
import redis.asyncio
from stack_fixture import eventually, kill_host, open_gate, runs_of

from holdfast.client import (
    Answer,
    Approve,
    AsyncClient,
    Client,
    ConversationExists,
    Deny,
    Fail,
    InvalidDecision,
    StaleCall,
    StaleReason,
    Status,
)
from holdfast.embedded.local_ray import ensure_ray, stop_ray
from holdfast.embedded.local_redis import ensure_redis, stop_redis
from holdfast.persistence import codec
from holdfast.testing import call, calls


async def settled(conversation, after: int = 0):
    """The state once nothing waits and nothing goes on."""
    state = await conversation.wait(after=after, timeout_s=60)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=60)
    return state


RESOLVER = """
import asyncio, json, sys
from holdfast.client import AsyncClient, Approve, StaleCall

async def main():
    conversation_id, suspension_id, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with AsyncClient.connect(timeout_s=60) as client:
        await client.conversation(conversation_id).pending()
        await client.gateway.stack.transport()
        print("ready", flush=True)
        sys.stdin.readline()

        async def one():
            try:
                receipt = await client.resolve(suspension_id, Approve(), conversation_id=conversation_id)
                return f"receipt {receipt.seq}"
            except StaleCall as error:
                return f"stale {error.reason}"

        print(json.dumps(await asyncio.gather(*(one() for _ in range(count)))), flush=True)

asyncio.run(main())
"""


async def test_promise_2_of_fifty_resolves_at_once_from_several_processes_one_takes_effect(stack, client):
    text = stack.scenarios.add("fifty", calls(call("refund", {"order": "A", "amount": 7})), "Done.")
    conversation = await client.start("support", text, conversation_id="fifty")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    arguments = [conversation.id, shown.suspension_id]
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            RESOLVER,
            *arguments,
            str(count),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for count in (17, 17, 16)
    ]
    for process in processes:
        assert await process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"go\n")
    answers = [answer for process in processes for answer in json.loads(await process.stdout.readline())]
    for process in processes:
        assert await process.wait() == 0
    receipts = [answer for answer in answers if answer.startswith("receipt")]
    stale = [answer for answer in answers if answer == "stale already_resolved"]
    assert (len(receipts), len(stale)) == (1, 49)
    assert (await settled(conversation)).reply == "Done."
    assert len(runs_of(stack, conversation.id)) == 1


async def test_one_decision_id_twice_gives_the_same_receipt_and_another_payload_is_refused(stack, client):
    text = stack.scenarios.add("decision-id", calls(call("refund", {"order": "A", "amount": 7})), "Done.")
    conversation = await client.start("support", text, conversation_id="decision-id")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    first = await shown.resolve(Approve(), decision_id="click-1")
    again = await shown.resolve(Approve(), decision_id="click-1")
    assert (first.seq, first.accepted_at, first.duplicate) == (again.seq, again.accepted_at, False)
    assert again.duplicate
    with pytest.raises(InvalidDecision, match="decision_id"):
        await shown.resolve(Deny("no"), decision_id="click-1")
    assert (await settled(conversation)).reply == "Done."
    late = await shown.resolve(Approve(), decision_id="click-1")
    assert late.seq == first.seq


async def test_a_start_whose_reply_was_lost_is_retried_with_its_message_id_alone(stack, client):
    text = stack.scenarios.add("lost-start", "Hello.")
    first = await client.start("support", text, message_id="web-request-17")
    again = await client.start("support", text, message_id="web-request-17")
    assert first.id == again.id
    assert again.receipt.duplicate
    assert (await settled(again)).reply == "Hello."
    assert [message["role"] for message in await again.messages()] == ["user", "assistant"]
    with pytest.raises(ConversationExists):
        await client.start("support", f"{text} but another", message_id="web-request-17")
    with pytest.raises(ConversationExists):
        await client.start("support", text, conversation_id=first.id, message_id="another")


async def test_promise_1_a_decision_is_acknowledged_and_in_redis_before_the_next_request_reaches_the_model(
    stack, client, store
):
    text = stack.scenarios.add("before", calls(call("ask", {"question": "?"})), "Done.")
    conversation = await client.start("support", text, conversation_id="before")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    before = len(stack.model.requests)
    stack.model.hold()
    try:
        receipt = await shown.resolve(Answer(False))
        received_at_s = time.time()
        (event,) = await store.at(conversation.id, [receipt.seq])
        assert (event.kind, event.body) == ("suspension_settled", "false")
        await stack.model.held(1)
        assert len(stack.model.requests) == before + 1
        request = stack.model.requests[-1]
        assert request.arrived_at_s * 1000 >= receipt.accepted_at - 5
        assert request.arrived_at_s > received_at_s - 0.5  # the reply goes out first, though it may take longer on its way
        assert request.body["messages"][-1]["content"] == '{"ok":true,"result":false}'
        assert (await conversation.state()).status is Status.GENERATING
    finally:
        stack.model.release()
    assert (await settled(conversation)).reply == "Done."


WATCHED_S = 2.0
"""How long nothing must happen while a write is held up: what is dispatched too early is there after a tenth of it."""


@contextlib.asynccontextmanager
async def writes_held_up(redis_url):
    """No write to Redis is carried out meanwhile; reads are."""
    async with redis.asyncio.from_url(redis_url) as admin:
        await admin.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            yield
        finally:
            await admin.execute_command("CLIENT", "UNPAUSE")


async def never(condition, *, within_s):
    """Watchdog that a condition does not come to hold."""
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        assert not condition()
        await asyncio.sleep(0.02)


async def test_promise_1_the_model_is_not_asked_before_the_decision_is_written(stack, client, store):
    text = stack.scenarios.add("written-first", calls(call("ask", {"question": "?"})), "Done.")
    conversation = await client.start("support", text, conversation_id="written-first")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    requests = len(stack.model.requests)
    async with writes_held_up(stack.redis_url):
        resolving = asyncio.create_task(shown.resolve(Answer(False)))
        await never(lambda: resolving.done() or len(stack.model.requests) > requests, within_s=WATCHED_S)
    receipt = await resolving
    (event,) = await store.at(conversation.id, [receipt.seq])
    assert event.kind == "suspension_settled"
    assert (await settled(conversation, receipt.seq)).reply == "Done."
    assert len(stack.model.requests) == requests + 1
    assert stack.model.requests[-1].arrived_at_s * 1000 >= receipt.accepted_at - 5


async def test_a_mix_of_calls_runs_and_waits_side_by_side_and_results_stand_in_the_models_order(stack, client):
    text = stack.scenarios.add(
        "mix",
        calls(
            call("ask", {"question": "?"}),
            call("lookup", {"order": "A"}),
            call("camera", {"mode": "wide"}),
            call("refund", {"order": "A", "amount": 7}),
            call("where", {}),
            call("nope", {}),
            call("refund", "{broken"),
            call("refund", {"order": "A"}),
        ),
        "Done.",
    )
    conversation = await client.start("support", text, conversation_id="mix")
    state = await conversation.wait(timeout_s=60)
    by_tool = {shown.tool: shown for shown in state.pending}
    assert list(by_tool) == ["ask", "camera", "refund", "where"]
    await by_tool["where"].resolve(Fail("no permission"))
    await by_tool["refund"].resolve(Approve({"order": "B", "amount": 5}))
    with pytest.raises(InvalidDecision, match=r"amount"):
        await by_tool["camera"].resolve(Approve({"amount": 5}))
    await by_tool["camera"].resolve(Approve())
    async with asyncio.timeout(60):  # a worker judges it once more before it is for the client
        while not (executions := [one for one in await conversation.pending() if one.kind == "client_exec"]):
            await asyncio.sleep(0.02)
    (execution,) = executions
    with pytest.raises(StaleCall) as stale:
        await by_tool["camera"].resolve(Approve())
    assert stale.value.reason is StaleReason.SUPERSEDED
    with pytest.raises(StaleCall):
        await conversation.resolve(by_tool["camera"].suspension_id, Answer("x"))
    await by_tool["ask"].resolve(Answer(None))
    receipt = await execution.resolve(Answer({"picture": 1}))
    assert (await settled(conversation, receipt.seq)).reply == "Done."
    results = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    assert results[:5] == [
        {"ok": True, "result": None},
        {"ok": True, "result": {"order": "A", "total": 42}},
        {"ok": True, "result": {"picture": 1}, "untrusted": True},
        {"ok": True, "result": "refunded 5 of B", "edited_arguments": {"order": "B", "amount": 5}},
        {"ok": False, "error": "the client failed: no permission", "untrusted": True},
    ]
    assert [result["ok"] for result in results[5:]] == [False, False, False]
    assert "no tool named nope" in results[5]["error"]
    assert "not JSON" in results[6]["error"]
    assert "amount" in results[7]["error"]


async def test_messages_sent_during_a_turn_queue_in_order(stack, client):
    text = stack.scenarios.add("queue", calls(call("ask", {"question": "?"})), "One.", "Two.", "Three.")
    conversation = await client.start("support", text, conversation_id="queue")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    await conversation.send("second", message_id="m2")
    last = await conversation.send("third", message_id="m3")
    assert (await conversation.send("third", message_id="m3")).seq == last.seq
    await shown.resolve(Answer(0))
    state = await settled(conversation, last.seq)
    while state.reply != "Three.":
        state = await settled(conversation, state.seq)
    spoken = [message["content"] for message in await conversation.messages() if message["role"] in ("user", "assistant")]
    assert spoken == [text, None, "One.", "second", "Two.", "third", "Three."]


async def test_promise_7_a_call_nobody_answers_ends_at_its_deadline_also_when_its_actor_was_dead(stack, client, store):
    text = stack.scenarios.add("deadline", calls(call("ask_briefly", {"question": "?"})), "Never mind.")
    conversation = await client.start("support", text, conversation_id="deadline")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    await kill_host(store, conversation.id)
    assert (await settled(conversation)).reply == "Never mind."
    (result,) = [message["content"] for message in await conversation.messages() if message["role"] == "tool"]
    assert json.loads(result) == {"ok": False, "error": "the user did not respond in time"}
    with pytest.raises(StaleCall) as stale:
        await shown.resolve(Answer("late"))
    assert stale.value.reason is StaleReason.EXPIRED


async def test_events_come_without_gaps_from_any_cursor_and_deltas_are_live(stack, client):
    text = stack.scenarios.add("events", calls(call("report", {})), "A longer final answer, said in pieces.")
    stack.model.slow(between_chunks_s=0.05)
    try:
        conversation = await client.start("support", text, conversation_id="events")
        seen = []
        async with asyncio.timeout(60):
            async for event in conversation.events():
                seen.append(event)
                if event.kind == "turn_completed":
                    break
    finally:
        stack.model.clear()
    durable = [event for event in seen if event.seq is not None]
    assert [event.seq for event in durable] == list(range(1, len(durable) + 1))
    assert [event.kind for event in durable] == [
        "conversation_started",
        "message_accepted",
        "turn_started",
        "model_answered",
        "run_scheduled",
        "call_resolved",
        "model_answered",
        "turn_completed",
    ]
    deltas = [event for event in seen if event.kind == "text_delta"]
    assert "".join(event.data["text"] for event in deltas) in "A longer final answer, said in pieces."
    assert deltas
    assert {event.data["attempt"] for event in deltas} == {1}
    again = []
    async for event in conversation.events(after=5, live=False):
        again.append(event)
        if event.kind == "turn_completed":
            break
    assert again == durable[5:]


async def test_cancel_says_what_it_cancelled_and_the_conversation_goes_on(stack, client):
    text = stack.scenarios.add("cancel", calls(call("ask", {"question": "?"})), "After.")
    conversation = await client.start("support", text, conversation_id="cancel")
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    cancelled = await conversation.cancel()
    assert (cancelled.turn_id, cancelled.calls) == ("t1", (shown.tool_call_id,))
    assert (await conversation.cancel()).turn_id is None
    with pytest.raises(StaleCall) as stale:
        await shown.resolve(Answer(1))
    assert stale.value.reason is StaleReason.CANCELLED
    receipt = await conversation.send("go on")
    assert (await settled(conversation, receipt.seq)).reply == "After."


@pytest.mark.parametrize("revived", [False, True])
async def test_cancel_in_the_middle_of_a_model_call_closes_its_stream(stack, client, store, revived):
    text = stack.scenarios.add(f"cancel-model-{revived}", "After.")
    stack.model.hold(times=1)
    conversation = await client.start("support", text, conversation_id=f"cancel-model-{revived}")
    await stack.model.held(1)
    if revived:  # who takes it over has not asked for anything yet when it is cancelled
        await kill_host(store, conversation.id)
    cancelled = await conversation.cancel()
    assert (cancelled.turn_id, cancelled.calls) == ("t1", ())
    await asyncio.to_thread(eventually, lambda: not stack.model._held, what="the worker hangs up")
    receipt = await conversation.send("go on")
    assert (await settled(conversation, receipt.seq)).reply == "After."


async def test_a_result_that_comes_after_the_cancellation_is_recorded_as_late_and_changes_nothing(stack, client, store):
    text = stack.scenarios.add("late", calls(call("slow", {})), "After.")
    conversation = await client.start("support", text, conversation_id="late")
    (run,) = await asyncio.to_thread(eventually, lambda: runs_of(stack, conversation.id))
    assert (await conversation.cancel()).calls == (run["key"],)
    before = await store.read(conversation.id, after=0)
    open_gate(stack, conversation.id)
    async with asyncio.timeout(60):
        while not (late := await store.late(conversation.id)):
            await asyncio.sleep(0.02)
    ((effect_id, found),) = late.items()
    assert effect_id.startswith(run["key"])
    assert codec.decode_outcome(found.outcome).ok is True
    assert await store.read(conversation.id, after=0) == before
    receipt = await conversation.send("go on")
    assert (await settled(conversation, receipt.seq)).reply == "After."


async def test_a_model_error_fails_the_turn_visibly_after_its_retries_and_the_conversation_goes_on(stack, client):
    text = stack.scenarios.add("model-error", "Back again.")
    stack.model.fail(401, times=1, message="bad key")
    conversation = await client.start("support", text, conversation_id="model-error")
    state = await settled(conversation)
    assert state.status is Status.FAILED
    assert "bad key" in state.error
    stack.model.fail(429, times=1, retry_after=0)
    stack.model.break_connection(times=1)
    receipt = await conversation.send("again")
    assert (await settled(conversation, receipt.seq)).reply == "Back again."


async def test_an_edited_tool_runs_its_new_body_on_the_next_turn(stack, tmp_path):
    source = """
        from holdfast.agent import Agent, App, tool

        @tool
        def version() -> str:
            "The version."
            return "{version}"

        app = App(agents=[Agent(name="versions", tools=[version])])
    """
    script = """
        import asyncio, sys
        from holdfast.client import AsyncClient

        async def main():
            async with AsyncClient.connect("edited_app:app", timeout_s=60) as client:
                if sys.argv[1] == "start":
                    conversation = await client.start("versions", "edited", conversation_id="edited")
                    receipt = conversation.receipt
                else:
                    conversation = client.conversation("edited")
                    receipt = await conversation.send("again")
                await conversation.wait(after=receipt.seq, timeout_s=60)
                print([m["content"] for m in await conversation.messages() if m["role"] == "tool"][-1])

        asyncio.run(main())
    """
    stack.scenarios.add("edited", calls(call("version", {})), "One.", calls(call("version", {})), "Two.")
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    printed = []
    for version, what in (("old", "start"), ("new", "send")):
        (tmp_path / "edited_app.py").write_text(textwrap.dedent(source).format(version=version))
        process = stack.python("script.py", what, cwd=tmp_path)
        out, error = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == 0, error
        printed.append(json.loads(out))
    assert printed == [{"ok": True, "result": "old"}, {"ok": True, "result": "new"}]


def test_the_blocking_client_serves_threads(stack):
    text = stack.scenarios.add("blocking", calls(call("ask_number", {"question": "?"})), "Done.")
    with Client.connect("shop_app:app", timeout_s=60) as client:
        conversation = client.start("support", text, conversation_id="blocking")
        state = conversation.wait(timeout_s=60)
        (shown,) = state.pending
        with pytest.raises(InvalidDecision, match=r"\$"):
            shown.resolve(Answer({"n": "seven"}))
        assert [item.tool_call_id for item in client.pending(agent="support").items if item.conversation_id == "blocking"]
        receipt = shown.resolve(Answer({"n": 7}))
        assert conversation.wait(after=receipt.seq, timeout_s=60).reply == "Done."
        kinds = []
        for event in conversation.events(live=False):
            kinds.append(event.kind)
            if event.kind == "turn_completed":
                break
        assert kinds[0] == "conversation_started"
        assert client.conversations(status="idle").items


async def test_everything_stopped_and_started_again_keeps_what_waits_and_its_deadline(stack, store):
    waits = stack.scenarios.add("stopped", calls(call("refund", {"order": "A", "amount": 7})), "Done.")
    expires = stack.scenarios.add("expires", calls(call("ask_briefly", {"question": "?"})), "Never mind.")
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as client:
        waiting = await client.start("support", waits, conversation_id="stopped")
        (shown,) = (await waiting.wait(timeout_s=60)).pending
        expiring = await client.start("support", expires, conversation_id="expires")
        (brief,) = (await expiring.wait(timeout_s=60)).pending
    await store.close()
    assert await asyncio.to_thread(stop_ray, stack.home)
    assert await asyncio.to_thread(stop_redis, stack.home)

    assert await asyncio.to_thread(ensure_redis, stack.home) == stack.redis_url
    process = stack.python("-X", "importtime", "-m", "holdfast.cli", "pending", "--json")
    out, imports = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0, imports[-2000:]
    assert shown.suspension_id in out
    modules = {line.rpartition("|")[2].strip() for line in imports.splitlines() if line.startswith("import time:")}
    assert not {module for module in modules if module.split(".")[0] in ("ray", "litellm")}

    await asyncio.to_thread(ensure_ray, stack.home)
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as client:
        receipt = await client.resolve(shown, Approve(), decision_id="after-restart")
        assert (await settled(client.conversation(waiting.id), receipt.seq)).reply == "Done."
        assert (await settled(client.conversation(expiring.id), 6)).reply == "Never mind."
        with pytest.raises(StaleCall) as stale:
            await client.resolve(brief, Answer(1))
        assert stale.value.reason is StaleReason.EXPIRED


@pytest.mark.gate
async def test_two_processes_that_start_the_stack_at_the_same_moment_share_one(stack, tmp_path):
    script = """
        import asyncio
        from holdfast.client import AsyncClient

        async def main():
            async with AsyncClient.connect(home=%r, timeout_s=60) as client:
                transport = await client.gateway.stack.transport()
                store = await client.gateway.stack.store()
                print(store.store_id, transport.cluster.cluster_id, flush=True)

        asyncio.run(main())
    """ % str(stack.home.path.parent / "race")  # noqa: UP031 - braces stand in the script
    (tmp_path / "race.py").write_text(textwrap.dedent(script))
    environment = {"HOLDFAST_HOME": str(stack.home.path.parent / "race")}
    stack.env |= environment
    from holdfast.embedded.home import Home  # noqa: PLC0415 - only here

    try:
        processes = [stack.python("race.py", cwd=tmp_path) for _ in range(2)]
        answers = [await asyncio.to_thread(process.communicate, timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0, 0], answers
        assert len({out for out, _ in answers}) == 1
        started = [line for _, error in answers for line in error.splitlines() if line.startswith("holdfast: started")]
        assert len(started) == 2, answers  # one Redis, one Ray, each started once
    finally:
        stack.env["HOLDFAST_HOME"] = os.environ["HOLDFAST_HOME"]
        race = Home.open(stack.home.path.parent / "race")
        stop_ray(race)
        stop_redis(race)


async def test_a_conversation_waits_at_rest_without_a_process(stack, client, store):
    text = stack.scenarios.add("at-rest", calls(call("ask", {"question": "?"})), "Done.")
    conversation = await client.start("support", text, conversation_id="at-rest")
    (shown,) = (await conversation.wait(timeout_s=60)).pending

    async def released() -> bool:
        return (await store.owner(conversation.id)).actor == ""

    async with asyncio.timeout(60):
        while not await released():
            await asyncio.sleep(0.1)
    receipt = await shown.resolve(Answer("x"))
    assert (await settled(conversation, receipt.seq)).reply == "Done."
