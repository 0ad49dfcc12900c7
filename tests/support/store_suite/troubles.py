"""Cases of trouble: hosts of conversations, postponed attention, named troubles, quarantine by another than the owner."""

import pytest
from writer import Writer, begin, call, reply, resolve, send, start

from holdfast.conversation import Answer
from holdfast.conversation.records.idempotency import decision_key, message_key
from holdfast.errors import Fenced, Quarantined
from holdfast.persistence import Blame, Store

from .waiting import until

HOUR_MS = 3_600_000
OVERDUE_MS = HOUR_MS + 1_000
"""The age, in milliseconds, at which the deadline of a call of `ask` has passed."""


async def overdue(store: Store, name: str) -> Writer:
    """The writer of a conversation whose question has passed its deadline."""
    writer = await Writer.of(store, name)
    await writer.do(start(), begin(), call("ask"), now=await store.now() - OVERDUE_MS)
    return writer


async def due(store: Store) -> list[str]:
    """The ids of the conversations that need attention now."""
    return list((await store.attention(100)).conversation_ids)


class Troubling:
    """A conversation that cannot be taken up blocks no other one, and is named."""

    async def test_who_sees_the_owner_may_strike_and_whoever_saw_another_may_not(self, store: Store, other: Store) -> None:
        writer = await overdue(store, "c-1")
        strike = {"process": "a-1", "reason": "it answers nothing", "limit": 2}

        assert await other.strike("c-1", writer.token, **strike) == Blame(1, 1)  # type: ignore[arg-type]
        after = await writer.succeeded()
        with pytest.raises(Fenced):
            await other.strike("c-1", writer.token, **(strike | {"process": "a-2"}))  # type: ignore[arg-type]
        with pytest.raises(Fenced):
            await other.strike("c-1", "", **(strike | {"process": "a-2"}))  # type: ignore[arg-type]

        assert await other.strike("c-1", after.token, **(strike | {"process": "a-2"})) is None  # type: ignore[arg-type]
        with pytest.raises(Fenced):
            await after.do(resolve(Answer("blue")))

    async def test_what_nobody_owns_can_be_set_aside_once_and_what_never_was_cannot(self, store: Store, other: Store) -> None:
        writer = await overdue(store, "c-1")
        await store.release("c-1", writer.token)

        assert await other.strike("c-1", "", process="a-1", reason="unreadable", limit=1) is None

        with pytest.raises(Fenced):
            await other.strike("c-1", "", process="a-2", reason="again", limit=1)
        with pytest.raises(Fenced):
            await other.strike("c-none", "", process="a-1", reason="nothing", limit=1)
        assert await store.owner("c-none") is None
        assert (await store.quarantine("c-1")).reason == "unreadable"  # type: ignore[union-attr]
        with pytest.raises(Quarantined):
            await Writer.of(store, "c-1")
        assert await store.retry("c-1")
        assert (await Writer.of(store, "c-1")).state == writer.state

    async def test_what_is_known_of_an_id_can_be_asked_in_quarantine(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"), resolve(Answer("blue"), decision_id="d-1"))
        await store.strike("c-1", writer.token, process="a-1", reason="broken", limit=1)

        known = await other.known("c-1", [decision_key("d-1"), message_key("m-none")])

        assert list(known) == [decision_key("d-1")]
        assert await other.known("c-1", []) == {}
        assert await other.known("c-none", [message_key("m-1")]) == {}

    async def test_what_is_postponed_leaves_its_place_to_others(self, store: Store, other: Store) -> None:
        await overdue(store, "c-1")
        await overdue(store, "c-2")

        await other.postpone("c-1", HOUR_MS)

        assert await due(store) == ["c-2"]

    async def test_what_is_postponed_comes_back(self, store: Store) -> None:
        await overdue(store, "c-1")
        await store.postpone("c-1", 20)

        async def back() -> bool:
            return await due(store) == ["c-1"]

        await until(back)

    async def test_a_write_says_anew_when_a_conversation_must_be_looked_at(self, store: Store) -> None:
        writer = await overdue(store, "c-1")
        await store.postpone("c-1", HOUR_MS)

        await writer.do(send())

        assert await due(store) == ["c-1"]

    async def test_what_needs_no_attention_does_not_come_to_need_it(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), reply())
        quarantined = await overdue(store, "c-2")
        await store.strike("c-2", quarantined.token, process="a-1", reason="broken", limit=1)
        for name in ("c-1", "c-2", "c-none"):
            await other.postpone(name, 0)
        assert await due(store) == []
        assert await store.owner("c-none") is None

    async def test_a_trouble_stands_until_it_is_over_and_says_since_when(self, store: Store, other: Store) -> None:
        assert await store.troubles() == []
        assert await store.troubled("c-1", "unreadable | märz") < 1_000
        (trouble,) = await other.troubles()
        assert (trouble.conversation_id, trouble.reason) == ("c-1", "unreadable | märz")

        async def older() -> bool:
            return await other.troubled("c-1", "still unreadable") > 5

        await until(older)
        await store.troubled("c-2", "no actor")

        first, second = await other.troubles()
        assert (first.conversation_id, first.reason, first.since) == ("c-1", "still unreadable", trouble.since)
        assert second.since >= first.since
        await store.troubled("c-1", None)
        await store.troubled("c-none", None)
        assert [trouble.conversation_id for trouble in await other.troubles()] == ["c-2"]

    async def test_whom_an_actor_hosts_is_known_until_it_hosts_none_or_deregisters(self, store: Store, other: Store) -> None:
        await store.hosts("actor-2", "c-1")
        await other.hosts("actor-2", None)
        await other.hosts("actor-3", None)
        assert [await store.hosted("actor-2"), await store.hosted("actor-3")] == [None, None]
        assert await store.hosted("actor-1") is None
        await store.hosts("actor-1", "c-1")
        await store.hosts("actor-1", "c-2")
        assert await other.hosted("actor-1") == "c-2"

        await other.deregister("actor-1")

        assert await store.hosted("actor-1") is None

    async def test_an_id_under_which_nothing_was_started_is_forgotten_with_its_owner(self, store: Store, other: Store) -> None:
        started = await Writer.of(store, "c-1", lease_ms=1)
        await started.do(start())
        await Writer.of(store, "c-2", lease_ms=1)
        assert (await other.owner("c-2")) is not None

        async def forgotten() -> bool:
            return await other.owner("c-2") is None

        await until(forgotten)
        assert (await other.owner("c-1")).started  # type: ignore[union-attr]
        await started.do(begin())
