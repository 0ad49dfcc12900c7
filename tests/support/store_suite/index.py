"""Cases of a rebuild of indexes: it changes nothing where they are right, while other writers go on."""

from crowd import conversations, crowd, pending
from writer import Writer, resolve

from holdfast.conversation import Deny
from holdfast.persistence import Store
from holdfast.persistence.keys import BUCKETS


class Indexing:
    """`reindex` of indexes without damage; which damage it repairs depends on the store."""

    async def test_a_rebuild_says_what_it_did_bucket_by_bucket(self, store: Store) -> None:
        await crowd(store, 20)

        rebuilt = [bucket async for bucket in store.reindex()]

        assert [bucket.bucket for bucket in rebuilt] == list(range(BUCKETS))
        assert sum(bucket.conversations for bucket in rebuilt) == 20
        assert [(bucket.removed, list(bucket.problems)) for bucket in rebuilt] == [(0, [])] * BUCKETS

    async def test_a_rebuild_changes_no_list(self, store: Store, other: Store) -> None:
        made = await crowd(store, 20)
        await _decide(made[1])
        before = await pending(other), await conversations(other), await other.attention(1000)

        _ = [bucket async for bucket in store.reindex()]

        after = await pending(other), await conversations(other), await other.attention(1000)
        assert after[:2] == before[:2]
        assert sorted(after[2].conversation_ids) == sorted(before[2].conversation_ids)

    async def test_who_writes_during_a_rebuild_is_not_disturbed(self, store: Store, other: Store) -> None:
        made = await crowd(store, 30)
        left = iter(writer for writer in made if len(writer.suspension_ids) == 1)
        decided = 0
        async for bucket in other.reindex():
            writer = next(left, None) if bucket.bucket % 4 == 0 else None
            if writer is not None:
                await _decide(writer)
                decided += 1

        assert decided > 5
        settled = {view.suspension_id for writer in made for view in await store.pending_of(writer.conversation_id)}
        assert {view.suspension_id for view in await pending(other)} == settled

    async def test_what_only_holds_an_id_stands_in_no_list_after_a_rebuild(self, store: Store) -> None:
        await Writer.of(store, "c-only-held")

        _ = [bucket async for bucket in store.reindex()]

        assert await conversations(store) == []


async def _decide(writer: Writer) -> None:
    await writer.do(resolve(Deny("no")))
