"""Clients that are attached to a conversation: who they are, which tools they carry out, until when they are known to be there.

Presence is never in the log. A command that depends on it is stamped with it, as with the time.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from holdfast.conversation.ids import CONVERSATION_ID, TOOL_NAME
from holdfast.conversation.record import Record
from holdfast.errors import InvalidInput

from .decisions import SuspensionKind
from .principal import Principal

RENEW_MS = 5_000
"""How often a client renews its presence."""
GONE_MS = 15_000
"""How long after its last renewal a client counts as gone."""
KEPT_MS = 45_000
"""How long the store remembers a client that is gone."""
LEAVES_MS = 5_000
"""How long after it is gone a client with `OnDetach.CANCEL` has left: what waits for it is cancelled then."""
MOST_CLIENTS = 64
"""How many clients may be attached to a conversation at once."""
MOST_OF_ONE = 32
"""How many of them one principal may have: it takes no more than half of the places."""
MOST_TOOLS = 128
"""How many tools a client may carry out."""
ClientId = Annotated[str, Field(pattern=rf"^{CONVERSATION_ID.pattern}$")]
ToolName = Annotated[str, Field(pattern=rf"^{TOOL_NAME.pattern}$")]


class OnDetach(StrEnum):
    """What happens to the calls that wait for a client when it leaves."""

    KEEP = "keep"  # they wait for other clients
    CANCEL = "cancel"  # they are cancelled, and so is what waits for its principal alone


class Present(Record):
    """A client that is or was attached, with the tools that it carries out.

    It is there until `until` (ms UTC by the store's clock), in the past: it is gone since then; 0: it is gone for long. With
    `OnDetach.CANCEL`, its end also cancels what waits for its principal alone, of these `kinds` (None: all).
    """

    client_id: ClientId
    principal: Principal | None = None
    tools: Annotated[tuple[ToolName, ...], Field(max_length=MOST_TOOLS)]
    on_detach: OnDetach = OnDetach.KEEP
    kinds: tuple[SuspensionKind, ...] | None = None
    until: int = 0

    @property
    def by(self) -> str:
        """The mark of its principal; empty if nobody said who it is."""
        return mark_of(self.principal)

    @property
    def name(self) -> str:
        """Its name in the conversation."""
        return client_name(self.client_id, self.principal)

    def has_left(self, now: int) -> bool:
        """Whether what waits for it has to be cancelled at `now` (ms UTC)."""
        return self.on_detach is OnDetach.CANCEL and self.until + LEAVES_MS <= now


def mark_of(principal: Principal | None) -> str:
    """The mark of a principal; empty if nobody said who it is."""
    return "" if principal is None else principal.mark


def client_name(client_id: str, principal: Principal | None) -> str:
    """A client's name in the conversation: its id is chosen in the name space of its principal."""
    return f"{mark_of(principal)}/{client_id}"


def check_client_id(client_id: object) -> str:
    """The client id itself, once it is checked against `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}` (else `InvalidInput`)."""
    if isinstance(client_id, str) and CONVERSATION_ID.fullmatch(client_id):
        return client_id
    fix = "use 1 to 128 letters, digits, '.', '_', ':' or '-', beginning with a letter or digit"
    raise InvalidInput("client_id", f"{client_id!r:.60} is not the id of a client", fix)


def checked_tools(tools: object) -> tuple[str, ...]:
    """The names of tools, once they are checked (else `InvalidInput`): 1 to 128."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise InvalidInput("tools", f"{tools!r:.40} is no list of names", 'give names: ["read_clipboard"]')
    found: dict[str, None] = {}
    for name in tools:
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            raise InvalidInput("tools", f"{name!r:.60} is no name of a tool", f"names are {TOOL_NAME.pattern}")
        found[name] = None
        if len(found) > MOST_TOOLS:
            break
    if not 1 <= len(found) <= MOST_TOOLS:
        raise InvalidInput("tools", "there are none" if not found else "there are more", f"name 1 to {MOST_TOOLS} tools")
    return tuple(found)
