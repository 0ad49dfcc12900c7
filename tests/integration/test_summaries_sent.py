"""Requests for summaries over real HTTP and through real litellm: data in our envelope, no tools, told to nobody."""

import json

import pytest
from model_caller import LOOKUP, Caller
from writer import finish

from holdfast.actors.worker import failover
from holdfast.conversation import Breaker, Compact, Context, ModelReplied, compaction
from holdfast.conversation.terms.models import ModelChain, ModelSpec
from holdfast.conversation.window import window
from holdfast.testing import ModelServer, call, say

OPTIONS = {"temperature": 0, "max_tokens": 300, "tool_choice": "auto"}
NOTES = "the order is 7"


async def summarised(*, anthropic, tells=NOTES, at=(), **terms):
    """A turn with a call, and the summary before the next one; the requests to its server, and what came of the summary.

    `at`: the addresses of the models that are declared for summaries.
    """
    with ModelServer(script=[call("lookup", {"order": 7}), "shipped " * 260, tells, "yes"]) as server:
        caller = await Caller.of(server, anthropic=anthropic, tools=(LOOKUP,), options=OPTIONS)
        context = Context(budget=1200, preview=None, compact=Compact(**terms))
        caller.spec = caller.spec.model_copy(update={"context": context, "instructions": "Be kind."})
        caller.writer.spec = caller.spec = caller.spec.stored_as(caller.writer.spec.digest)
        caller.summary_options = tuple({"api_base": one, "api_key": "sk-test"} for one in at)
        await caller.turn()
        await caller.writer.do(finish(caller.writer.effect_ids[0]))
        await caller.turn()
        await caller.send("and now?")
        due = window(caller.spec, caller.transcript.messages(), {}).due
        told = len(caller.live)
        answered = await caller.call(compaction.request(due), asked=compaction.summarizer(caller.spec), hidden=True)
        assert len(caller.live) == told, "listeners hear of a summary"
        verdict = compaction.verdict(answered, due, caller.transcript.origins)
        await caller.writer.do(lambda _: verdict)
        found = caller.transcript
        sent = window(caller.spec, found.messages(), found.reported, compacted=found.compacted, failed=found.failed)
        assert isinstance(await caller.call(sent.messages), ModelReplied)
        return [request.body for request in server.requests], verdict


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_summary_is_asked_for_without_tools_and_sent_as_nobodys_words(anthropic):
    (*_, asked, after), verdict = await summarised(anthropic=anthropic)
    assert (verdict.failed, verdict.summary) == (None, NOTES)
    assert not asked.keys() & {"tools", "tool_choice"}
    assert asked["temperature"] == 0
    assert asked["max_tokens"] < 300
    *_, data = asked["messages"]
    text = data["content"] if isinstance(data["content"], str) else data["content"][0]["text"]
    assert (data["role"], json.loads(text)["_kind"]) == ("user", "holdfast.to_summarize")
    assert [one["role"] for one in json.loads(text)["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert "Be kind." not in json.dumps(asked)
    said = json.dumps(after["messages"])
    assert "holdfast.summary" in said
    assert "shipped shipped" not in said
    assert after["tools"]


async def test_another_model_of_the_same_provider_summarises_with_the_agents_address():
    (*_, asked, after), verdict = await summarised(anthropic=False, model="openai/gpt-4.1-nano", prompt="Be brief.")
    assert (asked["model"], after["model"]) == ("gpt-4.1-nano", "gpt-4o-mini")
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert verdict.failed is None


async def test_a_summary_that_asks_for_tools_is_none():
    _, verdict = await summarised(anthropic=False, tells=call("lookup", {"order": 8}))
    assert verdict.failed == "calls"


async def test_a_model_that_is_declared_for_summaries_is_retried_gives_way_and_is_passed_over(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)
    own = ModelSpec(model="openai/gpt-5-nano", options='{"reasoning_effort":"low"}')
    chain = ModelChain(model="openai/gpt-4o-mini", retries=1, breaker=Breaker(failures=2), fallbacks=(own,))
    with ModelServer(script=[]) as down, ModelServer(script=lambda _: say(NOTES)) as other:
        down.fail(503, times=None)
        (*_, after), verdict = await summarised(anthropic=False, tells="yes", at=(down.url, other.url), model=chain)
    assert (verdict.failed, verdict.summary, verdict.model) == (None, NOTES, "openai/gpt-5-nano")
    assert [request.body["model"] for request in down.requests] == ["gpt-4o-mini"] * 2
    (asked,) = (request.body for request in other.requests)
    assert (asked["model"], asked["reasoning_effort"]) == ("gpt-5-nano", "low")
    assert not asked.keys() & {"tools", "tool_choice"}
    # then the breaker of the address for summaries is open, and the same model answers the agent at its own
    assert (after["model"], "tools" in after) == ("gpt-4o-mini", True)
