"""The presence of clients that execute calls: who is attached to a conversation, with which tools, until when.

Presence is no part of the log. A client is present until 15 s after its last renewal, or until it is detached; then it is known
to be gone until it is forgotten. Times are by the store's clock.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.conversation.terms.presence import MOST_CLIENTS, Present
from holdfast.errors import StoreError

from .database import Database

if TYPE_CHECKING:
    from .codec import Payloads

logger = logging.getLogger("holdfast.persistence")

MOST_KNOWN = 2 * MOST_CLIENTS
"""The most clients of one conversation that are known, those that are gone included."""


OF_PRINCIPAL = 16
"""How many characters of a client's key are its principal's."""


def client_key(name: str) -> str:
    """A client's key in its conversation: digests of its principal's mark and of its name, so that keys name nobody."""
    mark, _, _ = name.rpartition("/")
    return _digest(mark)[:OF_PRINCIPAL] + _digest(name)[:OF_PRINCIPAL]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def readable_clients(
    payloads: "Payloads", conversation_id: str, records: Mapping[str, bytes], until: Mapping[str, int]
) -> tuple[Present, ...]:
    """The readable clients among these stored ones, by their keys, and until when each is present."""
    found = []
    for client, record in records.items():
        try:
            found.append(payloads.open_client(conversation_id, client, record, until.get(client, 0)))
        except StoreError as error:
            logger.warning("conversation %s: a client that is attached cannot be read: %s", conversation_id, error)
    return tuple(found)


class Presence(Database, Protocol):
    """The verbs of a `Store` that concern attached clients."""

    async def attach(self, conversation_id: str, present: Present, session: str = "") -> int:
        """Have a client be present, in place of an earlier one of its name; returns until when (ms UTC).

        `session` tells this attachment from later ones of the same client (see `detach`).

        With `on_detach=cancel` the conversation needs attention `LEAVES_MS` after the client is gone. Clients that are gone for
        good are forgotten here, except those whose departure is not judged yet.

        Raises:
            ConversationNotFound: The conversation was never started.
            TooManyClients: `MOST_CLIENTS` others are present, or `MOST_OF_ONE` others of its principal.
        """

    async def renew_clients(self, clients: Sequence[tuple[str, Present]]) -> list[int]:
        """Renew the presence of clients, each with its conversation's id; returns until when (ms UTC) each is present.

        A client that is not attached (any more) is not renewed, and has 0: it must attach again. One unreadable conversation
        fails only its own clients.
        """

    async def detach(self, conversation_id: str, name: str, session: str = "") -> None:
        """End a client's presence now; its departure is judged like any other.

        With `session`, only if that is still the one it is attached in: it may have attached elsewhere since.
        """

    async def present(self, conversation_id: str) -> tuple[Present, ...]:
        """The known clients, those that are gone included (`until` has passed). An unreadable one is left out.

        Raises:
            StoreUnavailable: Also if the store did not answer a short while ago: clients that live could not renew then.
        """

    async def forget_clients(self, conversation_id: str, names: Sequence[str]) -> None:
        """Forget clients whose departure was judged, if they are still gone for `LEAVES_MS`: one may have come back since."""
