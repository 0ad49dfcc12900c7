"""Cases of API keys: what is stored is read, how many there may be, and that a removed key leaves nothing behind."""

import pytest

from holdfast.errors import InvalidInput
from holdfast.persistence import AccessScope, ApiKey, ApiKeyList, Store
from holdfast.persistence.access import MOST_API_KEYS


def key(key_id: str = "k1", at: int = 5) -> ApiKey:
    """A key with every field."""
    return ApiKey(
        key_id=key_id,
        name="the webhook",
        digest="00" * 32,
        scopes=(AccessScope.READ, AccessScope.DECIDE),
        agents=("desk",),
        roles=("finance",),
        created_at=at,
        expires_at=7,
    )


class Keeping:
    """API keys are kept by their id, in a bounded number."""

    async def test_an_api_key_is_read_as_it_was_stored(self, store: Store, other: Store) -> None:
        assert await store.api_key("k1") is None
        await store.put_api_key(key())
        assert await other.api_key("k1") == key()

    async def test_api_keys_are_listed_oldest_first(self, store: Store) -> None:
        for name, at in (("k1", 9), ("k2", 3), ("k0", 9)):
            await store.put_api_key(key(name, at))
        assert [found.key_id for found in (await store.api_keys()).keys] == ["k2", "k0", "k1"]

    async def test_a_removed_api_key_is_gone_and_nothing_is_noted_of_it(self, store: Store, other: Store) -> None:
        await store.put_api_key(key())
        assert await other.remove_api_key("k1")
        assert not await store.remove_api_key("k1")
        await store.note_api_key_use("k1", 9)
        assert await store.api_keys() == ApiKeyList(())
        await store.put_api_key(key())
        assert await store.api_key("k1") == key()

    async def test_the_use_of_an_api_key_is_noted(self, store: Store, other: Store) -> None:
        await store.put_api_key(key())
        await store.note_api_key_use("k1", 123)
        assert await other.api_key("k1") == key().model_copy(update={"used_at": 123})
        assert [found.used_at for found in (await other.api_keys()).keys] == [123]

    async def test_there_are_no_more_api_keys_than_may_be(self, store: Store) -> None:
        for number in range(MOST_API_KEYS):
            await store.put_api_key(key(f"k{number}"))
        with pytest.raises(InvalidInput, match="API keys already"):
            await store.put_api_key(key("one-more"))
        await store.put_api_key(key("k7"))  # the repetition of a write
        await store.remove_api_key("k7")
        await store.put_api_key(key("one-more"))
