"""Cases of an operator's view: apps that cannot be run, silent actors, overdue deadlines, and the census."""

from crowd import BEGAN_AT
from writer import Writer, begin, call, lose, resolve, start

from holdfast.conversation import Answer, Approve
from holdfast.persistence import Census, Overdue, Store

from .troubles import HOUR_MS, OVERDUE_MS, overdue


class Inspecting:
    """Problems and sizes are shown to every caller; reading them changes nothing."""

    async def test_an_app_that_cannot_be_run_is_named_with_since_when_until_it_can(self, store: Store, other: Store) -> None:
        assert await store.broken_apps() == []
        before = await store.now()
        await store.put_problem("shop:app", "ModuleNotFoundError: shöp")
        (first,) = await other.broken_apps()
        assert (first.app, first.problem) == ("shop:app", "ModuleNotFoundError: shöp")
        assert first.since is not None
        assert before <= first.since <= await store.now()

        while await store.now() <= first.since:
            pass
        await other.put_problem("shop:app", "SyntaxError")
        await other.put_problem("desk:app", "KeyError")

        found = await store.broken_apps()
        assert [(one.app, one.problem) for one in found] == [("shop:app", "SyntaxError"), ("desk:app", "KeyError")]
        assert found[0].since == first.since, "it could not be run all the while"
        await store.put_problem("shop:app", None)
        while await store.now() <= found[1].since:  # type: ignore[operator]
            pass
        await store.put_problem("shop:app", "ImportError")
        assert [one.app for one in await other.broken_apps()] == ["desk:app", "shop:app"]

    async def test_who_is_silent_is_named_with_what_it_hosts_and_since_when(self, store: Store, other: Store) -> None:
        for actor in ("a-1", "a-2"):
            assert await store.heartbeat(actor, limit=9)
        await store.hosts("a-2", "c-2")
        heard = await store.now()
        while await store.now() < heard + 3:
            pass

        assert [(name, one.conversation_id) for name, one in (await other.live(quiet_ms=2)).items()] == [
            ("a-1", None),
            ("a-2", "c-2"),
        ]
        assert all(one.since <= heard for one in (await other.live(quiet_ms=2)).values())
        assert await other.live(quiet_ms=60_000) == {}

    async def test_what_passed_its_moment_long_ago_is_counted_and_the_longest_named(self, store: Store, other: Store) -> None:
        assert await store.overdue(0, limit=5) == Overdue(0)
        for number in range(3):
            writer = await Writer.of(store, f"c-{number}")
            asked_at = await store.now() - OVERDUE_MS - 1_000 * (number + 1)
            await writer.do(start(), begin(), call("ask"), now=asked_at)
        fresh = await Writer.of(store, "c-fresh")
        await fresh.do(start(), begin(), call("ask"))

        found = await other.overdue(1_500, limit=2)

        assert found.count == 3
        assert [name for name, _ in found.longest] == ["c-2", "c-1"]
        assert found.longest[0][1] <= await store.now() - 4_000
        assert (await other.overdue(HOUR_MS, limit=2)).count == 0

    async def test_what_is_postponed_set_aside_or_resolved_is_not_overdue(self, store: Store) -> None:
        await overdue(store, "c-1")
        aside = await overdue(store, "c-2")
        resolved = await overdue(store, "c-3")
        assert (await store.overdue(0, limit=9)).count == 3

        await store.postpone("c-1", HOUR_MS)
        await store.strike("c-2", aside.token, process="w-1", reason="it hangs", limit=1)
        await resolved.do(resolve(Answer("blue")))

        assert (await store.overdue(0, limit=9)).count == 0

    async def test_a_census_counts_what_there_is(self, store: Store, other: Store) -> None:
        assert await store.census(since=0) == Census(0, 0, 0, 0, 0, 0)
        for number in range(3):
            writer = await Writer.of(store, f"c-{number}")
            await writer.do(start(), begin(), call("ask"), now=BEGAN_AT + number)
        lost = await Writer.of(store, "c-lost")
        await lost.do(start(), begin(), call("ship"), resolve(Approve()), lose(), now=BEGAN_AT + 3)
        await store.strike("c-lost", lost.token, process="w-1", reason="it hangs", limit=1)

        found = await other.census(since=BEGAN_AT + 1)

        assert (found.conversations, found.begun, found.pending, found.quarantined) == (4, 3, 4, 1)
        assert found.lost == 1
        assert 1 <= found.fullest <= 4
