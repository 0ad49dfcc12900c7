"""The test of the cipher in a process that makes actors, before anything in the cluster is changed."""

from holdfast.cipher import CipherAt
from holdfast.daemon import in_daemon
from holdfast.errors import CipherMissing
from holdfast.persistence import Store


async def checked_cipher(store: Store) -> CipherAt | None:
    """The cipher of a store's payloads, with the folder where this process found it, for other processes to search."""
    cipher = store.payloads.cipher
    if not isinstance(cipher, CipherAt):
        if await store.encrypted():
            raise CipherMissing(f"namespace {store.namespace!r}")
        return None
    found = await in_daemon(cipher.found)
    store.payloads.check()
    return found
