"""The commands about messages: the first one, later ones, and what is done with those that wait for their turn."""

from enum import StrEnum
from typing import Literal

from holdfast.conversation.ids import digest, payload_digest
from holdfast.conversation.terms.delegation import Parent
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import Content, said_by
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

from .command_base import Numbered, Request
from .events import Origin
from .idempotency import message_key, request_key
from .state import DEFAULT_PRIORITY, State


class When(StrEnum):
    """What a message does while a turn goes on or waits."""

    QUEUE = "queue"  # it waits for its turn
    REJECT = "reject"  # it is refused
    STEER = "steer"  # it joins the turn that goes on, before the next model call
    INTERRUPT = "interrupt"  # it cancels the turn, supersedes what is queued, and begins


class _Message(Request):
    """A request with a user's message; `message_id` is its idempotency key."""

    text: Content
    message_id: str
    overrides: Overrides | None = None


class Start(_Message):
    """Start the conversation with a first message; `parent` is the wait that it is started for, if any.

    A parent's start is refused from `not_after` (ms UTC) on, so that it does not arrive after the conversation's end.
    """

    kind: Literal["start"] = "start"
    agent: str
    app: str
    context: JsonText = "null"
    attended: bool = True
    parent: Parent | None = None
    not_after: int | None = None

    @property
    def digest(self) -> str:
        """The digest by which two starts count as the same."""
        attended = None if self.attended else "no"
        parent = None if self.parent is None else self.parent.conversation_id
        text, parts = _said(self.text)
        said = {"attended": attended, "parent": parent, "parts": parts, **_overrides(self.overrides)}
        return payload_digest("start", self.agent, text, self.context, **said)

    @property
    def of_machine(self) -> bool:
        """Whether another conversation delegates something to it."""
        return self.parent is not None


class Send(_Message):
    """Accept a message; during a turn it does what `when` says. It is queued at `at` (ms UTC) if that is given."""

    kind: Literal["send"] = "send"
    when: When = When.QUEUE
    at: int | None = None
    priority: int = DEFAULT_PRIORITY
    origin: Origin = Origin.USER

    @property
    def digest(self) -> str:
        """The digest by which two messages count as the same."""
        when = None if self.when is When.QUEUE else self.when.value
        priority = None if self.priority == DEFAULT_PRIORITY else str(self.priority)
        at = None if self.at is None else str(self.at)
        text, parts = _said(self.text)
        said = {"parts": parts, "when": when, "at": at, "priority": priority}
        return payload_digest("send", text, **said, **_origin(self.origin), **_overrides(self.overrides))


class _OfQueued(Numbered):
    """A request about a message that no turn has taken up yet: its id, and its `seq` in the log."""

    message_id: str
    message_seq: int

    def lookups(self) -> tuple[str, ...]:
        """The key of the request's receipt."""
        return (request_key(self.request_id),)

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of the message, if it waits."""
        del spec
        return tuple(one.seq for one in state.waiting if one.seq == self.message_seq)


class Withdraw(_OfQueued):
    """Withdraw a message before its turn begins."""

    kind: Literal["withdraw"] = "withdraw"


class Reschedule(_OfQueued):
    """Give a message that waits for its turn another time (ms UTC; None: as it is) or priority."""

    kind: Literal["reschedule"] = "reschedule"
    at: int | None = None
    priority: int | None = None


class Interrupt(Numbered):
    """Cancel the turn, supersede what is queued, and begin with `text`, if there is one; all in one append.

    `request_id` is the id of the message, too.
    """

    kind: Literal["interrupt"] = "interrupt"
    text: Content | None = None
    origin: Origin = Origin.USER
    overrides: Overrides | None = None

    @property
    def digest(self) -> str:
        """The digest by which two interruptions count as the same."""
        text, parts = _said(self.text or "")
        more = {**_origin(self.origin), **_overrides(self.overrides)}
        return payload_digest("interrupt", "-" if self.text is None else "+", text, parts=parts, **more)

    def lookups(self) -> tuple[str, ...]:
        """The keys of the receipts of the interruption and of its message."""
        keys = (request_key(self.request_id), message_key(self.request_id))
        return keys[:1] if self.text is None else keys

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of the messages that it supersedes, which have their ids."""
        del spec
        return tuple(one.seq for one in state.waiting if not one.due_at)


class CompactNow(Numbered):
    """Summarise the oldest messages before the next model call, whatever the agent's threshold; if there is none, by itself."""

    kind: Literal["compact"] = "compact"

    def lookups(self) -> tuple[str, ...]:
        """The key of the request's receipt."""
        return (request_key(self.request_id),)


def _said(content: Content) -> tuple[str, str | None]:
    """The text, and a digest of the parts, if any: a text has the digest that it had before there were parts."""
    return (content, None) if isinstance(content, str) else ("", digest(*said_by(content)))


def _overrides(given: Overrides | None) -> dict[str, str | None]:
    return {"overrides": None if given is None else jsontext.dumps(given.given)}


def _origin(origin: Origin) -> dict[str, str | None]:
    return {"origin": None if origin is Origin.USER else origin.value}
