"""Permission rules on the real thing: what the model reads and is sent, what a person is asked, and rules that change."""

import asyncio
import hashlib
import json
import warnings

import pytest
from ruling import APP, publish, under, write_rules
from stack_fixture import eventually, results, runs_of

from holdfast.agent import Rules
from holdfast.agent import rules as rules_form
from holdfast.client import Approve, AsyncClient, Deny, Principal, Status, publishing
from holdfast.client.cautions import AppDiffersWarning
from holdfast.testing import call, calls

RULES = {
    "deny": [{"pattern": "shell(rm *)", "name": "no-rm", "reason": "Move it to trash/ instead."}, "wipe"],
    "ask": [{"pattern": "lookup(secret-*)", "name": "secret orders", "reason": "They are secret."}],
    "allow": ["shell(npm *)"],
}
DENIED = {"ok": False, "error": "denied by the rule 'no-rm': Move it to trash/ instead; it did not run"}
WITHIN_S = 60


async def begun(stack, client, name, *asked, **options):
    """A conversation whose model asks for these calls in one answer, and the state in which it rests."""
    text = stack.scenarios.add(name, calls(*asked), "Done.")
    conversation = await client.start("keeper", text, conversation_id=name, **options)
    return conversation, await conversation.wait(timeout_s=WITHIN_S)


async def done(conversation, after):
    """The results that the model read, once the conversation rests."""
    state = await conversation.wait(after=after, timeout_s=WITHIN_S)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    return results(await conversation.messages())


async def logged(store, conversation, kind):
    """The events of a kind."""
    return [event for _, event in await store.read(conversation.id, after=0) if event.kind == kind]


def sent_tools(stack, text):
    """The tools of the first request of a conversation that began with this text."""
    body = next(
        one.body
        for one in stack.model.requests
        if any(text in json.dumps(message["content"]) for message in one.body["messages"] if message["role"] == "user")
    )
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in body["tools"]]


# -- rules that stand ---------------------------------------------------------------------------------------------------


async def test_denied_calls_tell_rule_and_reason_asked_ones_wait_and_allowed_ones_run_without_asking(stack, store):
    async with under(stack, **RULES) as client:
        denied, lifted, asked, required = (
            call("shell", {"command": "sudo rm -rf ~"}),
            call("shell", {"command": "npm test"}),
            call("lookup", {"order": "secret-7"}),
            call("shell", {"command": "npm test; ls"}),
        )
        conversation, state = await begun(stack, client, "ruled", denied, call("wipe", {}), lifted, asked, required)
        assert [(shown.tool, shown.arguments) for shown in state.pending] == [
            ("lookup", {"order": "secret-7"}),
            ("shell", {"command": "npm test; ls"}),
        ]
        suspended = await logged(store, conversation, "call_suspended")
        assert [event.rule for event in suspended] == ["secret orders", ""]
        for shown in state.pending:
            receipt = await shown.resolve(Approve())

        assert await done(conversation, receipt.seq) == [
            DENIED,
            {"ok": False, "error": "denied by the rule 'wipe'; it did not run"},
            {"ok": True, "result": "ran npm test"},
            {"ok": True, "result": "secret-7 is paid"},
            {"ok": True, "result": "ran npm test; ls"},
        ]
        assert {run["kind"] for run in runs_of(stack, conversation.id)} == {"shell", "lookup"}
        assert sorted(run["command"] for run in runs_of(stack, conversation.id) if run["kind"] == "shell") == [
            "npm test",
            "npm test; ls",
        ]
        resolved = await logged(store, conversation, "call_resolved")
        assert [(event.by, event.rule) for event in resolved if event.by == "rule"] == [("rule", "no-rm"), ("rule", "wipe")]
        scheduled = await logged(store, conversation, "run_scheduled")
        assert {event.rule for event in scheduled} == {"shell(npm *)", "secret orders", ""}

        # a tool that is denied whatever its arguments are is not known to the model
        assert sent_tools(stack, "ruled") == ["shell", "lookup", "pay", "ship", "camera"]


async def test_a_call_that_a_rule_allows_in_full_runs_at_once_and_says_by_which_rule(stack, store):
    async with under(stack, **RULES) as client:
        conversation, state = await begun(stack, client, "lifted", call("shell", {"command": "npm test"}))
        assert (state.status, state.reply) == (Status.IDLE, "Done.")
        (scheduled,) = await logged(store, conversation, "run_scheduled")
        assert (scheduled.rule, scheduled.approval) == ("shell(npm *)", "auto")
        assert len(runs_of(stack, conversation.id)) == 1


async def test_a_providers_tool_is_not_sent_where_a_rule_denies_some_calls_of_it(stack):
    for name, rules, sent in (
        ("searches", {"ask": ["web_search"]}, ["lookup", "web_search"]),
        ("finds", {"deny": ['web_search(query =~ "secret")']}, ["lookup"]),
    ):
        async with under(stack, **rules) as client:
            conversation = await client.start("searcher", stack.scenarios.add(name, "Done."), conversation_id=name)
            assert (await conversation.wait(timeout_s=WITHIN_S)).reply == "Done."
            assert sent_tools(stack, name) == sent


async def test_a_function_says_of_the_arguments_and_of_the_turn_whether_a_person_is_asked(stack):
    async with under(stack, **RULES) as client:
        ana = client.acting_as(Principal("ana"))
        conversation, state = await begun(
            stack,
            ana,
            "functions",
            call("pay", {"amount": 100}),
            call("pay", {"amount": 101}),
            call("ship", {"to": "home"}),
            call("ship", {"to": "Rome"}),
            context={"owner": "ana"},
        )
        assert [(shown.tool, shown.arguments) for shown in state.pending] == [
            ("pay", {"amount": 101}),
            ("ship", {"to": "Rome"}),
        ]
        receipts = [await shown.resolve(Approve()) for shown in state.pending]
        assert [one["ok"] for one in await done(conversation, receipts[-1].seq)] == [True] * 4

        # of another's conversation, and of one of which nobody said whose it is
        for name, sender, context in (
            ("of-ana", client.acting_as(Principal("bob")), {"owner": "ana"}),
            ("of-nobody", ana, None),
        ):
            conversation, state = await begun(stack, sender, name, call("ship", {"to": "home"}), context=context)
            (shown,) = state.pending
            assert (await done(conversation, (await shown.resolve(Approve())).seq))[0]["ok"]


# -- rules that change --------------------------------------------------------------------------------------------------


async def test_a_deny_that_is_published_while_an_approval_waits_wins_over_the_approval(stack, store):
    async with under(stack, **RULES) as client:
        conversation, state = await begun(stack, client, "meanwhile", call("shell", {"command": "deploy now"}))
        (shown,) = state.pending
        stricter = [{"pattern": "shell(deploy *)", "name": "freeze", "reason": "Not on a Friday."}]
        async with under(stack, deny=stricter) as later:
            receipt = await later.resolve(shown, Approve(), decision_id="click-1")
            assert not receipt.duplicate
            assert await done(conversation, receipt.seq) == [
                {"ok": False, "error": "denied by the rule 'freeze': Not on a Friday; it did not run"}
            ]
            again = await later.resolve(shown, Approve(), decision_id="click-1")
            assert (again.seq, again.duplicate) == (receipt.seq, True)
        assert runs_of(stack, conversation.id) == []
        (resolved,) = await logged(store, conversation, "call_resolved")
        assert (resolved.by, resolved.rule) == ("rule", "freeze")


async def executions(store, conversation):
    """The calls that clients were asked to execute."""
    suspended = await logged(store, conversation, "call_suspended")
    return [event.tool_call_id for event in suspended if event.suspension_kind == "client_exec"]


async def test_a_deny_that_is_published_while_an_approval_waits_reaches_a_clients_call_too(stack, store):
    given = []

    def take(arguments, context):
        given.append((arguments["mode"], context.attempt))
        return "a picture"

    async with under(stack, **RULES) as client:
        conversation, state = await begun(
            stack, client, "cameras", call("camera", {"mode": "wide"}), call("camera", {"mode": "x"})
        )
        wide, other = state.pending
        async with conversation.attach({"camera": take}) as attached:
            serving = asyncio.create_task(attached.serve())
            async with under(stack, deny=[{"pattern": "camera(wide)", "name": "private"}]) as later:
                await later.resolve(wide, Approve())
                receipt = await later.resolve(other, Approve())
                assert await done(conversation, receipt.seq) == [
                    {"ok": False, "error": "denied by the rule 'private'; it did not run"},
                    {"ok": True, "result": "a picture", "untrusted": True},
                ]
            serving.cancel()
        assert given == [("x", 1)]
        assert await executions(store, conversation) == [other.tool_call_id]


async def test_a_clients_call_that_was_approved_in_a_pause_waits_for_its_end_and_is_judged_by_the_rules_of_then(stack, store):
    async with under(stack, **RULES) as client:
        conversation, state = await begun(stack, client, "camera-waits", call("camera", {"mode": "wide"}))
        await client.pause(reason="new rules")
        await state.pending[0].resolve(Approve())
        async with under(stack, ask=[{"pattern": "camera", "name": "look first", "approvers": ["id:ben"]}]) as later:
            assert await executions(store, conversation) == []
            await later.unpause()
            (asked,) = await asked_about(later, conversation, 1)
            assert (asked.kind, asked.rule) == ("approval", "look first")
            assert await executions(store, conversation) == []
        await conversation.cancel()


async def scheduled_in_a_pause(stack, client, store, name, *asked):
    """A conversation with these calls, whose runs wait for the end of a pause."""
    text = stack.scenarios.add(name, calls(*asked), "Done.")
    stack.model.hold()
    try:
        conversation = await client.start("keeper", text, conversation_id=name)
        await stack.model.held(1)
        await client.pause(reason="new rules")
    finally:
        stack.model.release()
    async with asyncio.timeout(WITHIN_S):
        while len(await logged(store, conversation, "run_scheduled")) < len(asked):
            await asyncio.sleep(0.02)
    return conversation


async def asked_about(client, conversation, number):
    """The calls of a conversation that wait for a person, once there are so many."""
    async with asyncio.timeout(WITHIN_S):
        while len(shown := await client.conversation(conversation.id).pending()) < number:
            await asyncio.sleep(0.02)
    return shown


async def test_a_run_that_waited_for_the_end_of_a_pause_is_asked_about_by_the_rules_of_then_and_runs_once(stack, store):
    async with under(stack, **RULES) as client:
        # given calls that nobody was to be asked about, whose runs wait
        asked = call("lookup", {"order": "A-1"}), call("shell", {"command": "npm test"})
        conversation = await scheduled_in_a_pause(stack, client, store, "waited", *asked)

        # when rules are published that ask about one, and allow the other no longer
        async with under(stack, ask=[{"pattern": "lookup", "name": "look first"}]) as later:
            assert runs_of(stack, conversation.id) == []
            await later.unpause()

            # then both wait for a person, and run once after the approval
            shown = await asked_about(later, conversation, 2)
            suspended = await logged(store, conversation, "call_suspended")
            assert sorted((event.tool, event.rule, event.suspension_kind) for event in suspended) == [
                ("lookup", "look first", "approval"),
                ("shell", "", "approval"),
            ]
            assert runs_of(stack, conversation.id) == []
            receipts = [await one.resolve(Approve()) for one in shown]
            assert [one["ok"] for one in await done(conversation, receipts[-1].seq)] == [True, True]
        assert sorted(run["kind"] for run in runs_of(stack, conversation.id)) == ["lookup", "shell"]
        assert {run["attempt"] for run in runs_of(stack, conversation.id)} == {1}


@pytest.mark.parametrize("unreadable", ["another text", "a newer form"])
async def test_rules_that_a_worker_cannot_read_have_every_call_asked_about_and_its_log_says_so(
    stack, store, monkeypatch, unreadable
):
    newer = unreadable == "a newer form"
    monkeypatch.setattr(rules_form, "VERSION", 2 if newer else 1)  # the publisher may be of a newer release
    async with under(stack, allow=["lookup", "pay"], deny=[{"pattern": "wipe", "name": unreadable}]) as client:
        digest = (await store.app(APP)).rules["keeper"]
        if not newer:
            assert hashlib.sha256((await store.rules(digest)).encode()).hexdigest() == digest
            await store._redis.hset(store._keys.meta("rules"), digest, Rules(default="allow").to_json())
        name = f"unreadable-{unreadable.split()[1]}"
        conversation, state = await begun(
            stack,
            client.acting_as(Principal("ana")),
            name,
            call("lookup", {"order": "A-1"}),
            call("wipe", {}),
            call("pay", {"amount": 1}),
        )
        assert [shown.tool for shown in state.pending] == ["lookup", "wipe", "pay"]
        assert {event.rule for event in await logged(store, conversation, "call_suspended")} == {""}
        assert runs_of(stack, conversation.id) == []
        said = "a record (permission rules) has version 2" if newer else "they are not stored as they were published"
        await asyncio.to_thread(eventually, lambda: said in written(stack), what=f"a line that says {said!r}")

        # and an approval lets a call run: a person has said so
        for shown in state.pending:
            receipt = await shown.resolve(Approve() if shown.tool == "lookup" else Deny("no"))
        assert [one["ok"] for one in await done(conversation, receipt.seq)] == [True, False, False]
        assert [run["kind"] for run in runs_of(stack, conversation.id)] == ["lookup"]


async def test_whoever_writes_to_redis_lifts_no_rule(stack, store):
    async with under(stack, **RULES) as client:
        # given a run that waits, and a record of the app without its rules
        conversation = await scheduled_in_a_pause(stack, client, store, "forged", call("lookup", {"order": "A-1"}))
        record = await store.app(APP)
        await store.put_app(record.model_copy(update={"rules": {}}), [])
        forged_at = await store.now()
        async with asyncio.timeout(WITHIN_S):
            while await store.now() <= forged_at + publishing.RULES_LAG_MS:  # a worker may act on what it has read before
                await asyncio.sleep(0.02)
        await client.unpause()

        # then a person is asked, since nobody in the cluster has signed that
        (shown,) = await asked_about(client.acting_as(Principal("ana")), conversation, 1)
        assert runs_of(stack, conversation.id) == []
        said = "the permission rules in force are unknown, so every call is asked about"
        await asyncio.to_thread(eventually, lambda: said in written(stack), what=f"a line that says {said!r}")
        await store.put_app(record, [])
        assert (await done(conversation, (await shown.resolve(Approve())).seq))[0]["ok"]


def written(stack):
    """What the workers of the stack have written to their logs."""
    logs = (stack.home.runtime / "ray" / "session_latest" / "logs").glob("worker-*.err")
    return "".join(log.read_text(errors="replace") for log in logs)


# -- publishing ---------------------------------------------------------------------------------------------------------


async def test_publishing_waits_until_no_worker_acts_on_other_rules_and_not_where_they_are_the_same(stack, monkeypatch):
    async with under(stack, **RULES):
        monkeypatch.setattr(publishing, "RULES_LAG_MS", 3_600_000)
        async with asyncio.timeout(WITHIN_S):
            async with under(stack, **RULES):
                pass
        monkeypatch.undo()
        before = asyncio.get_running_loop().time()
        async with under(stack, default="ask"):
            assert asyncio.get_running_loop().time() - before > publishing.RULES_LAG_MS / 1000


async def test_who_has_other_rules_than_are_published_is_told_so(stack):
    async with under(stack, **RULES) as client:
        address = (await client.gateway.stack.store()).url
        with warnings.catch_warnings():
            warnings.simplefilter("error", AppDiffersWarning)
            async with AsyncClient.connect(APP, redis_url=address, timeout_s=WITHIN_S) as same:
                await publish(same)
        write_rules(stack, **RULES | {"default": "deny"})
        async with AsyncClient.connect(APP, redis_url=address, timeout_s=WITHIN_S) as other:
            with pytest.warns(
                AppDiffersWarning, match=r"differs here from what is published.*: its permission rules; to publish"
            ):
                await publish(other)
