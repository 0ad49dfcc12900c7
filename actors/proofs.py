"""Who was proven: a server signs the commands of those whom it has verified, and an actor takes no other proof.

The key lies in the vault, which every process in the cluster can read: code that takes it from there can sign as well as a
server. What is closed is the client's interface, and the way to an actor without the key.
"""

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.conversation import Command, Principal, Proof
from holdfast.conversation.terms.principal import unproven

from .actor_settings import StoreAddress
from .signature import is_signature, keyed

SIGNED_AS = "holdfast-proven-1"
STAMPS = {"now", "spec", "known", "trace", "read", "salt", "signature", "traceparent"}
"""What is not signed: what the actor stamps, the spec, which counts as it was published, and what is no part of the request."""

CheckProof: TypeAlias = Callable[[str, Command], Awaitable[None]]
"""Refuses a command for a conversation whose principal says to be proven and is not."""


def proven_in(command: Command) -> Principal | None:
    """The principal of a command that says to be proven; None where it has none, or states it."""
    principal: Principal | None = getattr(command, "principal", None)
    return None if principal is None or principal.proof is Proof.STATED else principal


def signed(key: bytes, store: StoreAddress, conversation_id: str, command: Command) -> Command:
    """The command as a server of this store vouches for its principal, for this conversation alone."""
    return command.model_copy(update={"signature": _signature(key, store, conversation_id, command)})


async def refuse_proof(conversation_id: str, command: Command) -> None:
    """Refuse every proof: there are no servers."""
    del conversation_id
    principal = proven_in(command)
    if principal is not None:
        raise unproven(principal)


class Proofs:
    """What an actor takes for proven."""

    def __init__(self, store: StoreAddress, key: Callable[[], Awaitable[bytes]]) -> None:
        self._store = store
        self._read = key
        self._key: bytes | None = None

    async def check(self, conversation_id: str, command: Command) -> None:
        """Refuse a command whose principal says to be proven, unless a server has signed it."""
        principal = proven_in(command)
        if principal is None:
            return
        if self._key is None:
            self._key = await self._read()
        if not is_signature(getattr(command, "signature", ""), _signature(self._key, self._store, conversation_id, command)):
            raise unproven(principal)


def _signature(key: bytes, store: StoreAddress, conversation_id: str, command: Command) -> str:
    text = json.dumps(command.model_dump(mode="json", exclude=STAMPS), sort_keys=True)
    return keyed(key, SIGNED_AS, store.store_id, store.namespace, conversation_id, text)
