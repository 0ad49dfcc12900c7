"""The way to a store."""

from collections.abc import Awaitable, Callable

from holdfast.cipher import Cipher, CipherAt
from holdfast.counting import Counts

from .redis_database import RETRY_S
from .redis_store import RedisStore
from .store import Store


def opened(
    url: str,
    *,
    namespace: str = "holdfast",
    store_id: str | None = None,
    cipher: Cipher | CipherAt | None = None,
    counts: Counts | None = None,
    revive: Callable[[], Awaitable[bool]] | None = None,
    retry_s: float = RETRY_S,
) -> Store:
    """The store at a URL; it connects when it is first used, and `Store.open` lays the namespace out.

    Args:
        url: The Redis: `redis://`, `rediss://` or `unix://`.
        namespace: The namespace in it.
        store_id: The id that the store must have; None for whichever store is found there.
        cipher: The cipher of payloads, or the place of one.
        counts: Where the times of operations are counted.
        revive: Called when the server seems to have died; true if it runs again.
        retry_s: For how many seconds an operation is repeated before its outcome is reported as unknown.

    Raises:
        ConfigurationError: The URL or the namespace cannot be used.
    """
    return RedisStore(url, namespace=namespace, store_id=store_id, cipher=cipher, counts=counts, revive=revive, retry_s=retry_s)
