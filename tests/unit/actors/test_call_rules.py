"""Permission rules at a call's proposal and before its run, as a worker judges with what it knows of the call."""

import pytest

from holdfast.actors import admission
from holdfast.actors.worker import prompt
from holdfast.actors.worker.gate import UNREADABLE, CallRules, FixedRules, Gate, proposed, stopped
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, Rules, Tool, TurnContext
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.window import Window
from holdfast.errors import CorruptStore
from holdfast.persistence import AppRecord, MemoryStore

TURN = TurnContext(conversation_id="c", agent="desk")


async def bash(command: str) -> str:
    """Run a command."""
    return command


DESK = Agent(
    name="desk",
    tools=[
        Tool(name="Bash", callback=bash, primary="command"),
        Tool(name="web_search", executor="provider", definition={"type": "web_search", "name": "web_search"}),
    ],
)
SOME = Rules(deny=["Bash(rm *)", 'web_search(query ~ "secret-*")'])


async def no_turn():
    return TURN


def sent(rules):
    """The tools that are sent to the model under these rules; None: they cannot be read."""
    found = CallRules(FixedRules(rules or Rules()), rules, "desk", no_turn)
    return [tool.get("name") or tool["function"]["name"] for tool in prompt.tools(DESK.spec, found.hides)]


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        (Rules(), ["Bash", "web_search"]),
        (SOME, ["Bash"]),
        (Rules(deny=["Bash"]), ["web_search"]),
        (None, ["Bash"]),  # its calls are asked about; those of the other one would ask nobody
    ],
)
def test_what_the_model_is_told_of(rules, names):
    assert sent(rules) == names


def test_a_tool_that_a_window_withholds_is_not_sent():
    rules = CallRules(FixedRules(Rules()), Rules(), "desk", no_turn)
    for window, names in ((Window([], 0, withheld="Bash"), ["web_search"]), (Window([], 0), ["Bash", "web_search"])):
        sent_with = rules.sending(window).hides
        assert [tool.get("name") or tool["function"]["name"] for tool in prompt.tools(DESK.spec, sent_with)] == names


def run_of(**more):
    return RunRequest(
        code="k",
        conversation_id="c",
        agent="desk",
        spec_digest=DESK.spec.digest,
        effect_id="e",
        turn_id="t",
        tool_call_id="call",
        tool="Bash",
        attempt=1,
        arguments_at=3,
        **more,
    )


def test_a_call_whose_arguments_cannot_be_read_is_caught_by_rules_about_any_arguments():
    assert proposed(SOME, DESK, "Bash", None, TURN).effect is RuleEffect.DENY
    assert stopped(SOME, DESK, run_of(), None, required=False).effect is RuleEffect.DENY
    assert stopped(SOME, DESK, run_of(), {"command": "ls"}, required=False) is None


def test_where_the_rules_cannot_be_read_a_person_is_asked_who_has_not_been():
    assert proposed(None, DESK, "Bash", {"command": "ls"}, TURN) == UNREADABLE
    assert stopped(None, DESK, run_of(), {"command": "ls"}, required=False) == UNREADABLE
    assert stopped(None, DESK, run_of(decided_at=5, fulfilled=()), {"command": "ls"}, required=False) is None


async def test_rules_in_force_that_cannot_be_read_are_told_once_and_again_when_they_become_unreadable_again(
    monkeypatch, caplog
):
    monkeypatch.setattr(admission, "FRESH_S", 0)
    store, refusal = MemoryStore(), []

    async def published():
        if refusal:
            raise CorruptStore("nobody has signed it")
        return await store.app("shop:app")

    found = Gate(store, published)
    planted = AppRecord(app="shop:app", code="k", rules={"desk": SOME.digest})
    for texts, said, readable in (
        ({SOME.digest: Rules(default="allow").to_json()}, ["they are not stored as they were published"], False),
        ({SOME.digest: SOME.to_json()}, [], True),
    ):
        caplog.clear()
        await store.put_app(planted, [], texts)
        assert [(await found.rules("desk")) == SOME for _ in range(3)] == [readable] * 3
        assert [message.rpartition(": ")[2] for message in caplog.messages] == said
    for _ in range(2):
        caplog.clear()
        refusal.append("unsigned")
        assert [await found.rules("desk") for _ in range(3)] == [None] * 3
        assert [message.partition(",")[0] for message in caplog.messages] == ["the permission rules in force are unknown"]
        refusal.clear()
        assert await found.rules("desk") == SOME


async def test_who_deletes_the_record_of_an_app_lifts_no_rule(monkeypatch, caplog):
    monkeypatch.setattr(admission, "FRESH_S", 0)
    store, records = MemoryStore(), []

    async def published():
        return records[-1] if records else None

    found = Gate(store, published)
    assert [await found.rules("desk") for _ in range(3)] == [None] * 3  # a new process, which has never seen the rules
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["its app is not published"]
    record = AppRecord(app="shop:app", code="k", rules={"desk": SOME.digest})
    await store.put_app(record, [], {SOME.digest: SOME.to_json()})
    for place in (record, None):
        records.append(place)
        assert await found.rules("desk") == SOME
    records.append(AppRecord(app="shop:app", code="k"))
    assert await found.rules("desk") == Rules()
