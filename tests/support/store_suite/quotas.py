"""Cases of quotas: what keys use is counted once, and not beyond what they may use."""

import asyncio

from writer import Writer, start

from holdfast.persistence import Store
from holdfast.persistence.access import COST, STARTS, TOKENS, WINDOW_MS, Exceeded, Used, Want


class Rationing:
    """Quotas are counted for all servers together."""

    async def test_as_much_is_used_as_may_be_and_no_more(self, store: Store, other: Store) -> None:
        began = await store.now()
        wants = [Want(STARTS, 1, 5), Want(TOKENS, 0, 10)]
        answers = await asyncio.gather(*(one.use("k1", f"r-{n}", wants) for n, one in enumerate((store, other) * 5)))

        refused = [one for one in answers if one is not None]
        assert len(refused) == 5
        assert {(one.quota, one.used) for one in refused} == {(STARTS, 5)}
        assert began + WINDOW_MS <= refused[0].until <= await store.now() + WINDOW_MS
        (used,) = await other.used(["k1"])
        assert used == Used({STARTS: 5, TOKENS: 0}, refused[0].until)

    async def test_a_request_that_was_counted_is_let_through_again_uncounted(self, store: Store, other: Store) -> None:
        wants = [Want(STARTS, 1, 1)]
        assert await store.use("k1", "r-1", wants) is None
        assert await other.use("k1", "r-1", wants) is None
        assert await other.use("k1", "r-2", wants) is not None

    async def test_a_request_that_was_counted_still_needs_what_it_does_not_count(self, store: Store) -> None:
        await (await Writer.of(store, "c-1")).do(start())
        await store.charge("c-1", "k1")
        wants = [Want(STARTS, 1, 1), Want(TOKENS, 0, 10)]
        assert await store.use("k1", "r-1", wants) is None
        await store.spend("c-1", 10, 0)
        refused = await store.use("k1", "r-1", wants)
        assert refused is not None
        assert (refused.quota, refused.used) == (TOKENS, 10)

    async def test_a_request_that_a_quota_refuses_uses_nothing_of_another(self, store: Store, other: Store) -> None:
        assert await store.use("k1", "r-1", [Want("a", 1, 9), Want("b", 1, 1)]) is None
        refused = await store.use("k1", "r-2", [Want("a", 1, 9), Want("b", 1, 1)])
        assert refused is not None
        assert (refused.quota, refused.used) == ("b", 1)
        assert (await other.used(["k1"]))[0].amounts == {"a": 1, "b": 1}

    async def test_what_a_charged_conversation_spends_counts_for_its_key(self, store: Store, other: Store) -> None:
        for name in ("c-1", "c-2"):
            await (await Writer.of(store, name)).do(start())
        await store.charge("c-1", "k1")
        await other.charge("c-1", "k2")  # the first one stays
        wants = [Want(TOKENS, 0, 100), Want(COST, 0, 1_000)]
        assert await store.use("k1", "", wants) is None

        await store.spend("c-1", 60, 10)
        await store.spend("c-2", 60, 10)
        await store.spend("c-none", 60, 10)
        assert await other.use("k1", "", wants) is None
        await other.spend("c-1", 60, 10)

        refused = await store.use("k1", "", wants)
        assert isinstance(refused, Exceeded)
        assert (refused.quota, refused.used) == (TOKENS, 120)
        assert [one.amounts for one in await other.used(["k1", "k2"])] == [{TOKENS: 120, COST: 20}, {}]

    async def test_nobody_has_used_anything_at_first(self, store: Store, other: Store) -> None:
        assert list(await store.used([])) == []
        assert list(await other.used(["k1"])) == [Used()]
