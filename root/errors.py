"""Every error Holdfast raises on purpose.

```
HoldfastError
├── InvalidInput                 an input cannot be used; nothing was changed
│   ├── InvalidConversationId
│   ├── InvalidMessage
│   ├── InvalidDecision
│   └── ConfigurationError       a setting, an app, an agent or a tool is wrong
│       ├── AppNotFound
│       ├── AppNotPublished      nobody has published the app to this store
│       ├── AgentNotFound
│       ├── HomeUnusable
│       ├── InvalidRule          a permission rule cannot be used
│       ├── OlderRelease         a newer Holdfast serves the store
│       ├── OtherBuild           another build of this version serves the store, or runs on a node
│       └── UnsupportedServer
├── ConversationNotFound
├── TurnNotFound                 the conversation has had no turn of that id
├── MessageNotFound              the conversation was never sent a message of that id
├── ConversationExists
├── ConversationEnded
├── Quarantined                  the conversation took process after process down, or cannot be read; it rests until `retry`
├── QueueFull                    no more messages may wait for their turn; send again once a turn has begun
├── QuotaUsedUp                  the API key has used as much as it may in a day
├── Overloaded                   all actors that may live are at work; try again after a moment
├── StaleCall                    the call is not waiting for this decision any more, or never was
├── NotPermitted                 whoever decides may not decide this call
├── AlreadyVoted                 the same person has agreed to the call before; others have to
├── BatchRefused                 one of several decisions cannot be taken, and so none of them was
├── OutcomeUnknown               no acknowledgement within the deadline; retry with the same id
├── ServerRefused                the HTTP server refused a request, or what answers there is no Holdfast
├── StoreError
│   ├── StoreUnavailable         the store does not answer, or refuses writes
│   │   └── ServerUnavailable    the HTTP server does not answer
│   ├── WrongStore               another store than the one known before
│   ├── CorruptStore             a key holds a value that Holdfast never wrote
│   ├── NewerRecord              written by a newer Holdfast than this one
│   ├── CipherMissing            payloads are encrypted, and this process has no cipher
│   ├── CipherFailed             the cipher cannot encrypt or decrypt a payload
│   ├── Fenced                   another activation owns the conversation now
│   └── LeaseHeld                another activation still works on the conversation
└── ClusterError
    ├── ClusterUnavailable       Ray does not answer
    ├── ClusterStopped           Holdfast was stopped on the cluster, until `holdfast up`
    └── WrongCluster             the store is bound to another Ray cluster
```

Errors travel between Ray processes by pickle, so each passes exactly its constructor's positional arguments to
`super().__init__`.
"""

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar


class HoldfastError(Exception):
    """Base of every error that Holdfast raises on purpose."""

    template: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.template.format(*self.args) if self.template else super().__str__()


class InvalidInput(HoldfastError):
    """Something given to Holdfast cannot be used, and nothing was changed.

    `field` names what is wrong, `problem` says why, `fix` says what to do instead.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(field, problem, fix)
        self.field = field
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}; {self.fix}"


class InvalidConversationId(InvalidInput):
    """The conversation id is empty, too long or ill-formed. Use one of `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`."""


class InvalidMessage(InvalidInput):
    """The text of a message, its id or its context cannot be used."""


class InvalidDecision(InvalidInput):
    """The decision does not fit the suspension it names. The call still waits; decide again."""


class ConfigurationError(InvalidInput):
    """A setting, an app, an agent or a tool is declared wrongly. Correct it and start again."""


class AppNotFound(ConfigurationError):
    """The app's import path does not lead to an `App`."""


class AppNotPublished(ConfigurationError):
    """Nobody has published the app to this store, and this client does not; nothing was changed. `app` is its import path."""

    def __init__(self, app: str) -> None:
        HoldfastError.__init__(self, app)
        self.field = "app"
        self.problem = f"nobody has published {app!r} to this store, so no worker runs it"
        self.fix = f"run: holdfast up --app {shlex.quote(app)}; or connect with publish=True (HOLDFAST_PUBLISH)"
        self.app = app


class AgentNotFound(ConfigurationError):
    """The app declares no agent of that name."""


class HomeUnusable(ConfigurationError):
    """The embedded home cannot be used: its path, its server's version or its content is wrong."""


class InvalidRule(ConfigurationError):
    """A permission rule cannot be used. `field` names file, list and number, `problem` has a » at the mistake in a pattern."""


class OlderRelease(ConfigurationError):
    """A newer Holdfast serves the store; nothing was changed. Upgrade here, or go back on purpose.

    `release` is the refused release, `serving` the one that serves the store.
    """

    def __init__(self, release: str, serving: str) -> None:
        HoldfastError.__init__(self, release, serving)
        self.field = "holdfast"
        self.problem = f"this is release {release}, and the newer {serving} serves the store"
        self.fix = f"upgrade holdfast here to {serving}; or, to have all of it go back, run: holdfast up --roll-back"
        self.release = release
        self.serving = serving


class OtherBuild(ConfigurationError):
    """Another build of Holdfast, perhaps of the same version, serves the store or runs on a node; nothing was changed.

    `release` is the build here, `other` the other one, None where it is not known.
    """

    def __init__(self, release: str, other: str | None = None) -> None:
        HoldfastError.__init__(self, release, other)
        self.field = "holdfast"
        where = f"{other} serves the store" if other is not None else "a process of the cluster runs another build"
        self.problem = f"this is build {release}, and {where}: builds do not understand each other"
        self.fix = "install the same build on every node and client; to have all of it change to this one, run: holdfast up"
        self.release = release
        self.other = other


class UnsupportedServer(ConfigurationError):
    """The Redis server is too old, or lacks what Holdfast needs."""


class ConversationNotFound(HoldfastError):
    """No conversation of that id was ever started in this store. Check the id and the namespace."""

    template = "conversation {0!r} was never started here"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id


class TurnNotFound(HoldfastError):
    """The conversation has had no turn of that id. `Conversation.turns` lists those that have begun."""

    template = "conversation {0!r} has had no turn {1!r}"

    def __init__(self, conversation_id: str, turn_id: str) -> None:
        super().__init__(conversation_id, turn_id)
        self.conversation_id = conversation_id
        self.turn_id = turn_id


class MessageNotFound(HoldfastError):
    """The conversation was never sent a message of that id. After an `OutcomeUnknown`, send it again with the same id."""

    template = "conversation {0!r} was never sent a message {1!r}; to send it again with the same id is safe"

    def __init__(self, conversation_id: str, message_id: str) -> None:
        super().__init__(conversation_id, message_id)
        self.conversation_id = conversation_id
        self.message_id = message_id


class ConversationExists(HoldfastError):
    """The conversation was started before with another agent, message or context. Use `send`, or another id."""

    template = "conversation {0!r} was already started with another message; use send(), or another conversation_id"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id


class ConversationEnded(HoldfastError):
    """The conversation was ended for good. Start another one."""

    template = "conversation {0!r} has ended; start another one"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id


class Quarantined(HoldfastError):
    """The conversation took process after process down, or cannot be read or carried on, so none of its work runs.

    Find out why (`reason` names the work that ran; `at` is since when, in integer milliseconds UTC), correct the cause, then
    run `holdfast retry CONVERSATION` or `Conversation.retry()`.
    """

    template = "conversation {0!r} is in quarantine since {2} ms ({1}): correct the cause, then `holdfast retry {0}`"

    def __init__(self, conversation_id: str, reason: str, at: int) -> None:
        super().__init__(conversation_id, reason, at)
        self.conversation_id = conversation_id
        self.reason = reason
        self.at = at


class QueueFull(HoldfastError):
    """The agent's `Limits.queued` allows no more messages to wait for their turn; this one was not accepted.

    Wait until a turn has begun (`wait`), then send it again with the same id; or cancel the turn, or raise `Limits.queued`.
    """

    template = (
        "conversation {0!r}: {1} messages wait for their turn, and no more may (Limits.queued); wait until one has begun, then "
        "send this one again"
    )

    def __init__(self, conversation_id: str, queued: int) -> None:
        super().__init__(conversation_id, queued)
        self.conversation_id = conversation_id
        self.queued = queued


class QuotaUsedUp(HoldfastError):
    """The API key has used as much as it may in a day; nothing was done. `used` of `most` are used, until `until` (ms UTC)."""

    template = "the API key has used {1} of {2} of its quota {0}, until {3} (ms UTC): come back then, or use another key"

    def __init__(self, quota: str, used: float, most: float, until: int) -> None:
        super().__init__(quota, used, most, until)
        self.quota = quota
        self.used = used
        self.most = most
        self.until = until


class Overloaded(HoldfastError):
    """All actors that may live are at work, or too many commands wait for this conversation; nothing was done.

    Try again after `retry_after_ms`, with the same id.
    """

    template = (
        "no actor is free for conversation {0!r}, or too many commands wait for it: try again after {1} ms, "
        "or raise HOLDFAST_MAX_ACTORS"
    )

    def __init__(self, conversation_id: str, retry_after_ms: int) -> None:
        super().__init__(conversation_id, retry_after_ms)
        self.conversation_id = conversation_id
        self.retry_after_ms = retry_after_ms


class StaleReason(StrEnum):
    """Why a decision has no call that waits for it."""

    UNKNOWN = "unknown"  # the conversation never had such a call or suspension
    ALREADY_RESOLVED = "already_resolved"  # another decision settled it
    EXPIRED = "expired"  # its deadline settled it
    CANCELLED = "cancelled"  # the turn was cancelled, or the conversation ended
    SUPERSEDED = "superseded"  # the call moved on to a later suspension


class SettledBy(StrEnum):
    """What settled a suspension or call."""

    APPROVE = "approve"  # a person lets the call run
    DENY = "deny"  # a person does not let it run, or does not answer
    ANSWER = "answer"  # a person or client gave the result
    FAIL = "fail"  # a client could not produce a result, or a person counts a lost run as failed
    REDISPATCH = "redispatch"  # a person has a lost run run again
    REVIEW = "review"  # a person's verdict on what a tool's body asked to have reviewed
    EDIT = "edit"  # a person changed the arguments of a call that several have to agree to, so all are asked anew
    EXPIRY = "expiry"  # the deadline passed
    CANCELLATION = "cancellation"  # the call or its turn was cancelled, or the conversation ended
    RUN = "run"  # the callback's outcome
    LOSS = "loss"  # the run's worker was gone without an outcome
    UNATTENDED = "unattended"  # nobody attends the conversation, and its agent says what is done then
    GRANT = "grant"  # a grant that was given meanwhile covers the call
    RULE = "rule"  # a permission rule denies the call
    REFUSAL = "refusal"  # the call could not run at all: unknown tool, bad arguments


class StaleCall(HoldfastError):
    """The call does not wait for this decision. Refresh the list of pending calls; do not retry blindly.

    `settled_by` says what settled it, `settled_at` when, in integer milliseconds UTC; both are None where the call was never
    known.
    """

    def __init__(
        self,
        conversation_id: str,
        tool_call_id: str,
        reason: StaleReason,
        settled_by: SettledBy | None = None,
        settled_at: int | None = None,
    ) -> None:
        super().__init__(conversation_id, tool_call_id, reason, settled_by, settled_at)
        self.conversation_id = conversation_id
        self.tool_call_id = tool_call_id
        self.reason = reason
        self.settled_by = settled_by
        self.settled_at = settled_at

    def __str__(self) -> str:
        text = f"conversation {self.conversation_id!r}: call {self.tool_call_id!r} is stale: {self.reason}"
        if self.settled_by is not None:
            text += f" (by {self.settled_by}, at {self.settled_at} ms UTC)"
        return f"{text}; look at what is pending now before you decide again"


class NotPermitted(HoldfastError):
    """Whoever decides may not decide this call, and nothing was changed; `why` says what is missing.

    Somebody else has to decide, or the same person in a way that proves who they are.
    """

    template = "conversation {0!r}: call {1!r} cannot be decided so: {2}"

    def __init__(self, conversation_id: str, tool_call_id: str, why: str) -> None:
        super().__init__(conversation_id, tool_call_id, why)
        self.conversation_id = conversation_id
        self.tool_call_id = tool_call_id
        self.why = why


class AlreadyVoted(HoldfastError):
    """This person has agreed to this call already; others have to: `votes` of the `needed` people have. Nothing was changed."""

    template = "conversation {0!r}: {2!r} has agreed to call {1!r} already; {3} of {4} people have"

    def __init__(self, conversation_id: str, tool_call_id: str, principal_id: str, votes: int, needed: int) -> None:
        super().__init__(conversation_id, tool_call_id, principal_id, votes, needed)
        self.conversation_id = conversation_id
        self.tool_call_id = tool_call_id
        self.principal_id = principal_id
        self.votes = votes
        self.needed = needed


class BatchRefused(HoldfastError):
    """One of several decisions cannot be taken, and so none of them was.

    `errors` has the error (`StaleCall`, `InvalidDecision`, `NotPermitted` or `AlreadyVoted`) for each suspension whose decision
    cannot be taken, by its id. Leave those out or decide them otherwise, and send the rest again.
    """

    def __init__(self, conversation_id: str, errors: Mapping[str, HoldfastError]) -> None:
        super().__init__(conversation_id, errors)
        self.conversation_id = conversation_id
        self.errors = dict(errors)

    def __str__(self) -> str:
        first, error = next(iter(self.errors.items()), ("", ""))
        count = len(self.errors)
        return f"conversation {self.conversation_id!r}: nothing was decided, since {count} cannot be: {first!a:.80}: {error}"


class OutcomeUnknown(HoldfastError):
    """No acknowledgement came within the deadline; the command may or may not have been recorded. Retry with `retry_id`."""

    template = "no acknowledgement of {0} within the deadline; retry with the same id {1!r}"

    def __init__(self, what: str, retry_id: str) -> None:
        super().__init__(what, retry_id)
        self.what = what
        self.retry_id = retry_id


class ServerRefused(HoldfastError):
    """The HTTP server refused a request for a reason that has no error of its own, or gave an answer that cannot be read.

    `http_status` is the answer's status, `reason` the problem's code (`unreadable` and `redirected` are the client's own) and
    `why` what the server says. Look at the url and the token. Nothing was done by a command that raises this.
    """

    template = "the server refused the request ({0}, {1}): {2}"

    def __init__(self, http_status: int, reason: str, why: str) -> None:
        super().__init__(http_status, reason, why)
        self.http_status = http_status
        self.reason = reason
        self.why = why


class StoreError(HoldfastError):
    """The store cannot carry out a request."""


class StoreUnavailable(StoreError):
    """The store does not answer, or refuses writes (full, read-only, disk error). Nothing is known to be written."""

    template = "the store is unavailable: {0}"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ServerUnavailable(StoreUnavailable):
    """The HTTP server does not answer, or what stands before it says so. Nothing is known to be done; try again."""

    template = "the server is unavailable: {0}"


class WrongStore(StoreError):
    """The store is another one than before. Point to the store that holds the conversations."""

    template = "expected store {0!r} but found {1!r}: point HOLDFAST_REDIS_URL to the store that holds the conversations"

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found


class CorruptStore(StoreError):
    """A key holds a value that Holdfast never wrote; nothing was changed. Restore the store, or use another namespace."""

    template = "the store is not as Holdfast left it: {0}"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class NewerRecord(StoreError):
    """A record was written by a newer Holdfast. Upgrade this process; the record is untouched."""

    template = "a record ({0}) has version {1}, this code reads up to {2}: upgrade holdfast here"

    def __init__(self, record: str, found: int, known: int) -> None:
        super().__init__(record, found, known)
        self.record = record
        self.found = found
        self.known = known


class CipherMissing(StoreError):
    """A stored payload is encrypted, and this process has no cipher; nothing was changed. Name it: `HOLDFAST_CIPHER`."""

    template = "encrypted ({0}), and this process has no cipher: set HOLDFAST_CIPHER to its import path (module:name)"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class CipherFailed(StoreError):
    """The cipher cannot encrypt or decrypt this payload; nothing was written. Correct it, or give it the key that it lacks.

    Work that waits for the cipher goes on by itself. A payload that was changed or moved in the store never decrypts.
    """

    template = "the cipher (HOLDFAST_CIPHER) cannot be used for {0}: {1}; correct it, or give it the key that it lacks"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what = what
        self.why = why


class Fenced(StoreError):
    """Another activation owns the conversation now; this one may neither write nor answer."""

    template = "conversation {0!r} is owned by another activation"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id


class LeaseHeld(StoreError):
    """Another activation still works on the conversation; ask again after `retry_after_ms`."""

    template = "conversation {0!r} is leased for another {1} ms"

    def __init__(self, conversation_id: str, retry_after_ms: int) -> None:
        super().__init__(conversation_id, retry_after_ms)
        self.conversation_id = conversation_id
        self.retry_after_ms = retry_after_ms


class ClusterError(HoldfastError):
    """The Ray cluster cannot carry out a request."""


class ClusterUnavailable(ClusterError):
    """Ray does not answer at its address, or cannot be joined. Check the address and the versions."""

    template = "the Ray cluster is unavailable: {0}"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ClusterStopped(ClusterError):
    """Somebody stopped Holdfast on the cluster (`holdfast down --cluster`); nothing was done. Start it: `holdfast up`.

    `namespace` is the one that was stopped. Its conversations are in Redis, and go on once Holdfast is started.
    """

    template = "Holdfast is stopped for the namespace {0!r} (`holdfast down --cluster`); `holdfast up` starts it again"

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.namespace = namespace


class WrongCluster(ClusterError):
    """The store is bound to another Ray cluster that still lives. Connect to that one, or stop it first."""

    template = (
        "the store is bound to the Ray cluster at {0}, not to the one at {1}: connect there, or stop it first "
        "(`holdfast down` there gives the store up at once; else 15 s without its sweeper free it)"
    )

    def __init__(self, bound: str, found: str) -> None:
        super().__init__(bound, found)
        self.bound = bound
        self.found = found
