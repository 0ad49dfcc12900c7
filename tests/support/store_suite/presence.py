"""Cases of presence: clients that attach, renew, leave and come back, and when their departure needs attention."""

import asyncio
from typing import Any

import pytest
from writer import LEASE_MS, Writer, begin, call, cancel, reply, send, start

from holdfast.conversation import Principal, Proof
from holdfast.conversation.terms.presence import GONE_MS, LEAVES_MS, MOST_CLIENTS, MOST_OF_ONE, OnDetach, Present
from holdfast.errors import ConversationNotFound, TooManyClients
from holdfast.persistence import Store, Takeover, TakeoverReason, memory_conversations, memory_presence, redis_presence
from holdfast.persistence.presence import MOST_KNOWN, OF_PRINCIPAL, client_key

from .attention import due
from .parking import BOUND_MS, calling, claimed
from .waiting import until

ANA = Principal("ana@shop.example", proof=Proof.KEY)
SHORT_MS = 60


def client(client_id: str = "tab-1", *tools: str, principal: Principal | None = ANA, **more: Any) -> Present:
    """A client that is about to attach."""
    return Present(client_id=client_id, principal=principal, tools=tools or ("locate",), **more)


def one_of(number: int, **more: Any) -> Present:
    """One of many clients, of which each principal has a few."""
    return client(f"tab-{number}", principal=Principal(f"p-{number % 9}"), **more)


def leaving(client_id: str = "tab-1", **more: Any) -> Present:
    """A client whose end cancels what waits for it."""
    return client(client_id, on_detach=OnDetach.CANCEL, **more)


async def started(store: Store, conversation_id: str = "c-1") -> Writer:
    """The former writer of a conversation that rests, without an owner."""
    writer = await Writer.of(store, conversation_id)
    await writer.do(start(), begin())
    await writer.do(reply())
    await writer.release()
    return writer


async def ids(store: Store, conversation_id: str = "c-1") -> list[str]:
    """The ids of the known clients, in order."""
    return sorted(one.client_id for one in await store.present(conversation_id))


class Attaching:
    """Who is present is known beside the log: bounded, renewed, and its end is noticed once."""

    @pytest.fixture
    def hasty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Clients are gone, and their departure is judged, after a moment."""
        for module in (memory_presence, redis_presence):
            for name in ("GONE_MS", "LEAVES_MS"):
                monkeypatch.setattr(module, name, SHORT_MS)
        monkeypatch.setattr(memory_conversations, "LEAVES_MS", SHORT_MS)

    async def test_nobody_is_present_at_first_or_where_nothing_was_started(self, store: Store) -> None:
        await started(store)

        assert await store.present("c-1") == await store.present("unknown") == ()

    async def test_a_client_attaches_only_to_what_was_started(self, store: Store) -> None:
        held = Takeover(seen_token="", new_token="t-1", because=TakeoverReason.ASKED, actor="a", lease_ms=LEASE_MS, create=True)
        await store.acquire("held", held)

        for name in ("held", "unknown"):
            with pytest.raises(ConversationNotFound):
                await store.attach(name, client())
            assert await store.present(name) == ()
        assert await store.owner("unknown") is None

    async def test_an_attached_client_is_seen_as_it_is(self, store: Store, other: Store) -> None:
        await started(store)
        came = leaving("tab-1", principal=Principal("ana", roles=("ops",), proof=Proof.OIDC))
        before = await store.now()

        ends = await store.attach("c-1", came)

        assert before + GONE_MS <= ends <= await store.now() + GONE_MS
        assert await other.present("c-1") == (came.model_copy(update={"until": ends}),)

    async def test_a_client_that_attaches_again_takes_its_own_place(self, store: Store, other: Store) -> None:
        await started(store)
        await store.attach("c-1", leaving())
        await other.attach("c-1", client("tab-1", "lookup", "locate"))

        (found,) = await store.present("c-1")

        assert (found.tools, found.on_detach) == (("lookup", "locate"), OnDetach.KEEP)
        assert await store.renew_clients([("c-1", leaving())]) == [0]

    async def test_an_id_is_one_client_of_each_principal(self, store: Store) -> None:
        await started(store)
        bob, link = Principal("bob", proof=Proof.KEY), Principal(ANA.id, proof=Proof.LINK)
        for principal in (ANA, bob, link, None):
            await store.attach("c-1", client(principal=principal))

        await store.detach("c-1", client(principal=bob).name)

        now = await store.now()
        assert {one.principal: one.until > now for one in await store.present("c-1")} == {
            ANA: True,
            bob: False,
            link: True,
            None: True,
        }

    async def test_only_so_many_are_present_however_many_come_at_once(self, store: Store, other: Store) -> None:
        await started(store)
        many = [one_of(number) for number in range(MOST_CLIENTS + 6)]

        answers = await asyncio.gather(
            *((store, other)[number % 2].attach("c-1", one) for number, one in enumerate(many)), return_exceptions=True
        )

        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert [type(one) for one in refused] == [TooManyClients] * 6
        assert (refused[0].conversation_id, refused[0].clients) == ("c-1", MOST_CLIENTS)  # type: ignore[attr-defined]
        inside = [one for one, answer in zip(many, answers, strict=True) if isinstance(answer, int)]
        outside = next(one for one in many if one not in inside)
        assert len(await store.present("c-1")) == MOST_CLIENTS
        assert await store.attach("c-1", inside[0])  # one of them, again
        await store.detach("c-1", inside[0].name)
        assert await store.attach("c-1", outside)
        with pytest.raises(TooManyClients):
            await store.attach("c-1", inside[0])

    async def test_clients_that_are_gone_give_way_but_not_those_whose_departure_is_to_be_judged(self, store: Store) -> None:
        await started(store)
        for number in range(MOST_KNOWN):
            one = one_of(number, on_detach=OnDetach.KEEP if number % 2 else OnDetach.CANCEL)
            await store.attach("c-1", one)
            await store.detach("c-1", one.name)
        assert len(await store.present("c-1")) == MOST_KNOWN

        await store.attach("c-1", client("new"))

        assert len(await store.present("c-1")) == MOST_KNOWN // 2 + 1
        for number in range(1, MOST_KNOWN - 1, 2):
            await store.attach("c-1", one_of(number, on_detach=OnDetach.CANCEL))
            await store.detach("c-1", one_of(number).name)
        with pytest.raises(TooManyClients):
            await store.attach("c-1", client("newer"))
        assert await store.attach("c-1", one_of(1, on_detach=OnDetach.CANCEL))

    async def test_one_principal_takes_only_so_many_places(self, store: Store, other: Store) -> None:
        await started(store)
        here = [client(f"tab-{number}") for number in range(MOST_OF_ONE)]
        await asyncio.gather(*((store, other)[number % 2].attach("c-1", one) for number, one in enumerate(here)))

        with pytest.raises(TooManyClients) as refused:
            await store.attach("c-1", client("late"))

        assert refused.value.clients == MOST_OF_ONE
        for principal in (Principal(ANA.id), None):
            assert await store.attach("c-1", client("late", principal=principal))
        assert await store.attach("c-1", here[0])
        await store.detach("c-1", here[0].name)
        assert await store.attach("c-1", client("late"))
        with pytest.raises(TooManyClients):
            await store.attach("c-1", here[0])

    async def test_a_principal_that_comes_and_goes_makes_nobody_elses_clients_forgotten(self, store: Store) -> None:
        await started(store)
        bo = Principal("bo")
        for one in (client("gone", principal=bo), leaving("left", principal=bo)):
            await store.attach("c-1", one)
            await store.detach("c-1", one.name)

        for number in range(MOST_KNOWN + 1):
            await store.attach("c-1", client(f"tab-{number}"))
            await store.detach("c-1", client(f"tab-{number}").name)

        assert {"gone", "left"} < set(await ids(store))
        assert len(await store.present("c-1")) <= MOST_OF_ONE + 2
        for number in range(MOST_OF_ONE):
            await store.attach("c-1", leaving(f"tab-{number}"))
            await store.detach("c-1", leaving(f"tab-{number}").name)
        with pytest.raises(TooManyClients):
            await store.attach("c-1", client("new"))
        assert await store.attach("c-1", client("new", principal=bo))

    def test_clients_of_one_principal_have_keys_that_begin_alike(self) -> None:
        mine, other, theirs = (
            client_key(client(name, principal=by).name)
            for name, by in (("a", ANA), ("b", ANA), ("a", Principal(f"{ANA.id}/a")))
        )
        assert mine[:OF_PRINCIPAL] == other[:OF_PRINCIPAL] != theirs[:OF_PRINCIPAL]
        assert len({mine, other, theirs}) == len({mine[OF_PRINCIPAL:], other[OF_PRINCIPAL:], theirs[OF_PRINCIPAL:]}) == 3

    async def test_a_client_is_forgotten_some_time_after_it_has_gone(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await started(store)
        for one in (client("kept"), leaving("judged")):
            await store.attach("c-1", one)
            await store.detach("c-1", one.name)
        await store.attach("c-1", client("new"))
        assert await ids(store) == ["judged", "kept", "new"]
        for module in (memory_presence, redis_presence):
            monkeypatch.setattr(module, "KEPT_MS", 0)

        await store.attach("c-1", client("new"))

        assert await ids(store) == ["judged", "new"]

    # -- renewals ------------------------------------------------------------------------------------------------------------

    async def test_renewals_prolong_the_presence_of_each_that_is_attached(self, store: Store, other: Store) -> None:
        for name in ("c-1", "c-2"):
            await started(store, name)
        here = [("c-1", client("a")), ("c-1", leaving("b")), ("c-2", client("a")), ("c-2", leaving("c"))]
        first = [await store.attach(name, one) for name, one in here]
        away = [("c-1", client("x")), ("c-2", leaving("x")), ("unknown", client("a")), ("unknown", leaving("a"))]

        async def renewed() -> bool:
            ends = await other.renew_clients([one for pair in zip(here, away, strict=True) for one in pair])
            assert ends[1::2] == [0, 0, 0, 0]
            stands = {(name, one.name): one.until for name in ("c-1", "c-2") for one in await store.present(name)}
            assert [stands[name, one.name] for name, one in here] == ends[::2]
            return all(later > earlier for later, earlier in zip(ends[::2], first, strict=True))

        await until(renewed)
        assert await store.present("unknown") == ()
        assert await store.owner("unknown") is None
        assert await store.renew_clients([]) == []

    async def test_many_are_renewed_at_once(self, store: Store) -> None:
        names = [f"c-{number}" for number in range(6)]
        for name in names:
            await started(store, name)
        clients = [(name, client(f"tab-{number}")) for name in names for number in range(MOST_OF_ONE)]
        await asyncio.gather(*(store.attach(name, one) for name, one in clients))

        async def renewed() -> bool:
            return all(await store.renew_clients(clients))

        await until(renewed)

    @pytest.mark.usefixtures("hasty")
    async def test_a_client_without_renewals_is_gone_and_a_late_renewal_brings_it_back(self, store: Store) -> None:
        await started(store)
        ends = await store.attach("c-1", client())

        async def gone() -> bool:
            return await store.now() > ends

        await until(gone)
        assert [one.until for one in await store.present("c-1")] == [ends]

        assert (await store.renew_clients([("c-1", client())]))[0] > ends
        assert (await store.present("c-1"))[0].until > await store.now()

    # -- departures ----------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("one", [client(), leaving()], ids=["kept", "cancelled"])
    async def test_a_detached_client_is_gone_at_once_and_no_renewal_brings_it_back(self, store: Store, one: Present) -> None:
        await started(store)
        await store.attach("c-1", one)

        await store.detach("c-1", one.name)

        (found,) = await store.present("c-1")
        assert found.until <= await store.now()
        assert await store.renew_clients([("c-1", one)]) == [0]
        await store.detach("c-1", one.name)
        assert await store.present("c-1") == (found,)
        await store.detach("c-1", "nobody")
        await store.detach("unknown", one.name)
        assert await store.attach("c-1", one) > found.until
        assert len(await store.present("c-1")) == 1

    async def test_the_late_end_of_an_earlier_session_does_not_end_a_later_one(self, store: Store, other: Store) -> None:
        await started(store)
        await store.attach("c-1", client(), "one|1")
        await other.attach("c-1", client(), "two")

        await store.detach("c-1", client().name, "one|1")
        assert (await store.present("c-1"))[0].until > await store.now()

        await other.detach("c-1", client().name, "two")
        assert (await store.present("c-1"))[0].until <= await store.now()

    @pytest.mark.usefixtures("hasty")
    async def test_a_departure_needs_attention_once_the_client_is_gone_for_a_while(self, store: Store, other: Store) -> None:
        for name in ("c-1", "c-2"):
            await started(store, name)
        await store.attach("c-1", leaving())
        await store.attach("c-2", client())
        await store.detach("c-1", leaving().name)
        await store.detach("c-2", client().name)
        (found,) = await store.present("c-1")

        async def is_due() -> bool:
            return await due(other) == ["c-1"]

        await until(is_due)
        assert await store.now() >= found.until + SHORT_MS
        await other.forget_clients("c-1", [found.name])
        assert await due(store) == []
        assert await store.present("c-1") == ()

    @pytest.mark.usefixtures("hasty")
    async def test_so_does_one_that_only_falls_silent(self, store: Store) -> None:
        await started(store)
        ends = await store.attach("c-1", leaving())

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)
        assert await store.now() >= ends + SHORT_MS

    async def test_renewals_put_it_off(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        await started(store)
        with monkeypatch.context() as hasty:
            for module in (memory_presence, redis_presence):
                hasty.setattr(module, "GONE_MS", 1)
                hasty.setattr(module, "LEAVES_MS", 1)
            hasty.setattr(memory_conversations, "LEAVES_MS", 1)
            await store.attach("c-1", leaving())

            async def is_due() -> bool:
                return await due(store) == ["c-1"]

            await until(is_due)

        (ends,) = await store.renew_clients([("c-1", leaving())])

        assert ends > await store.now()
        assert await due(store) == []

    @pytest.mark.usefixtures("hasty")
    async def test_a_client_that_has_come_back_is_not_forgotten(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        await started(store)
        for one in (leaving("back"), leaving("gone")):
            await store.attach("c-1", one)
            await store.detach("c-1", one.name)
            left = await store.now()

        async def is_due() -> bool:
            return await store.now() >= left + SHORT_MS and await due(store) == ["c-1"]

        await until(is_due)
        judged = [one.name for one in await store.present("c-1")]
        for module in (memory_presence, redis_presence):
            monkeypatch.setattr(module, "GONE_MS", GONE_MS)
        await store.attach("c-1", leaving("back"))

        await store.forget_clients("c-1", [*judged, "nobody"])

        assert await ids(store) == ["back"]
        assert await due(store) == []
        for module in (memory_presence, redis_presence):
            monkeypatch.setattr(module, "LEAVES_MS", LEAVES_MS)
        await store.detach("c-1", leaving("back").name)  # it has left again, and that is not judged yet
        await store.forget_clients("c-1", judged)
        assert await ids(store) == ["back"]
        await store.forget_clients("unknown", judged)
        assert await store.owner("unknown") is None

    @pytest.mark.usefixtures("hasty")
    async def test_no_write_takeover_or_release_loses_a_departure(self, store: Store) -> None:
        await started(store)
        await store.attach("c-1", leaving())
        await store.detach("c-1", leaving().name)

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)
        writer = await Writer.of(store, "c-1")
        assert await is_due()
        await writer.do(send())
        assert await is_due()
        await writer.do(begin(), call("ask"))
        assert await is_due()
        await store.renew("c-1", writer.token, LEASE_MS)
        assert await is_due()
        await writer.release()
        assert await is_due()
        guest = Writer.visiting(store, "c-1", await store.visit("c-1", most_bytes=1 << 20))
        await guest.do(cancel())
        assert await is_due()
        await store.postpone("c-1", BOUND_MS)
        assert await due(store) == []
        await store.forget_clients("c-1", [leaving().name])
        assert await due(store) == []

    @pytest.mark.usefixtures("hasty")
    async def test_a_deadline_counts_beside_a_departure(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"), now=await store.now() - 3600_000 - 10)
        await store.attach("c-1", leaving())
        await store.detach("c-1", leaving().name)
        assert await due(store) == ["c-1"]

        async def may_be_forgotten() -> bool:
            await store.forget_clients("c-1", [leaving().name])
            return await store.present("c-1") == ()

        await until(may_be_forgotten)

        assert await due(store) == ["c-1"]
        await writer.do(cancel())
        assert await due(store) == []

    @pytest.mark.usefixtures("hasty")
    async def test_a_conversation_whose_work_is_at_workers_is_woken_for_a_departure(self, store: Store) -> None:
        writer = await calling(store)
        await claimed(store)
        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await store.look("c-1", BOUND_MS)
        await store.attach("c-1", leaving())
        await store.detach("c-1", leaving().name)

        async def wakes() -> bool:
            return await due(store) == ["c-1"] and not await store.look("c-1", BOUND_MS)

        await until(wakes)
        await store.forget_clients("c-1", [leaving().name])
        assert await store.look("c-1", BOUND_MS)

    @pytest.mark.usefixtures("hasty")
    async def test_a_conversation_that_was_set_aside_is_left_alone_until_it_is_taken_up_again(self, store: Store) -> None:
        await started(store)
        assert await store.strike("c-1", "", process="p-1", reason="it died", limit=1) is None
        await store.attach("c-1", leaving())
        await store.detach("c-1", leaving().name)
        found = (await store.present("c-1"))[0]

        async def has_left() -> bool:
            return await store.now() > found.until + SHORT_MS

        await until(has_left)
        assert await due(store) == []
        await store.retry("c-1")
        assert await due(store) == ["c-1"]

    @pytest.mark.usefixtures("hasty")
    async def test_rebuilt_indexes_know_of_departures(self, store: Store) -> None:
        await started(store)
        await store.attach("c-1", leaving())

        assert [one.removed for one in [one async for one in store.reindex()]] == [0] * 64

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)
        assert all([not one.removed async for one in store.reindex()])
        assert await is_due()
