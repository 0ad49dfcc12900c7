"""Cases of budgets: what answers use counts once for their agent's day, with the write that records them."""

import asyncio
from dataclasses import replace

import pytest
from writer import Writer, begin, call, reply, start

from holdfast.conversation import AgentSpec, Budget
from holdfast.conversation.terms.budget import DAY_MS, DaySpent
from holdfast.errors import Fenced
from holdfast.persistence import Store

DAY = Budget(tokens=1000, per="day")
DAILY = AgentSpec(name="desk", model="m", budgets=(DAY,))
USED = {"input_tokens": 40, "output_tokens": 2, "cost_usd": 0.1}


async def turn(store: Store, name: str, spec: AgentSpec = DAILY) -> Writer:
    """A conversation at its first model call."""
    writer = await Writer.of(store, name)
    writer.spec = spec
    await writer.do(start(), begin())
    return writer


def sums(today: DaySpent) -> tuple[int, int]:
    return today.spent.tokens, today.spent.nano_usd


class Budgeting:
    """What is used of a budget for each day is counted over all conversations of an agent."""

    async def test_answers_of_all_conversations_are_added_up_for_their_agent(self, store: Store, other: Store) -> None:
        before = await store.now() // DAY_MS
        writers = [await turn(one, f"c-{number}") for number, one in enumerate((store, other) * 4)]
        await asyncio.gather(*(writer.do(reply(**USED)) for writer in writers))

        today = await other.spent("desk")
        if await store.now() // DAY_MS == before:  # else midnight has passed
            assert (sums(today), today.day) == ((8 * 42, 800_000_000), before)
        assert sums(await store.spent("clerk")) == (0, 0)

    async def test_several_answers_of_a_turn_count_each_and_unknown_ones_nothing(self, store: Store) -> None:
        writer = await turn(store, "c-1")
        await writer.do(call("lookup", **USED))
        await writer.do(reply())
        assert sums(await store.spent("desk")) == (42, 100_000_000)

    async def test_a_write_that_comes_again_counts_once_and_one_that_is_fenced_nothing(self, store: Store) -> None:
        writer = await turn(store, "c-1")
        write = writer.judged(reply(**USED), now=await store.now())
        for _ in range(3):
            await store.append("c-1", write)
        assert sums(await store.spent("desk")) == (42, 100_000_000)
        with pytest.raises(Fenced):
            await store.append("c-1", replace(write, token="another", append_id="x"))
        assert sums(await store.spent("desk")) == (42, 100_000_000)

    async def test_an_answer_counts_once_for_its_day_and_once_for_its_conversation(self, store: Store) -> None:
        writer = await turn(store, "c-1", DAILY.model_copy(update={"budgets": (Budget(tokens=1000), DAY)}))
        write = writer.judged(reply(**USED), now=await store.now())
        for _ in range(2):
            await store.append("c-1", write)
        assert sums(await store.spent("desk")) == (42, 100_000_000)
        spent = (await store.load("c-1")).spent
        assert (spent.tokens, spent.nano_usd) == (42, 100_000_000)

    @pytest.mark.parametrize("budgets", [(), (Budget(tokens=1000),)])
    async def test_agents_without_such_a_budget_are_not_counted(self, store: Store, budgets: tuple[Budget, ...]) -> None:
        writer = await turn(store, "c-1", DAILY.model_copy(update={"budgets": budgets}))
        await writer.do(reply(**USED))
        assert sums(await store.spent("desk")) == (0, 0)
