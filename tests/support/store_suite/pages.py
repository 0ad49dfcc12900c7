"""Cases of pages: each item once, in order, by every filter, also where times are equal."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from crowd import BEGAN_AT, conversations, crowd, pending
from writer import DESK, Writer, begin, call, cancel, end, fail_model, finish, reply, resolve, send, start

from holdfast.conversation import Answer, Deny, Status, Stop, StopReason, SuspensionKind
from holdfast.conversation.records.events import ModelAnswered
from holdfast.errors import InvalidInput
from holdfast.persistence import ConversationRow, Listing, Store


class Paging:
    """Pending calls and conversations, a page at a time."""

    async def test_an_empty_store_has_one_empty_page(self, store: Store) -> None:
        assert await store.pending(limit=10) == Listing([], None)
        assert await store.conversations(limit=10) == Listing([], None)

    async def test_pending_calls_come_oldest_first(self, store: Store, other: Store) -> None:
        made = await crowd(store, 60)
        expected = [suspension_id for writer in made for suspension_id in sorted(writer.suspension_ids)]

        assert [view.suspension_id for view in await pending(other)] == expected
        assert len(expected) == 80

    async def test_an_open_suspension_is_found_by_its_id_alone(self, store: Store, other: Store) -> None:
        made = await crowd(store, 15)
        shown = {view.suspension_id: view for view in await pending(store)}

        for suspension_id, view in shown.items():
            assert await other.pending_of(None, suspension_id) == [view]
        asking = next(writer for writer in made if writer.suspension_ids)
        (gone, *_) = asking.suspension_ids
        await asking.do(cancel())
        for unknown in (gone, "s-1", "", "*", "s-*", "|", "s" * 129, "s-\n"):
            assert not await other.pending_of(None, unknown)

    async def test_conversations_come_oldest_first(self, store: Store, other: Store) -> None:
        await crowd(store, 60)

        rows = await conversations(other)

        assert [row.conversation_id for row in rows] == [f"crowd-{number}" for number in range(60)]
        assert [row.created_at for row in rows] == [BEGAN_AT + number for number in range(60)]

    @pytest.mark.parametrize("limit", [1, 2, 3, 19, 20, 21, 1000])
    async def test_no_page_size_loses_or_repeats_anything(self, store: Store, limit: int) -> None:
        made = await crowd(store, 15)

        seen = [view.suspension_id for view in await pending(store, limit)]
        rows = [row.conversation_id for row in await conversations(store, limit)]

        assert sorted(seen) == sorted(one for writer in made for one in writer.suspension_ids)
        assert rows == [writer.conversation_id for writer in made]

    async def test_a_full_last_page_has_no_next(self, store: Store) -> None:
        await crowd(store, 15)  # 20 pending calls

        assert (await store.pending(limit=20)).next is None
        assert (await store.pending(limit=19)).next is not None
        assert (await store.conversations(limit=15)).next is None
        assert (await store.conversations(limit=14)).next is not None

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_ties_in_time_lose_nothing(self, store: Store, limit: int) -> None:
        made = await crowd(store, 30, apart_ms=0)

        seen = [view.suspension_id for view in await pending(store, limit)]
        rows = [row.conversation_id for row in await conversations(store, limit)]

        assert seen == sorted(one for writer in made for one in writer.suspension_ids)
        assert sorted(rows) == sorted(writer.conversation_id for writer in made)

    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_ids_that_begin_alike_lose_nothing(self, store: Store, limit: int) -> None:
        names = ["a", "a-b", "a.b", "a:b", "a_b", "a1", "aB", "ab", "A", "z", "zz", "z" * 128, "9"]
        for name in names:
            await (await Writer.of(store, name)).do(start(), begin(), call("ask"), now=BEGAN_AT)

        assert sorted(row.conversation_id for row in await conversations(store, limit)) == sorted(names)
        assert sorted(view.conversation_id for view in await pending(store, limit)) == sorted(names)

    @pytest.mark.parametrize("limit", [2, 50])
    async def test_filters_hold_by_agent_by_kind_and_by_both(self, store: Store, limit: int) -> None:
        await crowd(store, 36)
        everything = await pending(store, 1000)

        for agent in ("desk", "sales", "nobody", "", "d*sk", "desk:x"):
            mine = [view for view in everything if view.agent == agent]
            assert await pending(store, limit, agent) == mine
            for kind in SuspensionKind:
                assert await pending(store, limit, agent, kind) == [view for view in mine if view.kind is kind]
        for kind in SuspensionKind:
            assert await pending(store, limit, None, kind) == [view for view in everything if view.kind is kind]
        assert {view.agent for view in everything} == {"desk", "sales"}

    @pytest.mark.parametrize("limit", [2, 50])
    async def test_filters_hold_by_agent_by_status_and_by_both(self, store: Store, limit: int) -> None:
        made = await crowd(store, 24)
        for number, writer in enumerate(made):
            match number % 6:
                case 0:
                    await writer.do(cancel())
                case 1:
                    await writer.do(end())
                case 2:
                    await writer.do(cancel())
                    await writer.do(send(), begin())
                case 3:
                    await writer.do(cancel())
                    await writer.do(send(), begin(), fail_model())
                case 4:
                    await writer.do(cancel())
                    await writer.do(send(), begin(), call("lookup"))
        everything = await conversations(store, 1000)

        assert {row.status for row in everything} == set(Status) - {Status.ABSENT, Status.QUARANTINED}
        for agent in ("desk", "sales", "nobody"):
            mine = [row for row in everything if row.agent == agent]
            assert await conversations(store, limit, agent) == mine
            for status in Status:
                assert await conversations(store, limit, agent, status) == [row for row in mine if row.status is status]
        for status in Status:
            assert await conversations(store, limit, None, status) == [row for row in everything if row.status is status]

    async def test_conversations_whose_last_turn_was_stopped_are_a_list_of_their_own(self, store: Store, other: Store) -> None:
        stops = DESK.model_copy(update={"stop": Stop(rounds=1)}).stored_as(DESK.digest)

        async def listed(**where: Any) -> list[tuple[str, StopReason | None]]:
            rows = (await other.conversations(limit=10, stopped=True, **where)).items
            return [(row.conversation_id, row.stopped) for row in rows]

        made = [await Writer.of(store, f"c-{number}") for number in range(4)]
        for number, writer in enumerate(made):
            writer.spec = stops
            begins = start(message_id=f"m-{number}"), begin(), call("lookup")
            await writer.do(*begins, now=BEGAN_AT + number)
        for writer in made[:2]:
            await writer.do(finish())
            await writer.do(call("lookup"))
        await made[2].do(finish())
        await made[2].do(reply("half of", finish_reason="length"))
        await made[3].do(finish())
        await made[3].do(reply())
        assert await listed() == [
            ("c-0", StopReason.ROUNDS),
            ("c-1", StopReason.ROUNDS),
            ("c-2", StopReason.LENGTH),
        ]
        assert await listed(agent="desk", status=Status.IDLE) == await listed()
        assert await listed(agent="nobody") == await listed(status=Status.FAILED) == []
        rows = (await store.conversations(limit=10)).items
        assert [row.stopped for row in rows] == [StopReason.ROUNDS, StopReason.ROUNDS, StopReason.LENGTH, None]

        await made[1].do(send(), begin())  # the last turn is the one before
        assert (await listed())[1] == ("c-1", StopReason.ROUNDS)
        await made[1].do(reply())
        assert await listed() == [("c-0", StopReason.ROUNDS), ("c-2", StopReason.LENGTH)]

    async def test_a_quarantine_its_end_and_a_rebuild_keep_the_list_of_stopped_ones(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        await writer.do(reply("half of", finish_reason="length"))

        async def listed() -> list[tuple[Status | None, StopReason | None]]:
            return [(row.status, row.stopped) for row in (await store.conversations(limit=10, stopped=True)).items]

        assert await store.strike("c-1", writer.token, process="p-1", reason="it dies", limit=1) is None
        assert await listed() == [(Status.QUARANTINED, StopReason.LENGTH)]
        async for rebuilt in store.reindex():
            assert not rebuilt.problems
        assert await listed() == [(Status.QUARANTINED, StopReason.LENGTH)]
        assert await store.retry("c-1")
        assert await listed() == [(Status.IDLE, StopReason.LENGTH)]

    async def test_a_row_says_where_the_conversation_stands(self, store: Store) -> None:
        before = await store.now()
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "refund"), now=BEGAN_AT)

        (row,) = (await store.conversations(limit=10)).items

        assert row == ConversationRow("c-1", "desk", Status.AWAITING_INPUT, BEGAN_AT, row.updated_at, 2)
        assert before <= row.updated_at <= await store.now()
        await writer.do(cancel(), now=BEGAN_AT + 1)
        (row,) = (await store.conversations(limit=10)).items
        assert (row.status, row.created_at, row.pending) == (Status.IDLE, BEGAN_AT, 0)

    async def test_a_confirmation_is_no_update(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        (before,) = (await store.conversations(limit=10)).items
        moment = await store.now()

        async def later() -> bool:
            return await store.now() > moment

        while not await later():
            pass
        await store.append("c-1", writer.write())

        assert (await store.conversations(limit=10)).items == [before]

    async def test_what_is_settled_vanishes(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "refund"))
        asked, gated = writer.suspension_ids

        await writer.do(resolve(Answer("blue"), suspension_id=asked))

        for agent in (None, "desk"):
            assert [view.suspension_id for view in await pending(other, agent=agent)] == [gated]
            assert [view.suspension_id for view in await pending(other, agent=agent, kind=SuspensionKind.APPROVAL)] == [gated]
            assert await pending(other, agent=agent, kind=SuspensionKind.ELICITATION) == []
        await writer.do(cancel())
        for kind in (None, *SuspensionKind):
            assert await pending(other, kind=kind) == []
        assert await other.pending_of("c-1") == []

    async def test_a_conversation_stands_under_one_status_at_a_time(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        for steps in ((start(),), (begin(),), (call("ask"),), (resolve(Answer("blue")),), (reply(),), (end(),)):
            await writer.do(*steps)
            found = [status for status in Status if await conversations(store, status=status)]
            assert found == [writer.state.status]
            assert await conversations(store, agent="desk", status=writer.state.status)

    async def test_a_page_goes_on_although_its_last_item_is_gone(self, store: Store) -> None:
        made = await crowd(store, 9)
        first = await store.pending(limit=4)
        for writer in made[:4]:
            await writer.do(cancel())

        rest = await store.pending(limit=100, after=first.next)

        seen = {view.suspension_id for view in first.items}
        left = [one for writer in made[4:] for one in sorted(writer.suspension_ids) if one not in seen]
        assert [view.suspension_id for view in rest.items] == left

    async def test_pending_shows_what_a_person_needs(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(("refund", '{"amount":7}'), prompt="Refund 7?"), now=BEGAN_AT)

        page = await store.pending(limit=10)

        assert list(page.items) == list(await store.pending_of("c-1"))
        (view,) = page.items
        assert (view.conversation_id, view.agent, view.tool, view.arguments) == ("c-1", "desk", "refund", {"amount": 7})
        assert (view.prompt, view.created_at, view.expires_at) == ("Refund 7?", BEGAN_AT, BEGAN_AT + 3600_000)

    @pytest.mark.parametrize("limit", [0, -1, 1001, 1.5, "10", True, None])
    async def test_a_page_size_that_is_none_is_refused(self, store: Store, limit: Any) -> None:
        for page in (store.pending, store.conversations):
            with pytest.raises(InvalidInput) as refused:
                await page(limit=limit)
            assert refused.value.field == "limit"

    @pytest.mark.parametrize(
        "cursor",
        ["", "x", "12", "12.", ".a", "12.a|b", "12.\xff", "-1.a", "1" * 16 + ".a", "12." + "a" * 129, "12.a\n", 12, b"12.a"],
    )
    async def test_a_cursor_that_is_none_is_refused(self, store: Store, cursor: Any) -> None:
        for page in (store.pending, store.conversations):
            with pytest.raises(InvalidInput) as refused:
                await page(limit=10, after=cursor)
            assert refused.value.field == "after"

    async def test_a_cursor_from_nowhere_is_a_place_like_any_other(self, store: Store) -> None:
        await crowd(store, 3)

        def names(page: Listing) -> Sequence[str]:
            return [row.conversation_id for row in page.items]

        assert names(await store.conversations(limit=10, after="0.a")) == ["crowd-0", "crowd-1", "crowd-2"]
        assert names(await store.conversations(limit=10, after=f"{BEGAN_AT + 1}.crowd-1")) == ["crowd-2"]
        assert names(await store.conversations(limit=10, after="999999999999999.z")) == []


DEEP = '{"a":' * 500 + "1" + "}" * 500
"""Arguments that are nested more deeply than answers may be now, and that an old store may hold."""


class Unreadable:
    """A list never fails because one row cannot be read."""

    @pytest.mark.parametrize("limit", [1, 2, 50])
    async def test_arguments_nested_too_deeply_are_a_row_that_says_so(self, store: Store, other: Store, limit: int) -> None:
        names = [f"c-{number}" for number in range(5)]
        for number, name in enumerate(names):
            await _suspended(store, name, BEGAN_AT + number, DEEP if number == 2 else '{"amount":5}')

        views = await pending(other, limit)

        assert [view.conversation_id for view in views] == names
        assert [view.problem is not None for view in views] == [number == 2 for number in range(5)]
        deep = views[2]
        assert (deep.tool, deep.arguments, deep.agent) == ("refund", {}, "desk")
        assert "nested more than 100 deep" in (deep.problem or "")
        assert [view.arguments for view in views if view.problem is None] == [{"amount": 5}] * 4

    async def test_the_pending_calls_of_one_conversation_say_so_too(self, store: Store) -> None:
        writer = await _suspended(store, "c-1", BEGAN_AT, DEEP)

        (view,) = await store.pending_of("c-1")
        (row,) = (await store.conversations(limit=5)).items

        assert "nested" in (view.problem or "")
        assert view.suspension_id == writer.suspension_ids[0]
        assert (row.problem, row.pending) == (None, 1)

    async def test_a_call_that_cannot_be_shown_can_be_denied(self, store: Store) -> None:
        writer = await _suspended(store, "c-1", BEGAN_AT, DEEP)

        await writer.do(resolve(Deny("nobody can read it")))

        assert await store.pending(limit=5) == Listing([], None)


async def _suspended(store: Store, name: str, now: int, arguments: str) -> Writer:
    """The writer of a conversation that waits for an approval of a call with these arguments, which are not judged."""
    writer = await Writer.of(store, name)
    await writer.do(start(), begin(), now=now)
    write = writer.judged(call("refund"), now=now)
    events = tuple(
        event.model_copy(update={"calls": tuple(one.model_copy(update={"arguments": arguments}) for one in event.calls)})
        if isinstance(event, ModelAnswered)
        else event
        for event in write.events
    )
    await store.append(name, replace(write, events=events))
    writer.adopt(events, write.after)
    return writer
