"""Cases of records that belong to no conversation: apps, standby actors, the cluster, live events."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from writer import APP, DESK

from holdfast.conversation import AgentSpec, ToolSpec
from holdfast.persistence import Binding, OpenBreakers, Store

from .waiting import WITHIN_S, until


async def heard(listening: AsyncIterator[bytes], store: Store, conversation_id: str, payload: bytes) -> bytes:
    """The first payload that a listener gets; it is published again and again until the listener has begun."""
    first = asyncio.ensure_future(anext(listening))

    async def came() -> bool:
        await store.publish(conversation_id, payload)
        return first.done()

    await until(came)
    return await first


class Finding:
    """The store keeps apps and specs, offers, the binding and its identity, and carries live events."""

    async def test_every_object_over_the_same_data_has_its_id(self, store: Store, other: Store) -> None:
        store_id = await store.open()

        assert store_id
        assert await other.open() == store_id
        assert await store.open() == store_id
        assert await store.identity() == store_id

    async def test_time_goes_forward(self, store: Store, other: Store) -> None:
        first = await store.now()
        assert isinstance(first, int)
        assert first <= await other.now() <= await store.now()

    async def test_an_app_is_what_was_last_said_of_it(self, store: Store, other: Store) -> None:
        assert await store.app(APP.app) is None
        await store.put_app(APP, [DESK])
        assert await other.app(APP.app) == APP
        assert await other.apps() == [APP]

        edited = APP.model_copy(update={"code": "code-2", "main_file": None})
        await other.put_app(edited, [])

        assert await store.app(APP.app) == edited
        assert await store.app("another:app") is None

    async def test_specs_are_kept_by_digest(self, store: Store, other: Store) -> None:
        edited = AgentSpec(name="desk", model="test/other", tools=(ToolSpec(name="lookup", strict=True),))
        await store.put_app(APP, [DESK])
        await store.put_app(APP, [edited])

        assert await other.spec(DESK.digest) == DESK
        assert await other.spec(edited.digest) == edited
        assert await other.spec("0" * 64) is None

    async def test_rules_are_kept_by_digest_and_an_app_names_those_of_its_agents(self, store: Store, other: Store) -> None:
        first, second = '{"deny":["*"],"version":1}', '{"ask":["Zürich_*"],"version":1}'
        ruled = APP.model_copy(update={"rules": {"desk": "1" * 64}})
        assert await store.rules("1" * 64) is None

        await store.put_app(ruled, [DESK], {"1" * 64: first})

        assert await other.app(APP.app) == ruled
        assert await other.rules("1" * 64) == first
        assert await other.rules("2" * 64) is None

        await other.put_app(APP, [DESK], {"2" * 64: second})

        published = await store.app(APP.app)
        assert published is not None
        assert published.rules == {}
        assert await store.rules("2" * 64) == second
        assert await store.rules("1" * 64) == first, "a worker may still be about to read them"

    async def test_a_problem_stands_until_it_is_lifted(self, store: Store, other: Store) -> None:
        assert await store.problem(APP.app) is None
        await store.put_problem(APP.app, "ModuleNotFoundError: shöp")
        assert await other.problem(APP.app) == "ModuleNotFoundError: shöp"
        await other.put_problem(APP.app, "SyntaxError")
        assert await store.problem(APP.app) == "SyntaxError"
        await store.put_problem(APP.app, None)
        await store.put_problem(APP.app, None)
        assert await other.problem(APP.app) is None

    async def test_the_breakers_that_a_worker_notes_stand_until_its_next_note(self, store: Store, other: Store) -> None:
        assert await store.open_breakers() == []
        await store.note_breakers("worker:a:0", {("openai/b", "open"): 2, ("openai/a", "half_open"): 1})
        await other.note_breakers("worker:a:1", {("openai/a", "open"): 1})
        first = OpenBreakers("worker:a:0", "openai/a", "half_open", 1)
        second = OpenBreakers("worker:a:0", "openai/b", "open", 2)
        third = OpenBreakers("worker:a:1", "openai/a", "open", 1)
        assert await other.open_breakers() == [first, second, third]
        await store.note_breakers("worker:a:0", {("openai/b", "open"): 2})
        assert await other.open_breakers() == [second, third]
        await store.note_breakers("worker:a:0", {})
        await store.note_breakers("worker:a:0", {})
        assert await other.open_breakers() == [third]

    async def test_the_lowest_offer_is_taken_first(self, store: Store, other: Store) -> None:
        assert await store.take() == []
        await store.offer("idle-late", 2_000)
        await store.offer("blank-b", 0)
        await store.offer("idle-early", 1_000)
        await store.offer("blank-a", 0)

        assert await other.offers() == 4
        taken = [name for number in range(5) for name in await (store if number % 2 else other).take()]

        assert set(taken[:2]) == {"blank-a", "blank-b"}
        assert taken[2:] == ["idle-early", "idle-late"]
        assert await store.offers() == 0

    async def test_an_offer_from_a_later_time_on_is_taken_before_by_one_that_finds_no_other(
        self, store: Store, other: Store
    ) -> None:
        await store.offer("kept", await store.now() + 600_000)
        await store.offer("idle", await store.now())
        assert await store.offers() == 2

        assert await other.take(5) == ["idle"]
        assert await other.take(5) == []
        assert await other.take(5, kept=True) == ["kept"]
        assert await store.offers() == 0

    async def test_an_offer_is_taken_once(self, store: Store, other: Store) -> None:
        names = {f"actor-{number}" for number in range(10)}
        for name in names:
            await store.offer(name, 0)

        taken = await asyncio.gather(*((store if number % 2 else other).take() for number in range(30)))

        got = [name for names in taken for name in names]
        assert len(got) == 10
        assert set(got) == names

    async def test_an_offer_made_again_stands_once(self, store: Store) -> None:
        await store.offer("actor-1", 5)
        await store.offer("actor-1", 0)
        assert await store.offers() == 1
        await store.offer("actor-1", 7)
        assert await store.offers() == 1
        assert [await store.take(), await store.take()] == [["actor-1"], []]

    async def test_a_withdrawn_offer_is_not_taken(self, store: Store) -> None:
        await store.offer("actor-1", 0)
        await store.offer("actor-1", None)
        await store.offer("actor-2", None)

        assert await store.take() == []

    async def test_a_store_is_bound_to_one_cluster(self, store: Store, other: Store) -> None:
        assert await store.bind("cluster-1", "10.0.0.1:6379", 60_000) is None
        assert await other.bind("cluster-1", "10.0.0.1:6379", 60_000) is None

        bound = await other.bind("cluster-2", "10.0.0.2:6379", 60_000)

        assert isinstance(bound, Binding)
        assert (bound.cluster, bound.address) == ("cluster-1", "10.0.0.1:6379")
        assert 0 <= bound.age_ms < 60_000

    async def test_of_concurrent_clusters_one_binds(self, store: Store, other: Store) -> None:
        answers = await asyncio.gather(
            *((store if number % 2 else other).bind(f"cluster-{number}", "a", 60_000) for number in range(8))
        )

        assert answers.count(None) == 1
        assert {answer.cluster for answer in answers if answer is not None} == {f"cluster-{answers.index(None)}"}

    async def test_a_stale_binding_gives_way(self, store: Store) -> None:
        await store.bind("cluster-1", "a", 60_000)

        async def bound_anew() -> bool:
            return await store.bind("cluster-2", "b", 20) is None

        await until(bound_anew)
        left = await store.bind("cluster-1", "a", 60_000)
        assert left is not None
        assert (left.cluster, left.address) == ("cluster-2", "b")

    async def test_a_binding_that_is_said_again_stays_fresh(self, store: Store) -> None:
        await store.bind("cluster-1", "a", 60_000)
        first = await store.now()

        async def older() -> bool:
            return await store.now() > first + 30

        await until(older)
        await store.bind("cluster-1", "a:2", 1)

        bound = await store.bind("cluster-2", "b", 60_000)
        assert bound is not None
        assert bound.address == "a:2"
        assert bound.age_ms <= await store.now() - first - 30

    async def test_a_fresh_binding_gives_way_only_to_the_proof_that_its_cluster_is_gone(self, store: Store) -> None:
        await store.bind("cluster-1", "a", 60_000)

        assert await store.bind("cluster-2", "b", 60_000, gone=["cluster-0", "cluster-3"]) is not None
        assert await store.bind("cluster-2", "b", 60_000, gone=["cluster-0", "cluster-1"]) is None
        assert await store.bind("cluster-1", "a", 60_000) is not None

    async def test_a_binding_of_an_older_release_is_told_by_its_clusters_id_too(self, store: Store) -> None:
        await store.bind("cluster-1@a-machine", "a", 60_000)

        assert await store.bind("cluster-2", "b", 60_000) is not None
        assert await store.bind("cluster-1", "a", 60_000) is None
        assert (await store.binding()) is not None
        assert getattr(await store.binding(), "cluster", None) == "cluster-1"

    async def test_a_binding_is_read_without_a_change(self, store: Store, other: Store) -> None:
        assert await store.binding() is None
        await store.bind("cluster-1", "10.0.0.1:6379", 60_000)

        found = await other.binding()

        assert found is not None
        assert (found.cluster, found.address) == ("cluster-1", "10.0.0.1:6379")
        assert 0 <= found.age_ms < 60_000
        await store.unbind("cluster-1")
        assert await other.binding() is None

    async def test_a_workers_claims_stand_for_as_long_as_it_attests_them(self, store: Store, other: Store) -> None:
        assert not await store.attested("w-1")
        await store.attest("w-1", 60_000)
        await store.attest("w-2", 20)

        async def lapsed() -> bool:
            return not await other.attested("w-2")

        await until(lapsed)
        assert await other.attested("w-1")
        await store.attest("w-2", 60_000)
        assert await other.attested("w-2")

    async def test_the_release_that_serves_is_noted_by_who_has_seen_the_one_before(self, store: Store, other: Store) -> None:
        assert await store.serving() is None
        assert await store.serve("0.1", before=None)
        assert await other.serving() == "0.1"

        assert not await other.serve("0.2", before=None)
        assert not await other.serve("0.3", before="0.2")
        assert await store.serving() == "0.1"
        assert await other.serve("0.2", before="0.1")
        assert await other.serve("0.2", before="0.1")  # its reply was lost
        assert await store.serving() == "0.2"

    async def test_only_the_bound_cluster_unbinds(self, store: Store, other: Store) -> None:
        await store.unbind("cluster-1")
        await store.bind("cluster-1", "a", 60_000)
        await other.unbind("cluster-2")
        assert await store.bind("cluster-2", "b", 60_000) is not None

        await other.unbind("cluster-1")

        assert await store.bind("cluster-2", "b", 60_000) is None

    async def test_what_is_published_reaches_who_listens(self, store: Store, other: Store) -> None:
        first, second = other.listen("c-1"), other.listen("c-1")
        elsewhere = other.listen("c-2")

        for listening in (first, second):
            assert await heard(listening, store, "c-1", b"\x00one") == b"\x00one"
        assert await heard(elsewhere, store, "c-2", b"three") == b"three"
        await store.publish("c-1", b"last")
        async with asyncio.timeout(WITHIN_S):
            for listening in (first, second):
                while await anext(listening) != b"last":  # repeated payloads come before it
                    pass
        for listening in (first, second, elsewhere):
            await listening.aclose()  # type: ignore[attr-defined]

    async def test_who_listens_can_stop_waiting(self, store: Store, other: Store) -> None:
        listening = other.listen("c-1")
        assert await heard(listening, store, "c-1", b"one") == b"one"

        async def nothing_more() -> None:
            while True:
                await anext(listening)

        waiting = asyncio.create_task(nothing_more())
        await store.publish("c-1", b"two")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert await store.now() > 0

    async def test_publishing_to_nobody_is_fine(self, store: Store) -> None:
        await store.publish("c-1", b"nobody hears it")
