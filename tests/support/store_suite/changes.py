"""Cases of the changes of the lists: what is told of them, in which order, and how a reader goes on."""

import asyncio

import pytest
from writer import Writer, assign, begin, call, cancel, comment, escalate, reply, resolve, send, start

from holdfast.conversation import Answer, Approve, Approvers, ApproverTerms, Principal, Proof, Status, SuspensionKind
from holdfast.conversation.records.commands import ProposedCall
from holdfast.errors import InvalidInput
from holdfast.persistence import Change, Place, Store


async def following(store: Store, place: Place) -> list[Change]:
    """All changes after a place."""
    found: list[Change] = []
    while True:
        page = await store.changes(place)
        if not page.items:
            return found
        found += page.items
        place = page.place


class Changing:
    """Whoever follows the lists learns of every change, and goes on where it was."""

    async def test_each_change_says_where_the_conversation_stands_and_what_opened_and_closed(
        self, store: Store, other: Store
    ) -> None:
        begun = (await other.changes()).place
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(("refund", '{"order": 7}'), "ask"))
        question, refund = sorted((await store.pending_of("c-1")), key=lambda view: view.kind is not SuspensionKind.ELICITATION)
        await writer.do(resolve(Answer("blue"), suspension_id=question.suspension_id))
        await writer.do(cancel())

        found = await following(other, begun)

        assert {change.conversation_id for change in found} == {"c-1"}
        assert {change.agent for change in found} == {writer.state.agent}
        assert [one.place.suspension_id for change in found for one in change.opened].count(refund.suspension_id) == 1
        opened = next(change for change in found if change.opened)
        assert {one.kind for one in opened.opened} == {SuspensionKind.APPROVAL, SuspensionKind.ELICITATION}
        assert (opened.status, opened.pending) == (Status.AWAITING_INPUT, 2)
        closed = [[one.place.suspension_id for one in change.closed] for change in found if change.closed]
        assert closed == [[question.suspension_id], [refund.suspension_id]]
        assert found[-1].seq == writer.state.seq
        assert all(change.first <= change.seq for change in found)
        assert found[-1].status == writer.state.status
        assert await other.pending_at([one.place for one in opened.opened if one.kind is SuspensionKind.APPROVAL]) == [refund]

    async def test_what_is_said_of_a_suspension_that_stays_open_is_a_change(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "refund"))
        place = (await other.changes()).place
        await writer.do(assign("ana"), comment("which order?", principal=Principal("ana")))

        found = await following(other, place)

        noted = [[one.place.suspension_id for one in change.noted] for change in found]
        assert noted == [[writer.suspension_ids[0]]]
        assert all((change.opened, change.closed, change.pending) == ((), (), 2) for change in found)
        (view,) = await other.pending_at([one.place for one in found[-1].noted])
        assert (view.assigned, [one.text for one in view.comments]) == ("ana", ["which order?"])

    async def test_a_vote_and_a_turn_that_was_stopped_hide_no_change(self, store: Store, other: Store) -> None:
        two = ProposedCall(tool_call_id="call_1", name="refund", arguments="{}", approvers=Approvers(minimum=2).terms)
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(two))
        place = (await other.changes()).place
        await writer.do(resolve(Approve(), principal=Principal("bo", proof=Proof.KEY)))
        await writer.do(cancel(), send(), begin())
        await writer.do(reply("half of", finish_reason="length"))

        found = await following(other, place)

        assert {change.conversation_id for change in found} == {"c-1"}
        assert (found[-1].status, found[-1].seq) == (Status.IDLE, writer.state.seq)

    async def test_a_call_that_others_decide_now_is_noted_and_stands_in_their_list(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("refund"))
        place, (suspension,) = (await other.changes()).place, writer.suspension_ids
        await writer.do(escalate(ApproverTerms(who=(("role:board",),)), principal=Principal("ana")))

        (found,) = await following(other, place)

        assert (found.opened, found.closed) == ((), ())
        assert [one.place.suspension_id for one in found.noted] == [suspension]
        for roles, listed in ((["board"], [suspension]), (["desk"], [])):
            page = await other.pending(limit=9, approver=Principal("ana", roles=roles))
            assert [view.suspension_id for view in page.items] == listed
        (view,) = (await other.pending(limit=9)).items
        assert (view.approvers, view.expires_at) == (ApproverTerms(who=(("role:board",),)), writer.state.due_at)

    async def test_what_changes_no_list_is_no_change(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        begun = (await store.changes()).place
        before = await following(store, begun)

        await writer.do(send("and then?"))

        assert await following(store, begun) == before

    async def test_an_append_that_comes_again_is_one_change(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        place = (await store.changes()).place
        write = writer.judged(call("ask"), now=await store.now())

        for _ in range(3):
            await store.append("c-1", write)

        assert [change.seq for change in await following(store, place)] == [write.after.seq]

    async def test_a_reader_goes_on_after_each_change_and_misses_none(self, store: Store, other: Store) -> None:
        begun = (await other.changes()).place
        for number in range(30):
            writer = await Writer.of(store, f"c-{number}")
            await writer.do(start(), begin(), call("ask"))
        found = await following(other, begun)

        seen = [(change.conversation_id, change.seq) for change in found]
        assert len(set(seen)) == len(seen)
        assert {name for name, _ in seen} == {f"c-{number}" for number in range(30)}
        assert [change.at for change in found] == sorted(change.at for change in found)
        for place, change in enumerate(found):
            rest = await following(other, Place.of(change.cursor))
            assert [(one.conversation_id, one.seq) for one in rest] == seen[place + 1 :]

    async def test_a_change_is_awaited(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        place = (await other.changes()).place
        place = (await other.changes(place)).place
        waiting = asyncio.create_task(other.changes(place, block_ms=20_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()

        await writer.do(call("ask"))

        assert [one.kind for one in (await waiting).items[0].opened] == [SuspensionKind.ELICITATION]
        assert not (await other.changes((await waiting).place, block_ms=1)).items

    async def test_a_quarantine_and_its_end_are_changes(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        place = (await store.changes()).place
        place = (await store.changes(place)).place

        await store.strike("c-1", writer.token, process="a-1", reason="it broke", limit=1)
        await store.retry("c-1")

        found = await following(store, place)
        assert [(change.status, change.pending) for change in found] == [(Status.QUARANTINED, 1), (Status.AWAITING_INPUT, 1)]
        assert all(change.seq < change.first for change in found)

    async def test_who_reads_too_late_is_told_that_changes_were_dropped(self, store: Store) -> None:
        begun = (await store.changes()).place
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        early, token = (await following(store, begun))[0], writer.token
        for number in range(1150):
            await store.strike("c-1", token, process=f"a-{number}", reason="it broke", limit=1)
            await store.retry("c-1")
            token = ""

        assert (await store.changes(Place.of(early.cursor))).missed
        assert (await store.changes(begun)).missed

    async def test_a_cursor_is_checked(self, store: Store) -> None:
        for bad in ("", "x", "12-", "1_64-0", "1_1", "9" * 16, "1_1-1" * 65, "²", None, 7):
            with pytest.raises(InvalidInput):
                Place.of(bad)  # type: ignore[arg-type]
        assert Place.of("17_5-2_7-0").cursor == "17_5-2_7-0"
        assert Place.of("17").ids[3] == (17, -1)
