"""What a client is told of the permission rules that are published."""

import pytest
from stores import InMemory

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import Agent, App, Rules, Tool, tool
from holdfast.client import AsyncClient, RuleCheck
from holdfast.client.publishing import Here
from holdfast.client.rule_check import BY_FUNCTION, UNREADABLE
from holdfast.client.stack_gateway import StackGateway
from holdfast.errors import AppNotPublished, ConfigurationError, CorruptStore
from holdfast.persistence import MemoryStore

PATH = "shop:app"


@tool(approval="required", primary="command")
def Bash(command: str = "rm -rf ~") -> str:  # noqa: N802 - the name that the model knows
    """Run a command."""
    return command


@tool(approval=lambda arguments: arguments["amount"] > 100)
def pay(amount: int) -> int:
    """Pay."""
    return amount


@tool(executor="human", response_schema=str)
def ask(question: str) -> str:
    """Ask a person."""
    return question


@tool
def look() -> str:
    """Look."""
    return ""


@pytest.fixture
async def publishing(monkeypatch):
    """Publishes the agent with rules, and gives a client that has none of the app's code, and what was published."""
    monkeypatch.setattr("holdfast.client.publishing.code_digest", lambda _: "source-1")

    async def published(app_rules=None, agent_rules=None):
        store = MemoryStore()
        search = Tool(name="web_search", executor="provider", definition={"type": "web_search", "name": "web_search"})
        tools = [Bash, pay, ask, look, search]
        app = App(
            agents=[Agent(name="coder", tools=tools, rules=agent_rules), Agent(name="bare", tools=tools)], rules=app_rules
        )
        here = await Here.of(app, PATH)
        record = here.record(b"k" * 32, StoreAddress("redis://x", "holdfast", "store-1"))
        await store.put_app(record, here.specs, {rules.digest: rules.to_json() for rules in here.rules.values()})
        return AsyncClient(StackGateway(InMemory(store), timeout_s=5)), store, record

    return published


async def effects(client, *calls):
    return [tuple(await effect(client, *one)) for one in calls]


async def effect(client, name, arguments):
    found = await client.check_rules("coder", name, arguments, app=PATH)
    return found.effect, found.rule, found.by


async def test_the_tools_own_declaration_counts_beside_the_rules(publishing):
    client, _, _ = await publishing(Rules(allow=["Bash(npm *)"], deny=["Bash(rm *)", 'ask(question ~ "secret*")']))
    assert await effects(
        client,
        ("Bash", {"command": "npm test"}),
        ("Bash", {"command": "ls"}),
        ("Bash", {}),
        ("ask", {"question": "which one?"}),
        ("ask", {"question": "secret 7"}),
        ("look", {}),
    ) == [
        ("allow", "Bash(npm *)", "rule"),
        ("ask", None, "tool"),
        ("deny", "Bash(rm *)", "rule"),  # by the default of the primary argument
        ("allow", None, "tool"),
        ("deny", 'ask(question ~ "secret*")', "rule"),
        ("allow", None, "tool"),
    ]


async def test_the_rules_of_app_and_agent_hold_together_and_those_of_another_agent_do_not(publishing):
    client, _, _ = await publishing(Rules(deny=["look"]), Rules(deny=["pay"]))
    assert [found[0] for found in await effects(client, ("look", {}), ("pay", {"amount": 1}))] == ["deny", "deny"]
    assert (await client.check_rules("coder", "look", {}, app=PATH)).hidden
    assert not (await client.check_rules("bare", "pay", {"amount": 1}, app=PATH)).hidden


async def test_a_providers_tool_is_hidden_where_any_call_of_it_may_be_denied_or_the_rules_cannot_be_read(publishing):
    client, store, record = await publishing(Rules(deny=['web_search(query ~ "secret*")']))
    assert (await client.check_rules("coder", "web_search", {"query": "weather"}, app=PATH)).hidden
    store._hashes[store._keys.meta("rules")][record.rules["coder"]] = store.payloads.seal(b"", "rules", record.rules["coder"])
    assert (await client.check_rules("coder", "web_search", {"query": "weather"}, app=PATH)).hidden


async def test_an_approval_that_is_a_function_is_not_called_and_the_check_says_so(publishing):
    client, _, _ = await publishing(Rules(allow=['pay(amount = "5")'], deny=['pay(amount = "7")']))
    told = [await client.check_rules("coder", "pay", {"amount": amount}, app=PATH) for amount in (1, 5, 7)]
    assert [(one.effect, one.reason) for one in told] == [("ask", BY_FUNCTION), ("allow", ""), ("deny", "")]


async def test_rules_that_cannot_be_read_ask_about_what_a_person_can_be_asked_about(publishing):
    client, store, record = await publishing(Rules(allow=["*"]))
    newer = '{"version":99}'
    for text in ("", newer, Rules(deny=["x"]).to_json()):
        store._hashes[store._keys.meta("rules")][record.rules["coder"]] = store.payloads.seal(
            text.encode(), "rules", record.rules["coder"]
        )
        assert await client.check_rules("coder", "look", {}, app=PATH) == RuleCheck(
            effect="ask", rule=None, reason=UNREADABLE, approvers=(), by="default", hidden=False
        )
        assert (await client.check_rules("coder", "ask", {"question": "?"}, app=PATH)).effect == "allow"


async def test_without_rules_only_the_declaration_counts(publishing):
    client, _, record = await publishing()
    assert record.rules == {}
    assert await effects(client, ("look", {}), ("Bash", {})) == [("allow", None, "tool"), ("ask", None, "tool")]


async def test_a_client_that_names_no_app_says_so_and_what_is_not_published_too(publishing):
    client, store, _ = await publishing()
    with pytest.raises(ConfigurationError, match="import path"):
        await client.check_rules("coder", "look", {})
    with pytest.raises(AppNotPublished):
        await client.check_rules("coder", "look", {}, app="other:app")
    store._hashes[store._keys.meta("specs")].clear()
    with pytest.raises(CorruptStore):
        await client.check_rules("coder", "look", {}, app=PATH)
