"""Clients that carry out calls, on the real stack and over HTTP: who acts, what the model reads, what becomes of lost calls."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
from attached_client import attached
from server_process import SUPPORT, server_process, serving
from stack_fixture import client_of
from tcp_proxy import TcpProxy

from holdfast.client import Answer, Approve, AsyncClient, Client, Status, TooManyClients
from holdfast.conversation import Present, Principal
from holdfast.testing import call, calls

WITHIN_S = 120

pytestmark = pytest.mark.gate


NAMESPACE = "clients"


@pytest.fixture(scope="module")
def server(stack):
    """The URL of a server of the tests' namespace, whose actors end with them."""
    with server_process(stack, "--no-auth", "--namespace", NAMESPACE) as process:
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found, process.stderr.read()
        yield found[0]
        process.kill()
    asyncio.run(ended())


async def ended():
    async with client_of(NAMESPACE):
        pass


@pytest.fixture(params=[pytest.param("stack", marks=pytest.mark.slow), "http"])
async def client(server, request):
    over = {"url": server} if request.param == "http" else {"app": "shop_app:app", "namespace": NAMESPACE}
    async with AsyncClient.connect(**over, timeout_s=90) as connected:
        connected.options = ("--url", server) if request.param == "http" else ("--namespace", NAMESPACE)
        yield connected


async def rested(conversation):
    """The state once no call waits any more."""
    state = await conversation.wait(timeout_s=WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        while state.status is Status.AWAITING_INPUT:
            state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert state.status is Status.IDLE, state
    return state


async def read(conversation):
    """What the model read of its calls."""
    return [json.loads(one["content"]) for one in await conversation.messages() if one["role"] == "tool"]


async def kinds(conversation):
    return [event.kind for event in await conversation.latest()]


async def waiting(conversation, number=1, kind=None):
    """The calls that wait, of one kind or of all, once there are so many."""
    async with asyncio.timeout(WITHIN_S):
        while len(found := [one for one in await conversation.pending() if kind in (None, one.kind)]) < number:
            await asyncio.sleep(0.05)
    return found


async def test_the_model_reads_what_the_handlers_of_a_client_return_raise_or_cannot_return(stack, client):
    name = f"handlers-{id(client)}"
    modes = ("fine", "raise", "none", "much")
    asked = calls(*(call("look", {"mode": mode}) for mode in modes))
    text = stack.scenarios.add(name, asked, "You are in Bonn.")
    seen = []

    def look(arguments, context):
        context.report_progress(message="looking")
        seen.append(context.attempt)
        match arguments["mode"]:
            case "raise":
                raise OSError("no signal")
            case "none":
                return {1, 2}
            case "much":
                return "x" * 5_000_000
        return {"lat": 50.7}

    conversation = await client.start("buyer", text, conversation_id=name)
    async with attached(conversation, {"look": look}):
        assert (await rested(conversation)).reply == "You are in Bonn."
    fine, raised, none, much = await read(conversation)
    assert fine == {"ok": True, "result": {"lat": 50.7}, "untrusted": True}
    assert raised["error"] == "the client failed: OSError: no signal"
    assert none["error"].startswith("the client failed: the handler's result is no JSON")
    assert much["error"].startswith("the client failed: the handler's result cannot be taken")
    assert seen == [1] * 4
    assert (await kinds(conversation)).count("call_claimed") == 4


async def test_of_two_clients_that_race_for_twenty_calls_one_acts_on_each(stack, client):
    name = f"race-{id(client)}"
    text = stack.scenarios.add(name, calls(*(call("look", {"n": n}) for n in range(20))), "Done.")
    acted, both = [], asyncio.Event()

    def handler(who):
        async def look(arguments, context):
            acted.append((arguments["n"], who))
            if len({who for _, who in acted}) == 2:
                both.set()
            await both.wait()
            return arguments["n"]

        return look

    conversation = await client.start("buyer", text, conversation_id=name)
    async with attached(conversation, {"look": handler(1)}), attached(conversation, {"look": handler(2)}):
        assert (await rested(conversation)).reply == "Done."
    assert sorted(number for number, _ in acted) == list(range(20))
    assert [one["result"] for one in await read(conversation)] == list(range(20))
    assert (await kinds(conversation)).count("call_claimed") == 20


async def test_without_a_client_a_call_fails_after_the_grace_and_with_one_it_has_its_time(stack, client):
    name = f"nobody-{id(client)}"
    text = stack.scenarios.add(name, call("look", {}), call("look", {}), "Nobody knows.")
    late = asyncio.Event()

    async def look(arguments, context):
        await context.wait_cancelled()
        late.set()
        return "late"

    conversation = await client.start("phone", text, conversation_id=name)
    async with asyncio.timeout(WITHIN_S):
        while (await kinds(conversation)).count("call_suspended") < 2:
            await asyncio.sleep(0.05)
    async with attached(conversation, {"look": look}):
        assert (await rested(conversation)).reply == "Nobody knows."
        await asyncio.wait_for(late.wait(), WITHIN_S)
    first, second = await read(conversation)
    assert first["error"] == "no client is attached: it did not run"
    assert second["error"] == "the client did not respond in time"


async def test_the_calls_of_a_client_that_is_killed_are_given_back_and_go_on_as_their_tools_say(stack, client):
    name = f"killed-{id(client)}"
    text = stack.scenarios.add(name, ASKED, calls(call("look", {}), call("pay", {})), "Done.")
    attempts = []

    def handler(arguments, context):
        attempts.append((context.call.tool, context.attempt))
        return "here"

    conversation = await client.start("buyer", text, conversation_id=name)
    options = ("--tool", "look", "--tool", "pay", "--exec", "sleep 1000", "--json", *client.options)
    with program(stack, "attach", name, *options) as process:
        await begun(process, conversation)
        lines = [await line_of(process) for _ in range(2)]
        assert [json.loads(line)["kind"] for line in lines] == ["claimed", "claimed"]
        process.send_signal(signal.SIGKILL)
        async with attached(conversation, {"look": handler, "pay": handler}):
            assert (await rested(conversation)).reply == "Done."
    _, located, paid = await read(conversation)
    assert (located["result"], attempts) == ("here", [("look", 2)])
    assert "it may or may not have taken effect" in paid["error"]
    given_back = [event.data for event in await conversation.latest() if event.kind == "call_given_back"]
    assert [(one["by"], one["began"], one["attempt"]) for one in given_back] == [("loss", True, 1)] * 2


ASKED = call("ask", {"question": "Shall I begin?"})
"""What the model asks before: a program takes longer to start than a call for a client waits for one."""


async def line_of(process):
    return await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S)


async def begun(process, conversation):
    """The first line of a program that is attached now; then the model's question is answered."""
    line = await line_of(process)
    (question,) = await waiting(conversation)
    await question.resolve(Answer("yes"))
    async with asyncio.timeout(WITHIN_S):
        while any(one.suspension_id == question.suspension_id for one in await conversation.pending()):
            await asyncio.sleep(0.05)
    return line


@contextlib.contextmanager
def program(stack, *arguments):
    """`holdfast` as a process of its own."""
    command = [sys.executable, "-m", "holdfast.cli", *arguments]
    env = {**os.environ, **stack.env, "PYTHONPATH": str(SUPPORT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_program_at_the_terminal_carries_calls_out_until_the_conversation_ends(stack, client):
    name = f"program-{id(client)}"
    asked = calls(call("look", {"mode": "Köln"}), call("camera", {"mode": "wide"}))
    text = stack.scenarios.add(name, ASKED, asked, "Done.")
    script = "import json, os, sys; given = json.load(sys.stdin); name = os.environ['HOLDFAST_ATTACHED_TOOL']\n"
    script += "sys.exit('no lens') if name == 'camera' else print(json.dumps({'at': given['mode']}, ensure_ascii=False))"
    conversation = await client.start("buyer", text, conversation_id=name)
    command = f'{sys.executable} -c "{script}"'
    options = ("--tool", "look", "--tool", "camera", "--exec", command, "--client-id", "desk", *client.options)
    with program(stack, "attach", name, *options) as process:
        printed = await begun(process, conversation)
        (approval,) = await waiting(conversation, kind="approval")
        await conversation.resolve(approval, Approve())
        assert (await rested(conversation)).reply == "Done."
        await conversation.end()
        rest, errors = await asyncio.to_thread(process.communicate, timeout=WITHIN_S)
        printed += rest
    assert (process.returncode, errors) == (0, "")
    assert f"Attached to {name} as desk; it carries out: look, camera." in printed
    assert printed.count("is claimed: attempt 1") == 2
    assert f"{name} has ended." in printed
    _, located, pictured = await read(conversation)
    assert located["result"] == {"at": "Köln"}
    assert pictured["error"] == "the client failed: ProgramFailed: it exited with 1: no lens"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_program_that_is_told_to_end_gives_its_call_back_at_once(stack, client, number):
    name = f"told-{number}-{id(client)}"
    text = stack.scenarios.add(name, ASKED, call("look", {}), "Done.")
    conversation = await client.start("buyer", text, conversation_id=name)
    options = ("--tool", "look", "--exec", "sleep 1000", "--json", *client.options)
    with program(stack, "attach", name, *options) as process:
        printed = await begun(process, conversation)
        (shown,) = await waiting(conversation)
        async with asyncio.timeout(WITHIN_S):
            while (await conversation.pending())[0].claimed is None:
                await asyncio.sleep(0.05)
        process.send_signal(number)
        rest, errors = await asyncio.to_thread(process.communicate, timeout=WITHIN_S)
        printed += rest
    assert (process.returncode, errors) == (0, "")
    assert [json.loads(line)["kind"] for line in printed.splitlines()] == ["attached", "claimed", "given_back"]
    given_back = next(event.data for event in await conversation.latest() if event.kind == "call_given_back")
    assert (given_back["by"], given_back["began"]) == ("client", True)
    assert given_back["suspension_id"] == shown.suspension_id


async def test_what_waits_for_a_client_that_leaves_ends_with_it_if_it_says_so(stack, client):
    name = f"leaves-{id(client)}"
    text = stack.scenarios.add(name, call("look", {}), "Nobody is there any more.")
    began = asyncio.Event()

    async def look(arguments, context):
        began.set()
        await asyncio.Event().wait()

    conversation = await client.start("buyer", text, conversation_id=name)
    async with attached(conversation, {"look": look}, on_detach="cancel"):
        await asyncio.wait_for(began.wait(), WITHIN_S)
    assert (await rested(conversation)).reply == "Nobody is there any more."
    (found,) = await read(conversation)
    assert "the client left" in found["error"]
    settled = next(event.data for event in await conversation.latest() if event.kind == "suspension_settled")
    assert settled["by"] == "cancellation"


async def test_the_65th_client_is_refused_and_the_64_stay(stack, server):
    async with AsyncClient.connect("shop_app:app", namespace=NAMESPACE, timeout_s=90) as client:
        text = stack.scenarios.add("many", call("ask", {"question": "?"}), "Done.")
        conversation = await client.start("buyer", text, conversation_id="many")
        store = await client.gateway.store()
        for number in range(64):
            other = Principal("bo") if number % 2 else None
            await store.attach("many", Present(client_id=f"c-{number}", principal=other, tools=("look",)))
        with pytest.raises(TooManyClients):
            async with conversation.attach({"look": print}):
                pass
        async with conversation.attach({"look": print}, client_id="c-8"):
            pass
        now = await store.now()
        assert sum(one.until > now for one in await store.present("many")) == 63


def port_of(url):
    return int(url.rpartition(":")[2])


async def test_a_client_goes_on_at_another_server_when_its_own_drains(stack, server):
    """The proxy leads to the second server once the first one drains: the claim stands, and the presence never ends."""
    name = "drained"
    async with (
        AsyncClient.connect("shop_app:app", namespace=NAMESPACE, timeout_s=90) as inside,
        serving(stack, "--namespace", NAMESPACE) as first,
        TcpProxy(port_of(first.url)) as proxy,
        AsyncClient.connect(url=proxy.url, timeout_s=90) as client,
    ):
        text = stack.scenarios.add(name, calls(call("look", {}), call("look", {})), "Done.")
        go, began = asyncio.Event(), []

        async def look(arguments, context):
            began.append(context.attempt)
            await go.wait()
            return "here"

        conversation = await client.start("buyer", text, conversation_id=name)
        store, gone = await inside.gateway.store(), []

        async def watch():
            while True:
                now = await store.now()
                present = [one for one in await store.present(name) if one.until > now]
                if began and not present:
                    gone.append(now)
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        async with attached(conversation, {"look": look}, client_id="phone"):
            async with asyncio.timeout(WITHIN_S):
                while len(began) < 2:
                    await asyncio.sleep(0.05)
            proxy.upstream = port_of(server)
            assert await asyncio.to_thread(first.end, signal.SIGTERM) == 0
            await asyncio.sleep(6)  # longer than a renewal
            go.set()
            assert (await rested(conversation)).reply == "Done."
        watching.cancel()
        assert began == [1, 1]
        assert gone == []
        assert "call_given_back" not in await kinds(inside.conversation(name))


def test_a_blocking_client_carries_calls_out_in_a_thread_of_its_program(stack, server):
    name = "blocking"
    text = stack.scenarios.add(name, call("look", {}), "You are in Bonn.")
    with Client.connect("shop_app:app", namespace=NAMESPACE, timeout_s=90) as client:
        conversation = client.start("buyer", text, conversation_id=name)
        with conversation.attach({"look": lambda _, __: "Bonn"}, client_id="desk") as found:
            assert found.client_id == "desk"
            working = threading.Thread(target=found.serve, daemon=True)
            working.start()
            state = conversation.wait(timeout_s=WITHIN_S)
            while state.status is Status.AWAITING_INPUT:
                state = conversation.wait(after=state.seq, timeout_s=WITHIN_S)
            assert state.reply == "You are in Bonn."
            conversation.end()
            working.join(WITHIN_S)
            assert not working.is_alive()
