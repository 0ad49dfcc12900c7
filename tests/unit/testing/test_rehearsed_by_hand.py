"""Rehearsals of conversations that are summarised because somebody asks for it."""

import pytest

from holdfast import Agent, Approve, Compact, Context, tool
from holdfast.client import SummaryStatus
from holdfast.conversation.records.event_base import SummaryFailure
from holdfast.errors import InvalidInput, SummaryNotFound
from holdfast.testing import Rehearsal, call, say

USED = {"prompt_tokens": 100, "completion_tokens": 10}


@tool
def look(question: str) -> str:
    """Look it up."""
    return f"found {question}"


def desk(**terms):
    return Agent(name="desk", model="openai/gpt-4o-mini", tools=[look], context=Context(budget=8000, **terms))


def is_asked_for_notes(messages):
    return "holdfast.to_summarize" in str(messages[-1]["content"])


def model(messages):
    """A model that answers at length, and whose notes are short."""
    return say("The order is 7." if is_asked_for_notes(messages) else "Yes. " + "word " * 300, usage=USED)


def kinds(result):
    return [event.kind for event in result.events]


async def talked(rehearsal, turns=4):
    for number in range(turns):
        result = await rehearsal.send(f"Is {number} the number of my order? " + "z " * 200)
    return result


async def test_an_idle_conversation_below_its_threshold_is_summarised():
    async with Rehearsal(desk(compact=Compact(at=1.0)), model=model) as rehearsal:
        before, view = await talked(rehearsal), await rehearsal.context()
        result = await rehearsal.compact(request_id="x-1")
        found, smaller = await rehearsal.summary("x-1"), await rehearsal.context()
        # then the model was asked for notes alone
        assert len(result.prompts) == len(before.prompts) + 1
        assert kinds(result)[len(kinds(before)) :] == ["compaction_requested", "compaction_started", "compacted"]
        assert (result.status, result.reply) == ("idle", before.reply)
        assert found.status is SummaryStatus.COMPACTED
        assert found.messages == 7
        assert found.tokens_before > found.tokens_after + 1024
        assert smaller.tokens < view.tokens / 2
        assert not smaller.compacts
        # and the next turn begins with them, with the last question and its answer as they were
        after = await rehearsal.send("And now?")
        assert "The order is 7." in after.prompts[-1][0]["content"]
        assert [message["role"] for message in after.prompts[-1]] == ["user", "user", "assistant", "user"]
        assert after.messages[: len(before.messages)] == before.messages


async def test_what_would_save_too_little_asks_no_model():
    async with Rehearsal(desk(compact=Compact()), model=model) as rehearsal:
        before = await rehearsal.send("Is 7 the number of my order?")
        result = await rehearsal.compact(request_id="x-1")
        found = await rehearsal.summary("x-1")
        assert len(result.prompts) == len(before.prompts)
        assert (found.status, found.reason) == (SummaryStatus.FAILED, SummaryFailure.NOT_ASKED)
        assert "would save enough" in found.error
        usage = await rehearsal.usage()
        assert usage.total.model_calls == 1
        # and the next one that is due is not put off
        assert result.status == "idle"
        await talked(rehearsal)
        assert (await rehearsal.compact(request_id="x-2")).status == "idle"
        assert (await rehearsal.summary("x-2")).status is SummaryStatus.COMPACTED


async def test_a_summary_by_hand_that_fails_says_why_and_is_counted():
    def refuses(messages):
        return call("look", {"question": "?"}, usage=USED) if is_asked_for_notes(messages) else model(messages)

    async with Rehearsal(desk(compact=Compact(at=1.0)), model=refuses) as rehearsal:
        await talked(rehearsal)
        result = await rehearsal.compact(request_id="x-1")
        found, usage = await rehearsal.summary("x-1"), await rehearsal.usage()
        assert (found.status, found.reason) == (SummaryStatus.FAILED, SummaryFailure.CALLS)
        assert (result.status, result.runs) == ("idle", [])
        assert usage.total.model_calls == 5


async def test_failures_of_what_was_asked_for_put_no_summary_off_that_is_due():
    refuses = True

    def changes_its_mind(messages):
        return call("look", {"question": "?"}) if refuses and is_asked_for_notes(messages) else model(messages)

    async with Rehearsal(desk(compact=Compact(at=0.4)), model=changes_its_mind) as rehearsal:
        for _ in range(4):
            await talked(rehearsal, 1)
            assert "compacted" not in kinds(await rehearsal.compact())
        refuses = False
        while "compacted" not in kinds(result := await talked(rehearsal, 1)):
            assert (await rehearsal.context()).left_out == []
        assert kinds(result).count("summary_failed") == 4


async def test_an_agent_without_compact_refuses_and_nothing_is_recorded():
    async with Rehearsal(desk(), model=model) as rehearsal:
        before = await talked(rehearsal)
        with pytest.raises(InvalidInput, match="has no Compact"):
            await rehearsal.compact()
        assert kinds(await rehearsal.result()) == kinds(before)


async def test_a_request_that_was_never_made_has_no_summary():
    async with Rehearsal(desk(compact=Compact()), model=model) as rehearsal:
        await talked(rehearsal, 1)
        await rehearsal.interrupt(request_id="x-1")
        for asked in ("x-1", "x-2"):
            with pytest.raises(SummaryNotFound):
                await rehearsal.summary(asked)


async def test_a_repeated_request_is_made_once_and_its_summary_stays_what_it_was():
    async with Rehearsal(desk(compact=Compact(at=1.0)), model=model) as rehearsal:
        await talked(rehearsal)
        await rehearsal.compact(request_id="x-1")
        await rehearsal.send("And now?")
        again = await rehearsal.compact(request_id="x-1")
        assert kinds(again).count("compacted") == 1
        await rehearsal.end()
        assert (await rehearsal.summary("x-1")).status is SummaryStatus.COMPACTED


async def test_during_a_turn_the_summary_precedes_its_next_model_call():
    @tool(approval="required")
    def ship(order: str) -> str:
        """Ship an order."""
        return f"shipped {order}"

    def ships(messages):
        last = messages[-1]
        if last["role"] == "user" and "Ship it" in str(last["content"]) and not is_asked_for_notes(messages):
            return call("ship", {"order": "7"}, id="c1", usage=USED)
        return model(messages)

    terms = Context(budget=8000, compact=Compact(at=1.0))
    async with Rehearsal(Agent(name="desk", model="m", tools=[ship], context=terms), model=ships) as rehearsal:
        await talked(rehearsal)
        held = await rehearsal.send("Ship it.")
        waits = await rehearsal.compact(request_id="x-1")
        assert (waits.status, len(waits.prompts)) == ("awaiting_input", len(held.prompts))
        assert (await rehearsal.summary("x-1")).status is SummaryStatus.WAITING
        assert (await rehearsal.context()).compacts
        result = await rehearsal.resolve(waits.pending[0], Approve())
        # then notes were asked for first, and the call with its result stands behind them
        notes, after = result.prompts[len(held.prompts) :]
        assert is_asked_for_notes(notes)
        assert "holdfast.summary" in after[0]["content"]
        assert [message["role"] for message in after[-3:]] == ["user", "assistant", "tool"]
        assert (result.status, (await rehearsal.summary("x-1")).status) == ("idle", SummaryStatus.COMPACTED)
        assert "compaction_started" not in kinds(result)
