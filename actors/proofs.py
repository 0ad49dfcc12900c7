"""Proven principals: a server signs the commands of callers that it has verified, and an actor accepts no other proof.

In the same way the courier signs what one conversation says to another.

The key lies in the vault, which every process in the cluster can read: code that takes it from there can sign like a server.
The signature protects against clients and against actors' callers without the key.
"""

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from holdfast.conversation.records.command_base import Request
from holdfast.conversation.terms.principal import unproven
from holdfast.errors import HoldfastError, InvalidInput

from .actor_settings import StoreAddress
from .signature import is_signature, keyed

R = TypeVar("R", bound=Request)

SIGNED_AS = "holdfast-proven-1"
STAMPS = {"now", "spec", "known", "trace", "read", "salt", "signature", "traceparent"}
"""The fields that are not signed: those that the actor stamps, the signature itself, and the trace context."""

CheckProof: TypeAlias = Callable[[str, Request], Awaitable[None]]
"""Refuses a command whose principal claims to be proven and is not, or that a conversation claims to have sent and has not."""


def signed(key: bytes, store: StoreAddress, conversation_id: str, command: R) -> R:
    """The command with a server's signature for its principal, valid for this store and conversation only."""
    return command.model_copy(update={"signature": _signature(key, store, conversation_id, command)})


async def refuse_proof(conversation_id: str, command: Request) -> None:
    """Refuse every proof: there are no servers."""
    if _claims(command):
        raise _unproven(conversation_id, command)


class Proofs:
    """Signs commands with the servers' key, and checks their signatures."""

    def __init__(self, store: StoreAddress, key: Callable[[], Awaitable[bytes]]) -> None:
        self._store = store
        self._read = key
        self._key: bytes | None = None

    async def check(self, conversation_id: str, command: Request) -> None:
        """Refuse a command that claims a proof, unless a server, or the courier, has signed it."""
        if not _claims(command):
            return
        if not is_signature(command.signature, _signature(await self._known(), self._store, conversation_id, command)):
            raise _unproven(conversation_id, command)

    async def signed(self, conversation_id: str, command: R) -> R:
        """The command with a signature, valid for this conversation only."""
        return signed(await self._known(), self._store, conversation_id, command)

    async def _known(self) -> bytes:
        if self._key is None:
            self._key = await self._read()
        return self._key


def _claims(command: Request) -> bool:
    return command.proven is not None or command.of_machine


def _unproven(conversation_id: str, command: Request) -> HoldfastError:
    if command.proven is not None:
        return unproven(command.proven)
    return InvalidInput("signature", f"no conversation has sent this to {conversation_id}", "leave it to Holdfast")


def _signature(key: bytes, store: StoreAddress, conversation_id: str, command: Request) -> str:
    text = json.dumps(command.model_dump(mode="json", exclude=STAMPS), sort_keys=True)
    return keyed(key, SIGNED_AS, store.store_id, store.namespace, conversation_id, text)
