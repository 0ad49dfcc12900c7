"""Conversations that owe each other something, as no event makes them yet."""

from holdfast.conversation.log.owed import own_target
from holdfast.persistence import RedisStore, redis_scripts
from holdfast.persistence.keys import Keys

OWE = "owe(ARGV[1], ARGV[2], {ARGV[3], ARGV[4]}, clock(), ARGV[5]) return {'ok'}"


async def owe_end(store: RedisStore, conversation_id: str, to: str, *, seq: int = 1) -> None:
    """A conversation owes another one its end, from now on."""
    keys = Keys(store.namespace)
    source = f"{redis_scripts._text('_prelude')}\n{OWE}"
    told = keys.prefix(conversation_id), conversation_id, own_target(to), f"{seq}|0|end", keys.meta("owed")
    await store._redis.eval(source, 1, keys.head(conversation_id), *told)
