"""The words in which errors give their reasons: what they are about, as members of enumerations."""

from enum import StrEnum


class StaleReason(StrEnum):
    """Why a decision is stale."""

    UNKNOWN = "unknown"  # the conversation never had such a call or suspension
    ALREADY_RESOLVED = "already_resolved"  # another decision settled it
    EXPIRED = "expired"  # its deadline settled it
    CANCELLED = "cancelled"  # the turn was cancelled, or the conversation ended
    SUPERSEDED = "superseded"  # the call moved on to a later suspension
    CLAIMED = "claimed"  # a client executes the call: only that client may answer it or give it back


class SettledBy(StrEnum):
    """What settled a suspension or call."""

    APPROVE = "approve"  # a person lets the call run
    DENY = "deny"  # a person forbids the call, or refuses to answer
    ANSWER = "answer"  # a person or client gave the result
    FAIL = "fail"  # a client could not produce a result, or a person counts a lost run as failed
    REDISPATCH = "redispatch"  # a person repeats a lost run
    REVIEW = "review"  # a person's verdict on a review that a tool's body asked for
    EDIT = "edit"  # a person changed the arguments of a call that several must approve, so all are asked again
    EXPIRY = "expiry"  # the deadline passed
    CANCELLATION = "cancellation"  # the call or its turn was cancelled, or the conversation ended
    SOURCE = "source"  # the machine that the call waited for gave the result
    RUN = "run"  # the callback's outcome
    LOSS = "loss"  # the run's worker was gone without an outcome
    UNATTENDED = "unattended"  # nobody attends the conversation, and its agent settles the call
    GRANT = "grant"  # a grant that was given meanwhile covers the call
    RULE = "rule"  # a permission rule denies the call
    REFUSAL = "refusal"  # the call could not run at all: unknown tool, bad arguments
    REPLY = "reply"  # the call gives the turn's reply, which fits or does not: nothing runs


class LinkProblem(StrEnum):
    """Why a link decides nothing."""

    MALFORMED = "malformed"  # no server has made it, or it was changed or cut off, or it is for another store or namespace
    KEY = "key"  # the key that signed it is no longer among `HOLDFAST_LINK_KEYS`
    EXPIRED = "expired"  # its time is over
    USED = "used"  # another decision was made by it
    NOT_PERMITTED = "not_permitted"  # its principal may not decide the call, or not so
    SETTLED = "settled"  # the call does not wait for this decision any more
