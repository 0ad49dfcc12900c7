"""Every error Holdfast raises on purpose: a tree of classes below `HoldfastError`.

Errors travel between Ray processes by pickle: `args` of each are exactly its constructor's positional arguments.
"""

import shlex
from collections.abc import Mapping
from typing import Any, ClassVar, dataclass_transform

from .error_reasons import LinkProblem as LinkProblem  # noqa: PLC0414 - a word of errors
from .error_reasons import SettledBy as SettledBy  # noqa: PLC0414 - a word of errors
from .error_reasons import StaleReason as StaleReason  # noqa: PLC0414 - a word of errors


@dataclass_transform(eq_default=False)
class HoldfastError(Exception):
    """Base of every error that Holdfast raises on purpose. A class annotates its arguments, which are also its attributes."""

    template: ClassVar[str] = ""
    http_code: ClassVar[int] = 500
    """The HTTP status; inherited from the base class if not set."""
    arguments: ClassVar[Mapping[str, Any]] = {}
    """The types of the constructor's arguments, by name; empty for an error that takes only a text."""

    def __init_subclass__(cls, http_code: int | None = None) -> None:
        cls.http_code = cls.http_code if http_code is None else http_code
        if "__init__" in cls.__dict__:
            cls.arguments = {name: kind for name, kind in cls.__init__.__annotations__.items() if name != "return"}
        else:
            cls.arguments = {**cls.arguments, **cls.__annotations__} if "__annotations__" in cls.__dict__ else cls.arguments

    def __init__(self, *given: Any, **named: Any) -> None:
        kind = type(self)
        own = [one for one in kind.__mro__ if "__init__" not in one.__dict__ or one is HoldfastError]
        taken: Mapping[str, Any] = getattr(own[0], "arguments", {})  # those of the nearest class with no constructor of its own
        if taken:
            values = dict(zip(taken, given, strict=False)) | named
            missing = [name for name in taken if name not in values and not hasattr(kind, name)]
            if missing or len(given) + len(named) > len(values) or not values.keys() <= taken.keys():
                raise TypeError(f"{kind.__name__} takes {', '.join(taken)}")
            given = tuple(values[name] if name in values else getattr(kind, name) for name in taken)
            self.__dict__.update(zip(taken, given, strict=True))
        elif named:
            raise TypeError(f"{kind.__name__} takes a text")
        super().__init__(*given)

    def __str__(self) -> str:
        return self.template.format(*self.args) if self.template else super().__str__()


class InvalidInput(HoldfastError, http_code=422):
    """An input cannot be used, and nothing was changed.

    `field` names what is wrong, `problem` says why, `fix` says what to do instead.
    """

    field: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}; {self.fix}"


class InvalidConversationId(InvalidInput):
    """The conversation id is empty, too long or ill-formed. Use one of `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`."""


class InvalidMessage(InvalidInput):
    """The text of a message, its id or its context cannot be used."""


class InvalidDecision(InvalidInput):
    """The decision does not fit the suspension it names. The call still waits; decide again."""


class ConfigurationError(InvalidInput, http_code=500):
    """A setting, an app, an agent or a tool is declared wrongly. Correct it and start again."""


class AppNotFound(ConfigurationError):
    """The app's import path does not lead to an `App`."""


class AppNotPublished(ConfigurationError, http_code=503):
    """Nobody has published the app to this store, and this client does not; nothing was changed. `app` is its import path."""

    def __init__(self, app: str) -> None:
        self.args = (app,)
        self.field = "app"
        self.problem = f"nobody has published {app!r} to this store, so no worker runs it"
        self.fix = f"run: holdfast up --app {shlex.quote(app)}; or connect with publish=True (HOLDFAST_PUBLISH)"
        self.app = app


class AgentNotFound(ConfigurationError, http_code=422):
    """The app declares no agent of that name."""


class HomeUnusable(ConfigurationError):
    """The embedded home cannot be used: its path, its server's version or its content is wrong."""


class InvalidRule(ConfigurationError):
    """A permission rule cannot be used. `field` names file, list and number; `problem` marks a mistake in a pattern with »."""


class OlderRelease(ConfigurationError, http_code=503):
    """A newer Holdfast serves the store; nothing was changed. Upgrade here, or downgrade on purpose.

    `release` is the refused release, `serving` the one that serves the store.
    """

    def __init__(self, release: str, serving: str) -> None:
        self.args = (release, serving)
        self.field = "holdfast"
        self.problem = f"this is release {release}, and the newer {serving} serves the store"
        self.fix = f"upgrade holdfast here to {serving}; or, to have all of it go back, run: holdfast up --roll-back"
        self.release = release
        self.serving = serving


class OtherBuild(ConfigurationError, http_code=503):
    """Another build of Holdfast, perhaps of the same version, serves the store or runs on a node; nothing was changed.

    `release` is the build here, `other` the other one (None: unknown).
    """

    def __init__(self, release: str, other: str | None = None) -> None:
        self.args = (release, other)
        self.field = "holdfast"
        where = f"{other} serves the store" if other is not None else "a process of the cluster runs another build"
        self.problem = f"this is build {release}, and {where}: builds do not understand each other"
        self.fix = "install the same build on every node and client; to have all of it change to this one, run: holdfast up"
        self.release = release
        self.other = other


class UnsupportedServer(ConfigurationError):
    """The Redis server is too old, or lacks what Holdfast needs."""


class ConversationNotFound(HoldfastError, http_code=404):
    """No conversation of that id was ever started in this store. Check the id and the namespace."""

    template = "conversation {0!r} was never started here"

    conversation_id: str


class TurnNotFound(HoldfastError, http_code=404):
    """The conversation has had no turn of that id. `Conversation.turns` lists those that have begun."""

    template = "conversation {0!r} has had no turn {1!r}"

    conversation_id: str
    turn_id: str


class SummaryNotFound(HoldfastError, http_code=404):
    """No summary of the conversation was asked for under that `request_id`."""

    template = "conversation {0!r} was never asked for a summary {1!r}; to ask again with the same request_id is safe"

    conversation_id: str
    request_id: str


class MessageNotFound(HoldfastError, http_code=404):
    """The conversation was never sent a message of that id. After an `OutcomeUnknown`, send it again with the same id."""

    template = "conversation {0!r} was never sent a message {1!r}; to send it again with the same id is safe"

    conversation_id: str
    message_id: str


class ConversationExists(HoldfastError, http_code=409):
    """The conversation was started before with another agent, message or context. Use `send`, or another id."""

    template = "conversation {0!r} was already started with another message; use send(), or another conversation_id"

    conversation_id: str


class ConversationEnded(HoldfastError, http_code=409):
    """The conversation was ended for good. Start another one."""

    template = "conversation {0!r} has ended; start another one"

    conversation_id: str


class Quarantined(HoldfastError, http_code=409):
    """Processes kept dying of the conversation's work, or it cannot be read or carried on, so none of its work runs.

    `reason` names the work that ran; `at` is since when, in integer milliseconds UTC. Correct the cause, then run `holdfast
    retry CONVERSATION` or `Conversation.retry()`.
    """

    template = "conversation {0!r} has been in quarantine since {2} ms ({1}): correct the cause, then `holdfast retry {0}`"

    conversation_id: str
    reason: str
    at: int


class QueueFull(HoldfastError, http_code=429):
    """The agent's `Limits.queued` is reached; the message, or the request for a summary, was not accepted.

    Once a turn has begun, or the summary is made (`wait`), send it again with the same id; or cancel, or raise `Limits.queued`.
    """

    template = "conversation {0!r}: {1} messages or requests wait, no more may (Limits.queued); wait, then send this one again"

    conversation_id: str
    queued: int


class TooManyClients(HoldfastError, http_code=429):
    """As many clients as may be, or as one principal may have, are attached to the conversation; this one was not.

    `clients` is how many may be. Detach some, or try again once one has left.
    """

    template = "conversation {0!r}: {1} clients are attached, and no more may; detach some, or try again once one has left"

    conversation_id: str
    clients: int


class ConversationBusy(HoldfastError, http_code=409):
    """A turn goes on or waits, and the message was sent with `when="reject"`; it was not accepted.

    `going_on` is the conversation's status.
    """

    template = (
        "conversation {0!r}: a turn goes on or waits ({1}); wait until it rests, or send the message with another `when`: "
        "queue, steer or interrupt"
    )

    conversation_id: str
    going_on: str


class NotQueued(HoldfastError, http_code=409):
    """The message does not wait for its turn: that has begun, or the message was withdrawn, superseded or dropped.

    `conversation.message(message_id)` says what became of it.
    """

    template = "conversation {0!r}: message {1!r} does not wait for its turn any more; message() says what became of it"

    conversation_id: str
    message_id: str


class QuotaUsedUp(HoldfastError, http_code=429):
    """The API key has used its quota of the day; nothing was done. `used` of `most` are used, until `until` (ms UTC)."""

    template = "the API key has used {1} of {2} of its quota {0}, until {3} (ms UTC): wait until then, or use another key"

    quota: str
    used: float
    most: float
    until: int


class Overloaded(HoldfastError, http_code=429):
    """All actors are at work, or too many commands wait for this conversation; nothing was done.

    Try again after `retry_after_ms`, with the same id.
    """

    template = (
        "no actor is free for conversation {0!r}, or too many commands wait for it: try again after {1} ms, "
        "or raise HOLDFAST_MAX_ACTORS"
    )

    conversation_id: str
    retry_after_ms: int


class StaleCall(HoldfastError, http_code=409):
    """The call does not wait for this decision. Refresh the list of pending calls; do not retry blindly.

    `settled_by` says what settled it, `settled_at` when, in integer milliseconds UTC; both are None if the call was never
    known.
    """

    conversation_id: str
    tool_call_id: str
    reason: StaleReason
    settled_by: SettledBy | None = None
    settled_at: int | None = None

    def __str__(self) -> str:
        text = f"conversation {self.conversation_id!r}: call {self.tool_call_id!r} is stale: {self.reason}"
        if self.settled_by is not None:
            text += f" (by {self.settled_by}, at {self.settled_at} ms UTC)"
        return f"{text}; look at what is pending now before you decide again"


class NotPermitted(HoldfastError, http_code=403):
    """The caller may not decide this call, and nothing was changed; `why` says what is missing.

    Let another person decide, or the same person in a way that proves who they are.
    """

    template = "conversation {0!r}: call {1!r} cannot be decided by this caller: {2}"

    conversation_id: str
    tool_call_id: str
    why: str


class AlreadyVoted(HoldfastError, http_code=409):
    """This person has already agreed to this call: `votes` of the `needed` people have. Others must; nothing was changed."""

    template = "conversation {0!r}: {2!r} has agreed to call {1!r} already; {3} of {4} people have"

    conversation_id: str
    tool_call_id: str
    principal_id: str
    votes: int
    needed: int


class InvalidLink(HoldfastError, http_code=403):
    """A link decides nothing, and nothing was changed; `reason` says which sort of problem it is, `why` the rest, if known.

    Over HTTP an expired or used link, and one for a settled call, has the status 410, any other 403.
    """

    reason: LinkProblem
    why: str = ""

    def __str__(self) -> str:
        said = f"the link decides nothing: {self.reason}{f' ({self.why})' if self.why else ''}"
        return f"{said}; ask for a new one, or decide otherwise"


class BatchRefused(HoldfastError, http_code=409):
    """One of several decisions cannot be taken, so none was.

    `errors` maps suspension ids to the error (`StaleCall`, `InvalidDecision`, `NotPermitted` or `AlreadyVoted`) of each
    decision that cannot be taken. Leave those out or change them, and send the rest again.
    """

    def __init__(self, conversation_id: str, errors: Mapping[str, HoldfastError]) -> None:
        super().__init__(conversation_id, errors)
        self.conversation_id = conversation_id
        self.errors = dict(errors)

    def __str__(self) -> str:
        first, error = next(iter(self.errors.items()), ("", ""))
        count = len(self.errors)
        return f"conversation {self.conversation_id!r}: nothing was decided, since {count} cannot be: {first!a:.80}: {error}"


class OutcomeUnknown(HoldfastError, http_code=504):
    """No acknowledgement came within the deadline; the command may or may not have been recorded. Retry with `retry_id`."""

    template = "no acknowledgement of {0} within the deadline; retry with the same id {1!r}"

    what: str
    retry_id: str


class ServerRefused(HoldfastError, http_code=502):
    """The HTTP server refused a request for a reason that has no error of its own, or gave an answer that cannot be read.

    `http_status` is the answer's status, `reason` the problem's code (`unreadable` and `redirected` are the client's own) and
    `why` the server's text. Check the url and the token. The command did nothing.
    """

    template = "the server refused the request ({0}, {1}): {2}"

    http_status: int
    reason: str
    why: str


class StoreError(HoldfastError, http_code=503):
    """The store cannot carry out a request."""


class StoreUnavailable(StoreError):
    """The store does not answer, or refuses writes (full, read-only, disk error). Nothing is known to be written."""

    template = "the store is unavailable: {0}"

    why: str


class ServerUnavailable(StoreUnavailable):
    """The HTTP server does not answer, or a proxy before it says so. Nothing is known to be done; try again."""

    template = "the server is unavailable: {0}"


class WrongStore(StoreError):
    """The store is another one than before. Point to the store that holds the conversations."""

    template = "expected store {0!r} but found {1!r}: point HOLDFAST_REDIS_URL to the store that holds the conversations"

    expected: str
    found: str


class CorruptStore(StoreError, http_code=500):
    """A key holds a value that Holdfast never wrote; nothing was changed. Restore the store, or use another namespace."""

    template = "the store is not as Holdfast left it: {0}"

    what: str


class NewerRecord(StoreError):
    """A record was written by a newer Holdfast. Upgrade this process; the record is untouched."""

    template = "a record ({0}) has version {1}, this code reads up to {2}: upgrade holdfast here"

    record: str
    found: int
    known: int


class CipherMissing(StoreError):
    """A stored payload is encrypted, and this process has no cipher; nothing was changed. Name it: `HOLDFAST_CIPHER`."""

    template = "encrypted ({0}), and this process has no cipher: set HOLDFAST_CIPHER to its import path (module:name)"

    what: str


class CipherFailed(StoreError):
    """The cipher cannot encrypt or decrypt this payload; nothing was written. Correct it, or give it the missing key.

    Work that waits for the cipher goes on by itself. A payload that was changed or moved in the store never decrypts.
    """

    template = "the cipher (HOLDFAST_CIPHER) cannot be used for {0}: {1}; correct it, or give it the key that it lacks"

    what: str
    why: str


class Fenced(StoreError):
    """Another activation owns the conversation now; this one may neither write nor answer."""

    template = "conversation {0!r} is owned by another activation"

    conversation_id: str


class LeaseHeld(StoreError):
    """Another activation still works on the conversation; ask again after `retry_after_ms`."""

    template = "conversation {0!r} is leased for another {1} ms"

    conversation_id: str
    retry_after_ms: int


class ClusterError(HoldfastError, http_code=503):
    """The Ray cluster cannot carry out a request."""


class ClusterUnavailable(ClusterError):
    """Ray does not answer at its address, or cannot be joined. Check the address and the versions."""

    template = "the Ray cluster is unavailable: {0}"

    why: str


class ClusterStopped(ClusterError):
    """Holdfast was stopped on the cluster (`holdfast down --cluster`); nothing was done. Start it: `holdfast up`.

    `namespace` is the one that was stopped. Its conversations are in Redis, and go on once Holdfast is started.
    """

    template = "Holdfast is stopped for the namespace {0!r} (`holdfast down --cluster`); `holdfast up` starts it again"

    namespace: str


class WrongCluster(ClusterError):
    """The store is bound to another Ray cluster that still lives. Connect to that one, or stop it first."""

    template = (
        "the store is bound to the Ray cluster at {0}, not to the one at {1}: connect there, or stop it first "
        "(`holdfast down` there gives the store up at once; else 15 s without its sweeper free it)"
    )

    bound: str
    found: str
