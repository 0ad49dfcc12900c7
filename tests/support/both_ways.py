"""What a client does, case by case, and how what it observes is compared: for every way to a conversation.

A case takes a client and what it stands before, which has a conversation `c-1` that waits for an approval and an answer.
"""

import asyncio
import dataclasses
import json

import pytest
from errors_to_show import as_told
from family import asking, begun, child_of, delegated
from pydantic import BaseModel
from writer import DESK, begin, call, end, reply, suspend

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import Agent, App, Rule, Rules, tool
from holdfast.client.publishing import Here
from holdfast.conversation import (
    Answer,
    Approve,
    CallTarget,
    Cancel,
    Deny,
    Executor,
    Fail,
    ModelFailed,
    Question,
    Redispatch,
    Review,
    RunFinished,
    Scope,
    ToolSpec,
)
from holdfast.conversation.log.owed import Envelope, notice_target
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.spec import UnattendedSpec
from holdfast.errors import HoldfastError
from holdfast.persistence import codec

SOME_TIME = 1_000_000_000_000
"""Numbers beyond this one are times in milliseconds."""


def plain(value):
    """A value as it is compared: objects by class and fields, times as the fact that they are there."""
    if isinstance(value, HoldfastError):
        return as_told(value)
    if isinstance(value, BaseModel):
        return type(value).__name__.partition("[")[0], plain(dict(value))
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if one.name not in {"_resolve", "requester"}]
        return type(value).__name__, {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        who = {"principal", "requester", *(["by"] if "grant_id" in value else [])}  # a server says who it was
        dated = {"salt", "shown", "head", "audit_head"}  # digests over times, over who it was, and over what is random
        return {name: plain(one) for name, one in value.items() if name not in who | dated}
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(one) for one in value]
    if type(value) is int and value > SOME_TIME:
        return "a time"
    return type(value).__name__, value


async def raised(work):
    """The error that some work raises."""
    with pytest.raises(HoldfastError) as found:
        await work
    return found.value


def aside(server, work):
    """What something does in the loop of the server, from a case that may run there itself."""
    if asyncio.get_running_loop() is server._loop:
        return work
    return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, server._loop))


async def starting(client, _):
    first = await client.start("desk", "Hello?", message_id="m/1?#%", context={"user": [1, None, "ü"]})
    again = await client.start("desk", "Hello?", message_id="m/1?#%", context={"user": [1, None, "ü"]})
    named = await client.start("desk", "Hello?", conversation_id="named")
    return [
        *(one for made in (first, again, named) for one in (made.id, made.receipt)),
        repr(named),
        await first.message("m/1?#%"),
        await raised(client.start("desk", "Something else", message_id="m/1?#%")),
        await raised(client.start("nobody", "Hello?")),
        await raised(client.start("desk", "Hello?", conversation_id="no id")),
        await raised(client.start("desk", "Hello?", message_id="no id")),
        await raised(client.start("desk", 7)),
        await raised(client.start("desk", "\ud800")),
        await raised(client.start("desk", "x" * 1_100_000, conversation_id="large")),
        await raised(client.start("desk", "Hello?", context={1, 2})),
    ]


async def showing(client, _):
    conversation = client.conversation("c-1")
    return [
        await conversation.state(),
        await conversation.pending(),
        await conversation.wait(),
        await conversation.wait(after=10_000, timeout_s=0.1),
        await conversation.wait(timeout_s=0),
        await conversation.messages(),
        first := await conversation.messages_page(limit=1),
        await conversation.messages_page(limit=1, after=first.next),
        last := await conversation.messages_page(limit=1, before="end"),
        await conversation.messages_page(limit=1, before=last.previous),
        await raised(conversation.messages_page(after="none")),
        await raised(conversation.messages_page(before="none")),
        await raised(conversation.messages_page(before="end", after="1.0")),
        await conversation.context(),
        await conversation.usage(),
        [await client.usage(by, agent="desk", limit=1) for by in ("model", "tool", "agent")],
        await conversation.turns(),
        await conversation.turns_page(limit=1),
        await conversation.turns_page(limit=1, before="end"),
        await conversation.turn((await conversation.turns())[0].turn_id),
        await conversation.message("m-1"),
        await raised(conversation.turn("t-none")),
        await raised(conversation.turn("no/turn")),
        await raised(conversation.message("m-none")),
        await raised(conversation.message("no id")),
        await raised(conversation.wait(after=-1)),
        await raised(conversation.wait(timeout_s=float("nan"))),
    ]


async def trees(client, server):
    async def grown():
        root = await begun(server.store, "root", asking("root", "clerk", "other"))
        root.salt = lambda: "salt"
        first, _ = await delegated(root, "clerk", "other", now=2 * SOME_TIME)  # a child's id has both in it
        clerk = await child_of(root, first, DESK.model_copy(update={"name": "clerk"}))
        await clerk.do(call("refund", "ask"))

    await aside(server, grown())
    first = await client.pending(root="root", limit=1)
    assert [one.agent for one in first.items[0].path] == ["root"]
    return [
        await client.conversation("root").tree(),
        await client.conversation("root").state(),
        await client.conversation("c-1").tree(),
        first.items,
        await client.pending(root="root", limit=1, after=first.next),
        await client.pending(root="root", tool="ask"),
        await raised(client.conversation("c-2").tree()),
        await raised(client.pending(root="c-2")),
        await raised(client.pending(root="no id")),
        await raised(client.pending(root=7)),
    ]


async def troubled(client, server):
    conversation, store = client.conversation("c-1"), server.store
    before = await conversation.state()
    late = [("call_9#1", codec.encode(RunFinished(effect_id="call_9#1", ok=True, content="\u00fc" * 600)))]
    late += [("call_9#2", codec.encode(ModelFailed(effect_id="call_9#2", error="no answer"))), ("call_9#3", b"nothing")]
    for effect_id, outcome in late:
        await aside(server, store.finish("c-1", effect_id, incarnation="i-1", outcome=outcome))
    await aside(server, store.put_problem(before.app, "ImportError: no module"))
    after = await conversation.state()
    assert (after.agent, after.app, after.problem) == ("desk", before.app, "ImportError: no module")
    assert before.created_at == after.created_at > SOME_TIME
    assert [(one.content or "")[-4:] for one in after.late] == ["üüü…", "swer", ""]
    return [before, after, await conversation.wait(timeout_s=0)]


async def deciding(client, _):
    conversation = client.conversation("c-1")
    approval, question = await conversation.pending()
    wrong = await raised(approval.resolve(Answer(1)))
    receipt = await approval.resolve(Approve({"order": "8"}), decision_id="d-1")
    return [
        wrong,
        receipt,
        await approval.resolve(Approve({"order": "8"}), decision_id="d-1"),
        await client.resolve(approval.suspension_id, Approve({"order": "8"}), conversation_id="c-1", decision_id="d-1"),
        await raised(approval.resolve(Deny("too late"))),
        await raised(client.resolve(approval.suspension_id, Deny(), conversation_id="c-1")),
        await raised(client.resolve(approval.suspension_id, Deny())),
        await raised(client.resolve("s-none", Deny())),
        await raised(client.pending_call(approval.suspension_id)),
        await raised(client.pending_call(approval.suspension_id, conversation_id="c-1")),
        await raised(client.pending_call("no/such suspension", conversation_id="c-1")),
        await raised(client.pending_call("no/such suspension", conversation_id="c-2")),
        await raised(client.pending_call(7)),
        await client.pending_call(question.suspension_id),
        await client.pending_call(question.suspension_id, conversation_id="c-1"),
        await raised(conversation.resolve(question.model_copy(update={"suspension_id": "s-other"}), Answer(7))),
        await raised(conversation.resolve("s-none", Answer(7))),
        await raised(conversation.resolve("s/none ü", Redispatch())),
        await raised(conversation.resolve(question.suspension_id, "yes")),
        await raised(conversation.resolve(question.suspension_id, Answer({1}))),
        await raised(conversation.resolve(question.suspension_id, Fail("x"))),
        await conversation.resolve(question.suspension_id, Answer("blue"), decision_id="d/2"),
        await raised(client.resolve("s-1", Approve(), conversation_id="c-2")),
        await raised(client.resolve(7, Approve(), conversation_id="c-1")),
        await raised(client.resolve("s-1", Approve(), conversation_id="c-1", decision_id="no id")),
    ]


async def reasons(client, _):
    conversation = client.conversation("c-1")
    approval, question = await conversation.pending()
    return [
        await raised(approval.resolve(Approve(reason=7))),
        await raised(approval.resolve(Approve(reason="x" * 5000))),
        await raised(approval.resolve(Review("allow"))),
        await raised(approval.resolve(Review("maybe"))),
        await approval.resolve(Approve({"order": "8"}, reason="The mug is broken."), decision_id="d-1"),
        await raised(approval.resolve(Approve({"order": "8"}, reason="Another."), decision_id="d-1")),
        await question.resolve(Cancel("nobody is there"), decision_id="d-2"),
        await question.resolve(Cancel("nobody is there"), decision_id="d-2"),
        [one async for one in _some(conversation.events(live=False), 8)],
    ]


async def reviewing(client, server):
    conversation, writer = client.conversation("c-1"), server.stack.writers["c-1"]
    approval, _ = await conversation.pending()
    await approval.resolve(Approve(), decision_id="d-1")
    asked = {"message": "May it?", "report_md": "# Why", "payload": '{"amount":[900,null]}', "action": "confirm"}
    await aside(server, writer.do(suspend(title="A refund of 900", **asked)))
    review = (await conversation.pending())[0]
    assert (review.kind, review.payload, review.decisions) == ("review", {"amount": [900, None]}, ("review", "cancel"))
    return [
        review,
        (await client.pending(kind="review")).items,
        await raised(review.resolve(Approve())),
        await raised(review.resolve(Review("review", "x" * 5000))),
        await review.resolve(Review("review", "halve it"), decision_id="d-2"),
        await raised(review.resolve(Review("allow"))),
        await raised(client.resolve(review.suspension_id, Review("allow"), conversation_id="c-1")),
    ]


SOURCES = Scope("path", "src/**", level="write", ends_s=600)


async def granting(client, server):
    conversation = await client.start("desk", "Hello?", conversation_id="c-8")
    touched = {"a": ("src/a",), "b": ("src/b", "lib/b"), "c": ("src/c",), "d": None, "e": ()}
    asked = [
        ProposedCall(
            tool_call_id=f"call_{name}",
            name="refund",
            arguments="{}",
            targets=None if paths is None else tuple(CallTarget(kind="path", value=one, level="write") for one in paths),
        )
        for name, paths in touched.items()
    ]
    await aside(server, server.stack.writers["c-8"].do(begin(), call(*asked)))
    shown = await conversation.pending()
    first, second, third, fourth, _ = shown
    found = [
        await conversation.grants(),
        [one.targets for one in shown],
        [one.to_dict()["targets"] for one in shown],
        await raised(first.resolve(Approve({"order": "8"}, scope=SOURCES))),
        await raised(first.resolve(Approve(scope="src/**"))),
        await raised(conversation.resolve_many({first.suspension_id: Approve({}, scope=SOURCES)})),
        await first.resolve(Approve(scope=SOURCES), decision_id="d-1"),
        await first.resolve(Approve(scope=SOURCES), decision_id="d-1"),
        await raised(first.resolve(Approve(), decision_id="d-1")),
        await raised(third.resolve(Deny())),
        await conversation.resolve_many(
            {second.suspension_id: Approve(scope=Scope("path", "lib/*", level="read"))}, decision_id="d-2"
        ),
        await client.resolve_each(
            [(fourth, Approve(scope=Scope("tool", "*", level="admin", everything=True)))], decision_id="d-3"
        ),
        await conversation.state(),
    ]
    granted = await conversation.grants()
    given, *_ = granted
    return [
        *found,
        granted,
        await raised(conversation.revoke("g99")),
        await raised(conversation.revoke("no/such \u00fc")),
        await raised(conversation.revoke(7)),
        await raised(conversation.revoke(given.grant_id, 7)),
        await raised(conversation.revoke(given.grant_id, "x" * 5000)),
        await raised(conversation.revoke(given.grant_id, request_id="no id")),
        await conversation.revoke(given.grant_id, "enough of it", request_id="r-1"),
        await conversation.revoke(given.grant_id, "enough of it", request_id="r-1"),
        await raised(conversation.revoke(given.grant_id, request_id="r-1")),
        await raised(conversation.revoke(given.grant_id)),
        [one.pattern for one in await conversation.grants()],
        [one async for one in _some(conversation.events(live=False), 18)],
        await conversation.end(request_id="e-1"),
        await conversation.grants(),
        await raised(conversation.revoke("g1")),
        await raised(client.conversation("c-none").grants()),
        await raised(client.conversation("c-none").revoke("g1")),
    ]


QUESTIONS = {
    "questions": [
        {"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]},
        {"id": "extras", "text": "What else?", "options": ["meal", "bag"], "multiple": True, "default": ["bag"]},
        {"id": "note", "text": "Anything to add?", "required": False},
    ]
}
QUIZ = ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True)


async def questioning(client, server):
    conversation = await client.start("desk", "Hello?", conversation_id="c-8")
    writer = server.stack.writers["c-8"]
    writer.spec = writer.spec.model_copy(update={"tools": (*writer.spec.tools, QUIZ)})
    await aside(server, writer.do(begin(), call(("quiz", json.dumps(QUESTIONS)), ("quiz", json.dumps(QUESTIONS)))))
    first, second = await conversation.pending()
    assert first.questions[1] == Question("extras", "What else?", options=["meal", "bag"], multiple=True, default=["bag"])
    return [
        first,
        first.to_dict(),
        (await client.pending(kind="elicitation")).items,
        await client.pending_call(first.suspension_id),
        await raised(first.resolve(Answer("Rome"))),
        await raised(first.resolve(Answer({"city": "Paris"}))),
        await raised(first.resolve(Answer({"city": "Rome", "town": "Oslo"}))),
        await raised(conversation.resolve_many({first.suspension_id: Answer({})})),
        await first.resolve(Answer({"city": "Oslo"}), decision_id="d-1"),
        await first.resolve(Answer({"city": "Oslo"}), decision_id="d-1"),
        await raised(first.resolve(Answer({"city": "Rome"}), decision_id="d-1")),
        await client.resolve_each([(second, Answer({"city": 7}))]),
        await second.resolve(Cancel("nobody knows"), decision_id="d-2"),
        [one async for one in _some(conversation.events(live=False), 10)],
        await conversation.messages(),
    ]


async def leaving_alone(client, server):
    conversation = await client.start("desk", "Hello?", conversation_id="c-8", attended=False)
    writer = server.stack.writers["c-8"]
    unattended = UnattendedSpec(approvals="deny", questions="cancel")
    writer.spec = writer.spec.model_copy(update={"unattended": unattended})
    await aside(server, writer.do(begin(), call("refund", "ask")))
    state = await conversation.state()
    assert (state.attended, state.pending) == (False, [])
    return [
        state,
        (await client.start("desk", "Hello?", conversation_id="c-8", attended=False)).receipt,
        await raised(client.start("desk", "Hello?", conversation_id="c-8")),
        await raised(client.start("desk", "Hello?", attended="no")),
        [one async for one in _some(conversation.events(live=False), 8)],
    ]


async def deciding_many(client, _):
    conversation = client.conversation("c-1")
    approval, question = [one.suspension_id for one in await conversation.pending()]
    other = (await client.start("desk", "Hello?", conversation_id="c-8")).id
    both = {approval: Approve({"order": "8"}, reason="seen"), question: Answer(None)}
    found = [
        await raised(conversation.resolve_many({approval: Approve(), "s-none": Deny()})),
        await raised(conversation.resolve_many({approval: Approve(), question: Answer(7), "no/such ü": Cancel()})),
        await raised(conversation.resolve_many({approval: Review("allow"), question: Approve()})),
        await raised(conversation.resolve_many({})),
        await raised(conversation.resolve_many([approval])),
        await raised(conversation.resolve_many({approval: "yes"})),
        await raised(conversation.resolve_many({approval: Review("maybe")})),
        await raised(conversation.resolve_many({7: Approve()})),
        await raised(conversation.resolve_many({"\ud800": Approve()})),
        await raised(conversation.resolve_many({f"s-{number}": Deny() for number in range(1001)})),
        len((await raised(conversation.resolve_many({f"s-{number}": Deny() for number in range(1000)}))).errors),
        await raised(conversation.resolve_many(both, decision_id="no id")),
        await raised(client.conversation(other).resolve_many(both)),
        await raised(client.conversation("c-none").resolve_many(both)),
        len(await conversation.pending()),
    ]
    receipts = await conversation.resolve_many(both, decision_id="d-1")
    return [
        *found,
        receipts,
        await conversation.resolve_many(both, decision_id="d-1"),
        await raised(conversation.resolve_many({approval: Deny(), question: Answer(None)}, decision_id="d-1")),
        await raised(conversation.resolve_many(both)),
        [one async for one in _some(conversation.events(live=False), 8)],
    ]


async def deciding_each(client, _):
    await client.start("desk", "Hello?", conversation_id="c-8")
    approval, question = await client.conversation("c-1").pending()
    elsewhere = question.model_copy(update={"conversation_id": "c-8"})
    nowhere = question.model_copy(update={"conversation_id": "c-none", "suspension_id": "s-2"})
    hidden = approval.model_copy(update={"suspension_id": "s-3", "problem": "it cannot be read"})
    many = [(question.model_copy(update={"suspension_id": f"s-more-{number}"}), Answer("x")) for number in range(250)]
    deep = None
    for _ in range(99):
        deep = [deep]
    strange = question.model_copy(update={"suspension_id": "no/such \u00fc"})
    pairs = [(question, Answer(7)), (approval, Approve(reason="seen")), (nowhere, Answer(7)), (hidden, Approve())]
    return [
        await client.resolve_each([]),
        await raised(client.resolve_each(pairs * 2)),
        await raised(client.resolve_each(pairs[0])),
        await raised(client.resolve_each([(approval, "yes")])),
        await raised(client.resolve_each([*pairs, (approval.suspension_id, Deny())])),
        await raised(client.resolve_each(pairs * 300)),
        await raised(client.resolve_each(pairs, decision_id="no id")),
        await client.resolve_each([(elsewhere, Answer("x")), (strange, Answer("x"))]),
        await client.resolve_each([(question, Answer(deep)), *many]),
        await client.resolve_each(pairs, decision_id="d-1"),
        await client.resolve_each(pairs, decision_id="d-1"),
        await client.resolve_each([(question, Answer("x" * 900_000)), (approval, Deny("y" * 900_000))]),
        len(await client.conversation("c-1").pending()),
    ]


async def _some(events, count):
    """The first events of a stream, which is closed then."""
    for _ in range(count):
        yield await anext(events)
    await events.aclose()


async def steering(client, _):
    conversation = client.conversation("c-1")
    return [
        await conversation.send("And?", message_id="m-2"),
        await conversation.send("And?", message_id="m-2"),
        await raised(conversation.send("Another", message_id="m-2")),
        await raised(conversation.send("Another", overrides={"temperature": 0.5})),
        await raised(conversation.send("Another", overrides={"temperature": 7})),
        await raised(conversation.interrupt("Another", overrides={"model": "openai/other"})),
        await raised(client.start("desk", "Another", overrides={"max_tokens": 7})),
        await conversation.message("m-2"),
        await raised(conversation.cancel("t-none", request_id="r-0")),
        await conversation.cancel_pending("elicitation", "not any more", request_id="p-1"),
        await conversation.cancel_pending(request_id="p-1", kind="elicitation", reason="not any more"),
        await raised(conversation.cancel_pending("none")),
        await raised(conversation.cancel_pending(reason=7)),
        await raised(conversation.cancel(7)),
        await raised(conversation.cancel(wait_s=-1)),
        await conversation.cancel(request_id="r-1", wait_s=0.1),
        await conversation.cancel(request_id="r-1"),
        await raised(conversation.cancel(request_id="no id")),
        await conversation.retry(),
        await conversation.end(request_id="r-2"),
        await conversation.end(request_id="r-2"),
        await raised(conversation.end(request_id="r-3")),
        await raised(conversation.send("More")),
        await conversation.wait(after=10_000),
        await raised(client.conversation("c-2").send("Hello?", message_id="m")),
        await raised(client.conversation("c-2").cancel(request_id="r")),
        await raised(client.conversation("c-2").end(request_id="r")),
    ]


async def sending_parts(client, server):
    conversation = client.conversation("c-1")
    parts = [
        TextPart.of("What is it?"),
        ImagePart.of(b"\x89PNG\r\n\x1a\n", detail="low"),
        FilePart.of("https://a.example/a.pdf"),
    ]
    said = [part.model_dump(exclude_none=True) for part in parts]
    made = await client.start("desk", parts, message_id="m-parts", context=None)
    await aside(server, server.stack.writers[made.id].do(begin()))
    return [
        await conversation.send(parts, message_id="m-2"),
        await conversation.send(said, message_id="m-2"),
        await raised(conversation.send(parts[:1], message_id="m-2")),
        *[
            await raised(conversation.send(wrong))
            for wrong in (7, [], [7], [{**said[0], "more": 1}], [said[0], {"type": "no"}])
        ],
        await raised(conversation.send([{"type": "image_url", "image_url": {"url": "http://a.example"}}])),
        await raised(client.start("desk", [parts[0]] * 65)),
        await made.messages(),
        [event.data async for event in _some(made.events(), 2)],
    ]


async def listing(client, server):
    for number in range(3):
        await client.start("desk", "Hello?", conversation_id=f"more-{number}")
    found = []
    for listed in (client.conversations, client.pending):
        page = await listed(limit=2)
        while page.next is not None:
            found.append(page.items)
            page = await listed(limit=2, after=page.next)
        found.append(page.items)
    return [
        *found,
        await client.conversations(status="awaiting_input", agent="desk"),
        await client.pending(kind="approval", agent="desk"),
        (await client.pending(agent="nobody")).items,
        *[type(await raised(listed(limit=0))).__name__ for listed in (client.conversations, client.pending)],
        *[await raised(listed(after="no cursor")) for listed in (client.conversations, client.pending)],
        await raised(client.conversations(status="asleep")),
        await raised(client.pending(kind="none")),
        await raised(client.pending(agent=7)),
    ]


async def operating(client, server):
    await aside(server, server.store.bind("cluster-1", "127.0.0.1:6379", 15_000))
    return [
        await client.ready(),
        await client.agents(),
        await client.paused(),
        dataclasses.replace(await client.pause("desk", "a look"), by=""),
        (await client.pause("desk")).duplicate,
        [one.agent for one in await client.paused()],
        (await client.unpause("desk")).reason,
        await client.unpause("desk"),
        await raised(client.pause("no name")),
        await raised(client.pause("desk", "x" * 2000)),
    ]


async def owing(client, server):
    started = await client.start("desk", "Hello?", conversation_id="c-8")
    writer = server.stack.writers["c-8"]
    write = writer.judged(begin(), now=await aside(server, server.store.now()))
    owed = [Envelope("suspended", notice_target("ops", "shop:app"), 3, n, 0) for n in range(2)]
    await aside(
        server, server.store.append("c-8", dataclasses.replace(write, owed=[*owed, Envelope("end", "own:c-7", 3, 0, 0)]))
    )
    page = await client.outbox(limit=1)
    rest = await client.outbox("owed", limit=10, after=page.next)
    first, own = sorted([*page.items, *rest.items], key=lambda one: one.target)

    def steady(one):
        return one.model_copy(update={"id": one.id.rpartition(".")[0], "message_id": ""})

    return [
        [steady(one) for one in (first, own)],
        started.id,
        await client.redeliver(first.id),
        await client.drop(own.id),
        await client.drop(own.id),
        await client.redeliver(own.id),
        [one.kind for one in (await client.outbox()).items],
        await client.outbox("set_aside"),
        await raised(client.outbox("lost")),
        await raised(client.outbox(after="no cursor")),
        await raised(client.outbox(limit=0)),
        await raised(client.redeliver("no id")),
        await raised(client.drop("no id")),
    ]


async def answering(client, server):
    started = await client.start("desk", "Hello?", conversation_id="c-9")
    await aside(server, server.stack.writers["c-9"].do(begin(), reply("Good day.")))
    return [await started.wait(), await started.messages(), await started.turns()]


async def answering_in_a_shape(client, server):
    started = await client.start("desk", "Which?", conversation_id="c-10")
    writer = server.stack.writers["c-10"]
    writer.spec = writer.spec.model_copy(update={"reply": '{"type":"object"}'})
    given = ProposedCall(tool_call_id="call_f", name=FINAL_ANSWER, arguments='{"order":[7,null,{"ü":1.5}]}')
    await aside(server, writer.do(begin(), reply("Seven."), call(given)))
    state = await started.wait()
    return [state, state.value["order"][2]["ü"], await started.messages(), await started.turns()]


async def missing(client, _):
    conversation = client.conversation("c-none")

    async def first_event():
        return await anext(conversation.events())

    reads = (
        conversation.state,
        conversation.pending,
        conversation.messages,
        conversation.turns,
        conversation.wait,
        first_event,
    )
    return [
        *[await raised(read()) for read in reads],
        await raised(conversation.turn("t")),
        await raised(conversation.message("m")),
        await raised(client.ready()),
    ]


async def following(client, server):
    conversation, seen = client.conversation("c-1"), []
    writer = server.stack.writers["c-1"]
    read = conversation.events()
    seen.extend([await anext(read) for _ in range(writer.state.seq)])
    while "c-1" not in server.store._listeners:
        await asyncio.sleep(0.01)
    for told in (["text_delta", "t1.m1", 1, 5, "hi"], ["progress", "call#1", 1, 7, '{"value":{"done":3},"message":"three"}']):
        await aside(server, server.store.publish("c-1", codec.pack(told)))
        seen.append(await anext(read))
    await conversation.end(request_id="r-1")
    seen.extend([event async for event in read])
    middle = [event async for event in conversation.events(after=4, live=False)]
    over = [event async for event in conversation.events(after=seen[-1].seq)]
    return [seen, middle, over, await raised(anext(conversation.events(after=-1))), [type(one.body).__name__ for one in seen]]


async def following_lists(client, server):
    writer = server.stack.writers["c-1"]
    told = client.events()
    seen = [await anext(told)]
    call = next(one for one in (await client.pending()).items if one.kind == "approval")
    await client.resolve(call, Deny("no"), decision_id="d-1")
    seen.extend([await anext(told) for _ in range(2)])
    await client.start("desk", "Hello?", conversation_id="c-8")
    seen.append(await anext(told))
    await told.aclose()
    resumed = client.events(after=next(one.cursor for one in seen[1:] if one.cursor))
    rest = [await anext(resumed)]
    await resumed.aclose()
    approvals, others = client.events(kind="elicitation"), client.events(agent=["nobody", "another"])
    for one in (approvals, others):
        await anext(one)
    await aside(server, writer.do(end()))
    only = await anext(approvals)
    await approvals.aclose()
    await others.aclose()
    bad = [await raised(_first(client, one)) for one in ({"after": "x"}, {"kind": "no such"}, {"agent": 5})]
    return [[dataclasses.replace(one, cursor=one.cursor is not None, at=None) for one in (*seen, *rest, only)], bad]


async def _first(client, arguments):
    return await anext(client.events(**arguments))


async def checking_rules(client, server):
    @tool(primary="command")
    def Bash(command: str = "ls", *, force: bool = False) -> str:  # noqa: N802 - the name that the model knows
        return f"{command} {force}"

    @tool
    def delete_all() -> None: ...

    rules = Rules(
        allow=["Bash(npm *)"],
        ask=[Rule("Bash(git push *)", name="pushes", reason="Others see it.", approvers=["role:maintainer"])],
        deny=[Rule("Bash(rm *)", reason="Move it."), "delete_*"],
    )
    agents = [Agent(name="coder", tools=[Bash, delete_all])]
    here = await Here.of(App(agents=agents, rules=rules), "holdfast.cli.demo_app:app")
    texts = {one.digest: one.to_json() for one in here.rules.values()}
    record = here.record(b"k" * 32, StoreAddress("", "", "")).model_copy(update={"app": "checked:app"})
    await aside(server, server.store.put_app(record, here.specs, texts))
    commands = ("npm test", "npm test; rm -rf ~", "git push origin main", "make")
    named = [await client.check_rules("coder", "Bash", {"command": one}, app="checked:app") for one in commands]
    return [
        named,
        await client.check_rules("coder", "Bash", {}, app="checked:app"),
        await client.check_rules("coder", "delete_all", {"a": [1, None, {"b": "ü"}]}, app="checked:app"),
        await raised(client.check_rules("coder", "Bash", {}, app="no:app")),
        await raised(client.check_rules("nobody", "Bash", {}, app="checked:app")),
        await raised(client.check_rules("coder", "nothing", {}, app="checked:app")),
        await raised(client.check_rules("coder", "", {}, app="checked:app")),
        await raised(client.check_rules("coder", "Bash", ["ls"], app="checked:app")),
        await raised(client.check_rules("coder", "Bash", {"command": float("nan")}, app="checked:app")),
    ]


CASES = (
    *(
        starting,
        showing,
        trees,
        troubled,
        deciding,
        reasons,
        reviewing,
        granting,
        questioning,
        leaving_alone,
        deciding_many,
        deciding_each,
        steering,
        sending_parts,
        listing,
        operating,
        owing,
        checking_rules,
        answering,
        answering_in_a_shape,
        missing,
    ),
    *(following, following_lists),
)
