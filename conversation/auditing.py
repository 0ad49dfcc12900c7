"""The audit chain: each decision of a conversation is linked by a hash to the one before it.

A link is a SHA-256 over a fixed tuple of strings, never over a record's dump, so that records may gain fields. Bodies and
reasons are in it by their digests alone: what is erased later leaves a chain that can still be checked. Each digest is over a
salt, too, which the event holds beside the body: once both are erased, nobody can guess a short body from what is left.

An event without a salt is of format 1, which had none, and in which messages were no links.
"""

import hashlib
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from .calls import Suspension
from .events import (
    CallResolved,
    CallSuspended,
    Ended,
    Event,
    GivenRevoked,
    GrantGiven,
    GrantRevoked,
    MessageAccepted,
    PendingCancelled,
    SettledBy,
    SuspensionSettled,
    TurnCancelled,
    VoteCast,
)
from .grants import Grant
from .jsontext import NotJson, loads
from .principal import Principal
from .state import State

FORMAT = "holdfast.audit"
"""With the number of a link's format, the first string under its hash; with that of format 1, the first under any genesis."""
SALT_DIGITS = 32

Audited: TypeAlias = (
    MessageAccepted
    | SuspensionSettled
    | VoteCast
    | CallResolved
    | TurnCancelled
    | PendingCancelled
    | GrantGiven
    | GrantRevoked
    | GivenRevoked
    | Ended
)
"""The events that can be links; of the results of calls only those by which a permission rule denies."""
_ALWAYS = (SuspensionSettled, VoteCast, TurnCancelled, PendingCancelled, GrantGiven, GrantRevoked, GivenRevoked, Ended)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One link of a conversation's audit chain: something that was asked for or decided, and by whom.

    Digests are SHA-256 in 64 hexadecimal digits, over the event's salt and what they stand for; in format 1 without a salt.
    Digests and texts are empty where there is nothing to say.
    """

    conversation_id: str
    seq: Annotated[int, Field(description="The place of the event in the log.")]
    at: Annotated[int, Field(description="When it was decided, in integer milliseconds UTC by the store's clock.")] = 0
    kind: Annotated[
        str,
        Field(
            description="The kind of the event: `message_accepted`, `suspension_settled`, `vote_cast`, `grant_given`, "
            "`grant_revoked`, `given_revoked`, `turn_cancelled`, `pending_cancelled`, `conversation_ended`; `call_resolved` if "
            "a rule denies a call. Empty if the entry cannot be read."
        ),
    ] = ""
    tool_call_id: str = ""
    suspension_id: Annotated[str, Field(description="The suspension that was settled.")] = ""
    subject: Annotated[
        str,
        Field(
            description="What else it is about: the turn, the grant, the rule, the grants that settled it, one a line, or how "
            "many of how many have agreed."
        ),
    ] = ""
    shown_digest: Annotated[str, Field(description="The digest of what whoever decided was shown.")] = ""
    settled_by: Annotated[
        str,
        Field(
            description="How the suspension was settled: by which kind of decision, or by `expiry`, `cancellation`, `grant`, "
            "`rule`."
        ),
    ] = ""
    decision: Annotated[str, Field(description="The kind of decision; empty if nobody decided this very call.")] = ""
    body_digest: Annotated[
        str,
        Field(
            description="The digest of what the decision said: edited arguments, a value, a denial's reason, an error, a "
            "review; of a message its text, of a grant its terms, of a cancellation the calls, of a rule's denial the result."
        ),
    ] = ""
    reason_digest: Annotated[str, Field(description="The digest of the reason, where the body does not hold it.")] = ""
    principal_id: Annotated[str, Field(description="Who sent it or decided; empty if nobody did, or nobody said.")] = ""
    roles: Annotated[tuple[str, ...], Field(description="The roles of who that was.")] = ()
    proof: Annotated[str, Field(description="How that was proven: `stated`, `link`, `key`, `oidc` or `proxy`.")] = ""
    request_id: Annotated[str, Field(description="The idempotency key of the message, decision or request.")] = ""
    tool: Annotated[
        str, Field(description="The name of the call's tool; no part of the link, since the digest of what was shown holds it.")
    ] = ""
    reason: Annotated[str, Field(description="Why, in words; no part of the link, since the digests hold it.")] = ""
    previous: Annotated[str, Field(description="The head before this link.")] = ""
    head: Annotated[
        str, Field(description="The head with this link; empty for what an older release wrote, before the chain began.")
    ] = ""
    problem: Annotated[str | None, Field(description="Why the link does not hold; None if it does.")] = None
    format: Annotated[int, Field(description="The format of the link.")] = 1

    def follows(self, previous: str) -> str:
        """The head that this entry leads to from the head before it."""
        return _digest(
            f"{FORMAT}.{self.format}",
            previous,
            self.conversation_id,
            str(self.seq),
            str(self.at),
            self.kind,
            self.tool_call_id,
            self.suspension_id,
            self.subject,
            self.shown_digest,
            self.settled_by,
            self.decision,
            self.body_digest,
            self.reason_digest,
            self.principal_id,
            "\n".join(self.roles),  # no name has a line break
            self.proof,
            self.request_id,
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return asdict(self) | {"roles": list(self.roles)}


def genesis(conversation_id: str) -> str:
    """The head from which a conversation's first link starts."""
    return _digest(f"{FORMAT}.1", "genesis", conversation_id)


def is_audited(event: Event) -> bool:
    """Whether an event is a link of the chain."""
    if isinstance(event, MessageAccepted):
        return event.salt != ""
    return isinstance(event, _ALWAYS) or (isinstance(event, CallResolved) and event.by is SettledBy.RULE)


def linked(state: State, event: Event, salt: str) -> Event:
    """The event with its salt and the head that it leads to, if it is a link; it stands right after the state's events.

    Args:
        state: The state before the event.
        event: The event.
        salt: The random text of its command, from which each event has a salt of its own; empty: it has none.
    """
    if salt and (isinstance(event, CallSuspended | MessageAccepted) or is_audited(event)):
        event = event.model_copy(update={"salt": _digest("holdfast.salt", salt, str(state.seq + 1))[:SALT_DIGITS]})
    if not (isinstance(event, Audited) and is_audited(event)):
        return event
    if isinstance(event, SuspensionSettled | VoteCast):
        event = event.model_copy(update={"shown": _shown_to(state, event)})
    entry = entry_of(state.conversation_id, state.seq + 1, event)
    return event.model_copy(update={"head": entry.follows(state.audit_head or genesis(state.conversation_id))})


def shown_digest(event: CallSuspended) -> str:
    """The digest of what a suspension shows to whoever may settle it.

    The suspension's id stands for the conversation, the call and its arguments. What is not given is left out, so that a later
    release may show more without another digest for what it shows now. With a salt, it holds the place of the message, too,
    whose link says who asked.
    """
    given: dict[str, object] = {
        "prompt": event.prompt,
        "title": event.title,
        "action": event.action,
        "report_md": event.report_md,
        "payload": event.payload,
        "response_schema": event.response_schema,
        "rule": event.rule or None,
        "rule_reason": event.rule_reason or None,
        "decisions": None if event.decisions is None else " ".join(event.decisions),
        "approvers": None if event.approvers is None else event.approvers.digest,
        "message_at": str(event.message_at) if event.salt else None,
    }
    targets = event.targets or ()
    return _digest(
        *(("holdfast.shown.2", event.salt) if event.salt else ("holdfast.shown.1",)),
        event.suspension_id,
        event.suspension_kind,
        event.tool_call_id,
        event.tool,
        event.executor,
        event.resume,
        str(event.expires_at),
        *(f"{name}={text}" for name, text in given.items() if text is not None),
        *(() if event.targets is None else (f"targets={len(targets)}",)),
        *(part for target in targets for part in (target.kind, target.value, target.level)),
    )


def text_digest(text: str | None, salt: str) -> str:
    """The digest of a salt and a text; without a salt the SHA-256 of the text alone, as in format 1. Empty for no text."""
    if not text:
        return ""
    return _digest(salt, text) if salt else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def entry_of(conversation_id: str, seq: int, event: Audited) -> AuditEntry:
    """The entry of an audited event at a place in the log, without the heads."""
    salt, salted = event.salt, (event.salt,) if event.salt else ()
    about: dict[str, Any] = {"conversation_id": conversation_id, "seq": seq, "at": event.at, "kind": event.kind}
    about["format"] = 2 if salt else 1
    match event:
        case MessageAccepted():
            return AuditEntry(
                **about,
                **_by(event.principal),
                body_digest=text_digest(event.text, salt),
                request_id=event.message_id,
            )
        case SuspensionSettled():
            return AuditEntry(
                **about,
                **_by(event.principal),
                tool_call_id=event.tool_call_id,
                suspension_id=event.suspension_id,
                subject=_agreed(event) if event.needed else "\n".join(event.grants),
                shown_digest=event.shown,
                settled_by=event.by.value,
                decision="" if event.decision is None else event.decision.value,
                body_digest=text_digest(event.body, salt),
                reason_digest=text_digest(event.reason, salt),
                request_id=event.decision_id or "",
                reason=event.reason or _words(event),
            )
        case VoteCast():
            return AuditEntry(
                **about,
                **_by(event.principal),
                tool_call_id=event.tool_call_id,
                suspension_id=event.suspension_id,
                subject=_agreed(event),
                shown_digest=event.shown,
                decision=event.decision.value,
                body_digest=text_digest(event.body, salt),
                reason_digest=text_digest(event.reason, salt),
                request_id=event.decision_id,
                reason=event.reason,
            )
        case CallResolved():
            return AuditEntry(
                **about,
                tool_call_id=event.tool_call_id,
                subject=event.rule,
                settled_by=event.by.value,
                body_digest=text_digest(event.content, salt),
            )
        case GrantGiven():
            return AuditEntry(
                **about,
                **_by(event.grant.by),
                subject=event.grant.grant_id,
                body_digest=_digest(*salted, *_terms(event.grant)),
                reason=f"{event.grant.kind} {event.grant.pattern} up to {event.grant.level.value}",
            )
        case GrantRevoked():
            return AuditEntry(
                **about,
                **_by(event.principal),
                subject=event.grant_id,
                reason_digest=text_digest(event.reason, salt),
                request_id=event.request_id,
                reason=event.reason,
            )
        case GivenRevoked():
            return AuditEntry(
                **about,
                **_by(event.principal),
                subject=f"{event.proof or 'anybody'}:{event.by}",
                body_digest=_digest(*salted, *event.grants, *(vote.suspension_id for vote in event.votes)),
                reason_digest=text_digest(event.reason, salt),
                request_id=event.request_id or "",
                reason=event.reason,
            )
        case TurnCancelled() | PendingCancelled():
            return AuditEntry(
                **about,
                **_by(event.principal),
                subject=event.turn_id,
                body_digest=_digest(*salted, *event.calls),
                request_id=event.request_id or "",
            )
        case Ended():
            return AuditEntry(**about, **_by(event.principal), request_id=event.request_id or "")


def _agreed(event: SuspensionSettled | VoteCast) -> str:
    return f"{event.votes} of {event.needed}"


def _by(principal: Principal | None) -> dict[str, Any]:
    if principal is None:
        return {}
    return {"principal_id": principal.id, "roles": principal.roles, "proof": principal.proof.value}


def _terms(grant: Grant) -> tuple[str, ...]:
    ends = "" if grant.ends_at is None else str(grant.ends_at)
    terms = (grant.grant_id, grant.kind, grant.pattern, grant.level.value, ends, str(grant.seq))
    return (*terms, f"approvers={grant.approvers}") if grant.approvers else terms


def _words(event: SuspensionSettled) -> str:
    """What a body says in words: a denial's reason, an error, a review's notes; empty where it is something else."""
    if event.body is None or event.by not in (SettledBy.DENY, SettledBy.FAIL, SettledBy.REVIEW):
        return ""
    try:
        said = loads(event.body)
    except NotJson:
        return ""
    if isinstance(said, dict):
        verdict, notes = said.get("verdict"), said.get("notes")
        said = f"{verdict}: {notes}" if notes else verdict
    return said if isinstance(said, str) else ""


def _shown_to(state: State, event: SuspensionSettled | VoteCast) -> str:
    call = state.calls.of(event.tool_call_id)
    suspension: Suspension | None = None if call is None else call.suspension
    return "" if suspension is None else suspension.shown


def _digest(*parts: str) -> str:
    """A SHA-256, in hexadecimal digits, in which each part stands after its length: other parts have another digest."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big") + raw)
    return state.hexdigest()
