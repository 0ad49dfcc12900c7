"""Grants on the real thing, from the public API alone: given, used, listed, ended by time and by somebody."""

import asyncio
import re

import pytest
from server_process import server_process
from stack_fixture import eventually, results, runs_of

from holdfast import Approve, AsyncClient, InvalidDecision, Principal, Scope, Status
from holdfast.testing import call, calls

WITHIN_S = 120


@pytest.fixture
async def client(stack):
    async with AsyncClient.connect("granted_app:app", timeout_s=60) as connected:
        yield connected


def write(path, **more):
    return call("write", {"path": path} | more)


async def begun(stack, client, name, *answers):
    """A conversation whose model gives these answers, once it rests for the first time, and its state."""
    text = stack.scenarios.add(name, *answers, "Done.")
    conversation = await client.start("editor", text, conversation_id=name)
    return conversation, await conversation.wait(timeout_s=WITHIN_S)


async def rests(conversation, receipt):
    """The state in which the conversation rests after what a receipt is for."""
    return await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)


async def scheduled(conversation):
    """By which grants each of its runs was let go."""
    seq = (await conversation.state()).seq
    found = []
    async for event in conversation.events(live=False):
        if event.kind == "run_scheduled":
            found.append(event.body.grants)
        if event.seq == seq:
            return found
    return found


def written(stack, conversation):
    return [run.get("path", run["kind"]) for run in runs_of(stack, conversation.id)]


async def test_a_later_call_that_a_grant_covers_runs_without_asking_and_says_by_which_and_after_its_revocation_the_next_asks(
    stack, client
):
    ana = client.acting_as(Principal("ana"))
    conversation, state = await begun(
        stack,
        ana,
        "granted",
        write("src/a.py"),
        calls(write("src/b.py"), write("src/c.py", to="example.com")),
        write("src/d.py"),
    )
    (first,) = state.pending
    assert [(target.kind, target.value, target.level) for target in first.targets] == [("path", "src/a.py", "write")]

    state = await rests(conversation, await first.resolve(Approve(scope=Scope("path", "src/**", level="write"))))

    # the second ran at once; the third goes to a host, too, which the grant does not cover
    (third,) = state.pending
    assert third.arguments == {"path": "src/c.py", "to": "example.com"}
    await asyncio.to_thread(eventually, lambda: written(stack, conversation) == ["src/a.py", "src/b.py"])
    (grant,) = await conversation.grants()
    assert (grant.kind, grant.pattern, grant.level, grant.ends_at, grant.by.id) == ("path", "src/**", "write", None, "ana")
    assert await scheduled(conversation) == [(), (grant.grant_id,)]

    await conversation.revoke(grant.grant_id, "the branch is merged")
    assert await conversation.grants() == []
    state = await rests(conversation, await third.resolve(Approve()))

    (fourth,) = state.pending
    assert fourth.arguments == {"path": "src/d.py"}
    state = await rests(conversation, await fourth.resolve(Approve()))
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    assert written(stack, conversation) == ["src/a.py", "src/b.py", "src/c.py", "src/d.py"]
    assert await scheduled(conversation) == [(), (grant.grant_id,), (), ()]
    assert [one["ok"] for one in results(await conversation.messages())] == [True] * 4


async def test_calls_that_wait_already_are_let_go_with_the_one_that_is_approved(stack, client):
    conversation, state = await begun(
        stack, client, "granted-siblings", calls(write("src/a.py"), write("src/b.py"), write("setup.py"))
    )
    first, _, third = state.pending

    await first.resolve(Approve(scope=Scope("path", "src/**", level="write", ends_s=600)))

    pending = (await conversation.state()).pending
    assert [shown.arguments for shown in pending] == [{"path": "setup.py"}]
    state = await rests(conversation, await third.resolve(Approve()))
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    assert sorted(written(stack, conversation)) == ["setup.py", "src/a.py", "src/b.py"]


async def test_a_grant_ends_by_itself_and_the_next_call_asks(stack, client):
    conversation, state = await begun(stack, client, "granted-a-while", write("src/a.py"), "Done.", write("src/b.py"))
    state = await rests(
        conversation, await state.pending[0].resolve(Approve(scope=Scope("path", "src/**", level="write", ends_s=2)))
    )
    assert state.status is Status.IDLE
    async with asyncio.timeout(WITHIN_S):
        while await conversation.grants():
            await asyncio.sleep(0.1)

    state = await rests(conversation, await conversation.send("One more."))

    (second,) = state.pending
    assert written(stack, conversation) == ["src/a.py"]
    await rests(conversation, await second.resolve(Approve()))
    assert await scheduled(conversation) == [(), ()]


async def test_a_call_of_a_tool_that_does_not_say_what_it_touches_is_covered_by_a_grant_for_the_tool_alone(stack, client):
    conversation, state = await begun(stack, client, "granted-tool", call("deploy", {}), call("deploy", {}), call("deploy", {}))
    (first,) = state.pending
    assert first.targets is None
    everything = Scope("path", "**", level="admin", everything=True)

    state = await rests(conversation, await first.resolve(Approve(scope=everything)))
    (second,) = state.pending
    state = await rests(conversation, await second.resolve(Approve(scope=Scope("tool", "deploy", level="execute"))))

    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    _, of_the_tool = await conversation.grants()
    assert await scheduled(conversation) == [(), (), (of_the_tool.grant_id,)]


async def test_a_scope_that_covers_everything_is_refused_unless_it_says_so_and_nothing_is_decided(stack, client):
    conversation, state = await begun(stack, client, "granted-everything", write("src/a.py"))
    with pytest.raises(InvalidDecision, match="everything=True"):
        Scope("path", "**", level="write")
    with pytest.raises(InvalidDecision, match=r"scope\.level"):
        Scope("path", "src/**", level="rule")
    assert (await conversation.state()).pending[0].suspension_id == state.pending[0].suspension_id

    scope = Scope("path", "**", level="write", everything=True)
    await rests(conversation, await state.pending[0].resolve(Approve(scope=scope)))
    assert [grant.pattern for grant in await conversation.grants()] == ["**"]


async def test_what_a_revoked_key_has_let_run_asks_again(stack, client):
    with server_process(stack, "--app", "granted_app:app") as process:
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            url = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
            made, token = await client.access.create_key("bo", ["read", "decide"])
            writes = [answer for _ in range(40) for answer in (write("src/a.py"), "Done.")]
            conversation, _ = await begun(stack, client, "granted-by-key", *writes)
            async with AsyncClient.connect(url=url, token=token) as bo:
                (first,) = await bo.conversation(conversation.id).pending()
                receipt = await first.resolve(Approve(scope=Scope("path", "src/**", level="write")))
            await rests(conversation, receipt)
            state = await rests(conversation, await conversation.send("One more."))
        finally:
            process.kill()
    assert (state.status, written(stack, conversation)) == (Status.IDLE, ["src/a.py"] * 2)
    (found,) = (await client.given("bo")).items
    assert (found.conversation_id, len(found.grants)) == (conversation.id, 1)

    await client.access.revoke_key(made.key_id)
    async with asyncio.timeout(WITHIN_S):
        while not state.pending:  # a worker takes what it has read of the keys for a moment
            state = await rests(conversation, await conversation.send("One more."))

    ran = len(written(stack, conversation))
    assert await conversation.grants() == []
    (over,) = [one async for one in until(conversation, state.seq) if one.kind == "given_revoked"]
    assert (over.body.by, over.body.proof, over.body.request_id) == ("bo", "key", None)
    await rests(conversation, await state.pending[0].resolve(Approve()))
    assert len(written(stack, conversation)) == ran + 1


async def until(conversation, seq):
    """The events up to a place in the log."""
    async for event in conversation.events(live=False):
        yield event
        if event.seq == seq:
            return
