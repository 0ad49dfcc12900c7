"""Cases of large rows: a page ends after so many bytes, a list shows calls in short, and a call by itself is whole."""

import json

from crowd import BEGAN_AT
from writer import DESK, Writer, begin, call, comment, finish, send, start, suspend

from holdfast.conversation import Event, Limits
from holdfast.conversation.records.calls import Cut, PendingView
from holdfast.conversation.text.jsontext import size_bytes
from holdfast.persistence import Store
from holdfast.persistence.lists import PAGE_BYTES

MEGA = 1_000_000


class Large:
    """Rows, logs and calls that are larger than others."""

    async def test_a_page_of_large_calls_ends_after_so_many_bytes(self, store: Store, other: Store) -> None:
        for number in range(12):
            await _waiting(store, f"c-{number:02}", {"text": "x" * MEGA, "order": f"A{number}"}, number)

        page = await other.pending(limit=1000)
        rows, pages = list(page.items), 1
        while page.next is not None:
            page = await other.pending(limit=1000, after=page.next)
            rows, pages = [*rows, *page.items], pages + 1

        assert [row.conversation_id for row in rows] == [f"c-{number:02}" for number in range(12)]
        assert pages == 2
        assert [row.problem for row in rows] == [None] * 12

    async def test_a_page_has_one_row_whatever_it_weighs(self, store: Store, other: Store) -> None:
        spec = DESK.model_copy(update={"limits": Limits(result_bytes=2 * PAGE_BYTES)})
        for number in range(2):
            writer = await Writer.of(store, f"c-{number}")
            writer.spec = spec
            await writer.do(start(spec=spec), begin(), call("lookup"), now=BEGAN_AT + number)
            await writer.do(suspend(report_md="x" * (PAGE_BYTES + 1)), now=BEGAN_AT + number)

        first = await other.pending(limit=10)
        second = await other.pending(limit=10, after=first.next)

        assert [row.conversation_id for page in (first, second) for row in page.items] == ["c-0", "c-1"]
        assert first.next is not None
        assert second.next is None

    async def test_a_list_leaves_long_arguments_out_and_says_how_long_they_are_and_how_they_begin(
        self, store: Store, other: Store
    ) -> None:
        given = {"order": "A1", "text": "ü" * 3000}
        await _waiting(store, "c-1", given, 1)
        await _waiting(store, "c-2", {"text": "x" * 4000}, 2)

        long, small = (await other.pending(limit=10)).items

        text = json.dumps(given)
        assert (long.arguments, long.problem) == ({}, None)
        assert long.cut == {"arguments": Cut(size_bytes=size_bytes(text), begins=text[:500])}
        assert small.arguments == {"text": "x" * 4000}
        assert small.cut == {}

    async def test_a_call_by_itself_is_whole(self, store: Store, other: Store) -> None:
        row = await _waiting(store, "c-1", {"text": "x" * MEGA}, 1)

        (whole,) = await other.pending_of("c-1", row.suspension_id)

        assert whole.arguments == {"text": "x" * MEGA}
        assert whole.cut == {}
        assert await other.pending_of("c-1") == [whole]
        assert await other.pending_of(None, row.suspension_id) == [whole]
        assert await other.pending_of("c-1", "s-unknown") == []

    async def test_of_many_large_calls_of_one_conversation_the_last_ones_are_in_short(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(*["lookup"] * 40))
        for run in [one.effect_id for one in writer.state.calls]:
            await writer.do(suspend(run, report_md="r" * 250_000))

        views = await other.pending_of("c-1")

        whole = [view for view in views if not view.cut]
        assert 30 <= len(whole) < 35
        assert [len(view.report_md or "") for view in views] == [250_000] * len(whole) + [0] * (40 - len(whole))
        (last,) = await other.pending_of("c-1", views[-1].suspension_id)
        assert len(last.report_md or "") == 250_000

    async def test_a_review_in_a_list_is_in_short(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup"))
        payload, schema = json.dumps({"rows": ["r"] * 5000}), json.dumps({"enum": ["s" * 5000]})
        await writer.do(suspend(report_md="# R\n" * 2000, message="m" * 5000, payload=payload, response_schema=schema))
        (whole,) = await store.pending_of("c-1")

        (row,) = (await other.pending(limit=10)).items

        assert row.title == whole.title
        assert row.decisions == whole.decisions
        assert [row.report_md, row.prompt, row.payload, row.response_schema] == [None] * 4
        sizes = {"report_md": 8000, "prompt": 5000, "payload": len(payload), "response_schema": len(schema)}
        assert {name: one.size_bytes for name, one in row.cut.items()} == sizes
        assert row.cut["payload"].begins == payload[:500]

    async def test_the_comments_of_a_row_are_in_short_where_they_are_long_together(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("refund"))
        for number in range(3):
            await writer.do(comment(f"{number}" * 2000))
        (whole,) = await store.pending_of("c-1")

        (row,) = (await other.pending(limit=10)).items

        assert [len(one.text) for one in whole.comments] == [2000] * 3
        assert [one.text for one in row.comments] == [f"{number}" * 200 + "…" for number in range(3)]
        assert row.cut == {}  # the call itself is shown whole

    async def test_a_page_of_a_log_ends_after_so_many_bytes_and_can_begin_at_either_end(
        self, store: Store, other: Store
    ) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(*["lookup"] * 5))
        for run in [one.effect_id for one in writer.state.calls]:
            await writer.do(finish(run, content="x" * 3 * MEGA))
        everything = list(await store.read("c-1", whole=True))

        seen: list[tuple[int, Event]] = []
        sizes: list[int] = []
        while page := await other.read("c-1", after=len(seen)):
            seen += page
            sizes.append(len(page))
        back, before = list(await other.read("c-1", before=writer.state.seq + 1)), []
        while page := await other.read("c-1", before=back[0][0]):
            before.append(len(page))
            back = [*page, *back]

        assert seen == back == everything
        assert len(sizes) == 3
        assert len(before) == 2
        assert await other.read("c-1", after=2, limit=3) == everything[2:5]
        assert await other.read("c-1", before=5, limit=3) == everything[1:4]
        assert await other.read("c-1", before=1) == await other.read("c-2") == []

    async def test_a_page_of_a_log_has_one_event_whatever_it_weighs(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup"))
        await writer.do(finish(content="x" * (PAGE_BYTES + 1)), send())
        seq = next(seq for seq, event in await store.read("c-1", whole=True) if event.kind == "call_resolved")

        assert [at for at, _ in await other.read("c-1", after=seq - 1)] == [seq]
        assert [at for at, _ in await other.read("c-1", before=seq + 1)] == [seq]


async def _waiting(store: Store, name: str, arguments: object, at: int) -> PendingView:
    writer = await Writer.of(store, name)
    await writer.do(start(), begin(), call(("refund", json.dumps(arguments))), now=BEGAN_AT + at)
    (view,) = await store.pending_of(name)
    return view
