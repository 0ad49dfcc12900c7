"""Cases of numbers over everything: counts that only grow, and the survey of what stands."""

import pytest
from writer import DESK, Writer, begin, call, resolve, start

from holdfast.conversation import Approve, Status, SuspensionKind
from holdfast.errors import CorruptStore
from holdfast.persistence import AppRecord, Store, Waiting
from holdfast.persistence.lists import AGES_S, SERIES

from .troubles import HOUR_MS


class Tallying:
    """What processes count adds up, and what the indexes hold is counted by agent, kind, age and status."""

    async def test_counts_of_all_processes_add_up(self, store: Store, other: Store) -> None:
        assert (await store.survey()).counts == {}
        await store.count({})
        await store.count({"a|x": 1, "b": 2})
        await other.count({"a|x": 40, "a|ö": 1})
        assert (await store.survey()).counts == {"a|x": 41, "b": 2, "a|ö": 1}

    async def test_a_count_never_falls(self, store: Store) -> None:
        await store.count({"a": 3})
        for wrong in ({"a": -1}, {"": 1}):
            with pytest.raises(CorruptStore):
                await store.count(wrong)
        assert (await store.survey()).counts == {"a": 3}

    async def test_beyond_so_many_names_only_those_that_are_known_go_on(self, store: Store) -> None:
        await store.count({f"n{number}": 1 for number in range(SERIES)})
        await store.count({"new": 1, "n0": 1})
        counted = (await store.survey()).counts
        assert (len(counted), counted["n0"], counted.get("new")) == (SERIES, 2, None)

    async def test_new_names_of_one_histogram_are_kept_together_or_not_at_all(self, store: Store) -> None:
        await store.count({f"n{number}": 1 for number in range(SERIES - 3)})
        await store.count({"h|a|0": 1, "h|a|1": 0, "h|a|2": 0, "h|a|sum": 7, "h|b|0": 0, "h|b|1": 1, "h|b|sum": 8})
        await store.count({"h|b|1": 1, "h|c|0": 1})
        counted = (await store.survey()).counts
        assert {name: count for name, count in counted.items() if "|" in name} == {"h|b|0": 0, "h|b|1": 2, "h|b|sum": 8}

    async def test_the_survey_counts_what_waits_by_agent_kind_and_age(self, store: Store, other: Store) -> None:
        empty = await store.survey()
        assert (empty.pending, sum(empty.older.values()), empty.conversations[Status.AWAITING_INPUT]) == ({}, 0, 0)
        now = await store.now()
        for number, age_ms in enumerate((0, HOUR_MS + 5_000)):
            writer = await Writer.of(store, f"c-{number}")
            await writer.do(start(), begin(), call("refund"), now=now - age_ms)
        approved = await Writer.of(store, "c-done")
        await approved.do(start(), begin(), call("refund"))
        await approved.do(resolve(Approve()))

        found = await other.survey()
        kind = SuspensionKind.APPROVAL
        assert found.pending == {("", kind): Waiting(2, now - HOUR_MS - 5_000)}, "its agent is in no published app"
        assert [found.older[kind, age_s] for age_s in AGES_S] == [1, 1, 0]
        assert found.conversations[Status.AWAITING_INPUT] == 2
        assert sum(found.conversations.values()) == 3

        await store.put_app(AppRecord(app="shop:app", code="1", agents={DESK.name: DESK.digest, "else": ""}), [DESK])
        assert (await other.survey()).pending == {(DESK.name, kind): Waiting(2, now - HOUR_MS - 5_000)}

    async def test_the_survey_counts_actors_and_what_they_host(self, store: Store) -> None:
        for actor in ("a-1", "a-2", "a-3"):
            await store.heartbeat(actor, limit=9)
        await store.offer("a-1", 0)
        await store.hosts("a-2", "c-1")
        found = await store.survey()
        assert (found.actors, found.offers, found.hosted, found.paused) == (3, 1, 1, 0)

    async def test_the_survey_counts_what_no_actor_hosts_by_status(self, store: Store, other: Store) -> None:
        for number in range(3):
            await (await Writer.of(store, f"c-{number}")).do(start(), begin(), call("refund"))
        await (await Writer.of(store, "c-3")).do(start(), begin())
        await store.hosts("a-1", "c-1")
        await store.hosts("a-2", "c-3")
        await store.hosts("a-3", "c-none")

        unhosted = (await other.survey()).unhosted
        assert {status: count for status, count in unhosted.items() if count} == {Status.AWAITING_INPUT: 2}

        await store.hosts("a-2", None)
        assert (await other.survey()).unhosted[Status.GENERATING] == 1
