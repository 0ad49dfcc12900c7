"""What `holdfast doctor` looks at in the app."""

from holdfast.actors.settings import StoreAddress
from holdfast.agent import load
from holdfast.conversation import HoldfastError, InvalidInput
from holdfast.persistence import RedisStore

from .check import Check, fail, ok


def import_check(path: str) -> Check:
    """Whether the app imports here."""
    try:
        agents = ", ".join(f"{agent.name} ({len(agent.tools)} tools)" for agent in load(path).agents)
    except InvalidInput as error:
        return fail("app", f"{path}: {error.field}: {error.problem}", error.fix)
    return ok("app", f"{path}: {agents or 'no agents'}")


async def worker_checks(path: str, where: StoreAddress) -> list[Check]:
    """Whether the app's workers can run it, as far as they have said."""
    store = RedisStore(where.redis_url, namespace=where.namespace, store_id=where.store_id, cipher=where.cipher)
    try:
        problem = await store.problem(path)
        known = await store.app(path) is not None
    except HoldfastError:
        return []  # said of Redis already
    finally:
        await store.close()
    if problem is not None:
        return [fail("workers", f"they cannot run {path}: {problem}", f"correct the app, then run: holdfast up --app {path}")]
    return [ok("workers", "they have said nothing against it" if known else "the store has never heard of this app")]
