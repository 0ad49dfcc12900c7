"""Cases of the further lists of pending calls, by tool, approver, age and deadline, and of finding one by its id."""

from typing import Any

import pytest
from crowd import BEGAN_AT, crowd, pending, walk
from writer import DESK, Writer, begin, call, cancel, escalate, resolve, send, start

from holdfast.conversation import Answer, Approvers, Limits, Principal, Proof, Tell
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.approvers import joined
from holdfast.errors import InvalidInput
from holdfast.persistence import Store, pages

ANA = Principal("ana", roles=("finance", "staff"))
WHO = {
    "c-anybody": None,
    "c-known": Approvers(minimum=2),
    "c-finance": Approvers("role:finance"),
    "c-ana": Approvers("id:ana", "id:kim"),
    "c-board": Approvers("role:board"),
    "c-both": joined(Approvers("role:board", "role:staff", "role:chair").terms, Approvers("role:finance", "id:bo").terms),
}
HERS = ["c-anybody", "c-known", "c-finance", "c-ana", "c-both"]


def asked(number: int, approvers: Any) -> ProposedCall:
    terms = getattr(approvers, "terms", approvers)
    return ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments="{}", approvers=terms)


async def found(store: Store, limit: int, **where: Any) -> list[str]:
    """The conversations of the wanted calls; pages may be short."""
    names, after = [], None
    while True:
        page = await store.pending(limit=limit, after=after, **where)
        names += [view.conversation_id for view in page.items]
        if (after := page.next) is None:
            return names


class Selecting:
    """Pending calls by what they are."""

    @pytest.mark.parametrize("limit", [2, 50])
    async def test_calls_are_listed_by_tool(self, store: Store, other: Store, limit: int) -> None:
        made = await crowd(store, 24)
        everything = await pending(store, 1000)

        for tool in ("ask", "refund", "lookup", "", "*"):
            mine = [view for view in everything if view.tool == tool]
            assert await walk(lambda after, of=tool: other.pending(limit=limit, after=after, tool=of), limit) == mine
            of_sales = [view.conversation_id for view in mine if view.agent == "sales"]
            assert await found(other, limit, tool=tool, agent="sales") == of_sales
        await made[0].do(cancel())
        assert made[0].conversation_id not in await found(other, limit, tool="ask")

    @pytest.mark.parametrize("limit", [1, 50])
    async def test_calls_are_listed_by_approver(self, store: Store, other: Store, limit: int) -> None:
        for number, (name, approvers) in enumerate(WHO.items()):
            writer = await Writer.of(store, name)
            await writer.do(start(), begin(), call(asked(number, approvers)), now=BEGAN_AT + number)

        assert await found(other, limit, approver=ANA) == HERS
        assert await found(other, limit, approver=Principal("kim", roles=("board",))) == [
            "c-anybody",
            "c-known",
            "c-ana",
            "c-board",
        ]
        assert await found(other, limit, approver=ANA, tool="ask") == []

    @pytest.mark.parametrize("limit", [1, 50])
    async def test_calls_are_listed_by_age_and_by_deadline(self, store: Store, limit: int) -> None:
        now, spans = await store.now(), {"c-long": 7200, "c-short": 600, "c-mid": 1800}
        for age_s, (name, answer_timeout_s) in enumerate(spans.items()):
            writer = await Writer.of(store, name)
            writer.spec = DESK.model_copy(update={"limits": Limits(answer_timeout_s=answer_timeout_s)})
            await writer.do(start(), begin(), call("ask"), now=now - 100_000 * (3 - age_s))

        assert await found(store, limit, older_than_s=150) == ["c-long", "c-short"]
        assert await found(store, limit, older_than_s=0) == ["c-long", "c-short", "c-mid"]
        assert await found(store, limit, older_than_s=10**9) == []
        assert await found(store, limit, expires_within_s=2000) == ["c-short", "c-mid"]
        assert await found(store, limit, expires_within_s=2000, older_than_s=150) == ["c-short"]
        assert await found(store, limit, expires_within_s=9000, kind="elicitation") == ["c-short", "c-mid", "c-long"]
        assert await found(store, limit, expires_within_s=9000, agent="nobody") == []

    async def test_a_call_is_found_by_the_beginning_of_its_id(self, store: Store, other: Store) -> None:
        await crowd(store, 30)
        ids = [view.suspension_id for view in await pending(store)]

        for whole in ids[:10]:
            alike = [one for one in ids if one.startswith(whole[:12])]
            assert (len(alike), len(whole) > 12) == (1, True)
            (view,) = await other.pending_of(None, whole[:12])
            assert view.suspension_id == whole
            assert await other.pending_of(None, whole[:5]) == ()
        common = ids[0][:1]
        assert await other.pending_of(None, common) == ()

    async def test_a_beginning_that_several_share_is_refused_and_they_are_named(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "ask", "ask"))
        first, *_ = writer.suspension_ids
        monkeypatch.setattr(pages, "SHORTEST_ID", 2)

        with pytest.raises(InvalidInput, match="suspension_id") as refused:
            await store.pending_of(None, "s-")

        assert all(one in refused.value.problem for one in writer.suspension_ids)
        assert (await store.pending_of(None, first))[0].suspension_id == first

    async def test_a_call_whose_approvers_and_deadline_change_moves_between_the_lists(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        now, who = await store.now(), Principal("ana", roles=("finance",), proof=Proof.KEY)
        await writer.do(start(), begin(), call(asked(1, Approvers("role:finance"))), now=now - 1_800_000)
        (suspension_id,), one = writer.suspension_ids, writer.state.calls.of("call_1")
        first = one.suspension.expires_at if one and one.suspension else 0

        await writer.do(escalate(Approvers("role:board").terms, principal=who), now=now)

        for where, names in (
            ({}, ["c-1"]),
            ({"tool": "refund"}, ["c-1"]),
            ({"approver": Principal("bo", roles=("board",))}, ["c-1"]),
            ({"approver": ANA}, []),
            ({"expires_within_s": (first - now) / 1000 + 60}, []),
            ({"expires_within_s": 10**6}, ["c-1"]),
        ):
            assert await found(other, 10, **where) == names, where
        assert [view.suspension_id for view in await other.pending_of(None, suspension_id[:12])] == [suspension_id]

    async def test_what_is_settled_leaves_every_list(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        (suspension_id,) = writer.suspension_ids
        await writer.do(resolve(Answer("blue")))

        for where in ({"tool": "ask"}, {"approver": ANA}, {"older_than_s": 0}, {"expires_within_s": 10**6}):
            assert await found(store, 10, **where) == []
        assert await store.pending_of(None, suspension_id[:12]) == ()
        await writer.do(send("again"))

    async def test_what_closes_leaves_the_lists_of_the_agent_that_the_conversation_had_before(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        writer.state = writer.state.model_copy(update={"agent": "sales"})

        await writer.do(resolve(Answer("blue")))

        for where in ({}, {"agent": "desk"}, {"agent": "sales"}, {"agent": "desk", "kind": "elicitation"}):
            assert await found(store, 10, **where) == []

    async def test_what_waits_for_a_machine_stands_in_no_list(self, store: Store):
        # given a conversation that waits for another one, and for a person
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(("consult", '{"task":"look into it"}'), "refund"))
        _, person = writer.state.calls
        # then only the person's call is listed, counted, and found by its beginning
        listed = (await store.pending(limit=10)).items
        assert [view.tool_call_id for view in listed] == [person.tool_call_id]
        assert [row.pending for row in (await store.conversations(limit=10)).items] == [1]
        assert [view.tool_call_id for view in await store.pending_of("c-1")] == [person.tool_call_id]
        waited = writer.state.calls[0].suspension
        assert waited is not None
        assert not await store.pending_of(None, waited.suspension_id)
        # and the other one is shown to who names it whole
        (view,) = await store.pending_of("c-1", waited.suspension_id)
        assert (view.kind, view.decisions) == ("delegate", ("cancel",))
        # and once its source has spoken, nothing of it is left
        await writer.do(lambda _: Tell(suspension_id=waited.suspension_id, source=waited.source, ok=True, content="1"))
        assert [view.tool_call_id for view in (await store.pending(limit=10)).items] == [person.tool_call_id]
        assert (await store.pending_of("c-1", waited.suspension_id)) == []
