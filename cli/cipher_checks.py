"""The checks of `holdfast doctor` on the cipher: whether payloads are encrypted, and whether this shell has their cipher."""

from holdfast.actors.actor_settings import StoreAddress
from holdfast.daemon import in_daemon
from holdfast.errors import CipherFailed, HoldfastError
from holdfast.persistence import RedisStore

from .check import Check, fail, ok


async def cipher_checks(where: StoreAddress) -> list[Check]:
    """The check whether this shell has the cipher that the store needs, and whether it works; none without encryption."""
    store = RedisStore(where.redis_url, namespace=where.namespace, store_id=where.store_id, cipher=where.cipher)
    try:
        encrypted = await store.encrypted()
        await in_daemon(store.payloads.check)
    except CipherFailed as error:
        return [fail("cipher", str(error), "correct it, or its keys in the environment")]
    except HoldfastError:
        return []  # the checks of Redis name the error
    finally:
        await store.close()
    if where.cipher is None:
        problem = "payloads are encrypted, and this shell names no cipher"
        return [fail("cipher", problem, "set HOLDFAST_CIPHER as the app's processes have it")] if encrypted else []
    if not encrypted:
        return [ok("cipher", f"{where.cipher.path} works here; the next connect begins to encrypt payloads with it")]
    return [ok("cipher", f"payloads are encrypted, and {where.cipher.path} works here")]
