"""Opening a store by its URL."""

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
    """The store at a URL. It connects when it is first used, and `Store.open` creates the namespace.

    Args:
        url: The Redis: `redis://`, `rediss://` or `unix://`.
        namespace: The namespace.
        store_id: The id that the store must have; None accepts any store.
        cipher: The cipher of payloads, or its import path.
        counts: Collects the durations of operations.
        revive: Called when the server seems dead; true if it runs again.
        retry_s: Seconds for which an operation is repeated before its outcome is reported as unknown.

    Raises:
        ConfigurationError: The URL or the namespace cannot be used.
    """
    return RedisStore(url, namespace=namespace, store_id=store_id, cipher=cipher, counts=counts, revive=revive, retry_s=retry_s)
