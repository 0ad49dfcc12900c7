"""The audit chain: each decision of a conversation is linked by a hash to the one before it.

A link is a SHA-256 over a fixed tuple of strings, never over a record's dump, so that records may gain fields. Bodies and
reasons enter it only as digests, so the chain can be checked after they are erased. Each digest also covers a salt, which the
event holds beside the body: once both are erased, nobody can guess a short body from the digest.

An event without a salt has format 1: there were no salts, and messages were not links.
"""

import hashlib
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field

from holdfast.conversation.ids import sha256_of
from holdfast.conversation.records import events
from holdfast.conversation.records.event_base import ChainLink
from holdfast.conversation.records.events import Event, SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import IN_WORDS
from holdfast.conversation.terms.grants import Grant
from holdfast.conversation.terms.parts import Content, said_by
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.text.jsontext import NotJson, loads

FORMAT = "holdfast.audit"
"""The first string under each hash, with a format number: a link's own, and 1 for every genesis."""
LINKED = (
    *("conversation_id", "seq", "at", "kind", "tool_call_id", "suspension_id", "subject", "shown_digest", "settled_by"),
    *("decision", "body_digest", "reason_digest", "principal_id", "roles", "proof", "request_id"),
)
"""The fields of an entry that a link covers, in this order."""
SALT_DIGITS = 32
_said = attrgetter(*LINKED)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One link of a conversation's audit chain: a request or decision, and its principal.

    Digests are SHA-256 in 64 hexadecimal digits, over the event's salt and the digested text (format 1: the text alone).
    A digest or text that does not apply is empty.
    """

    conversation_id: str
    seq: Annotated[int, Field(description="The place of the event in the log.")]
    at: Annotated[int, Field(description="When it was decided, in integer milliseconds UTC by the store's clock.")] = 0
    kind: Annotated[
        str,
        Field(
            description="The kind of the event: `message_accepted`, `suspension_settled`, `vote_cast`, `call_escalated`, "
            "`grant_given`, `grant_revoked`, `given_revoked`, `turn_cancelled`, `pending_cancelled`, `input_withdrawn`, "
            "`input_rescheduled`, `input_superseded`, `compaction_requested`, `conversation_ended`; `call_resolved` if a rule "
            "denies a call. Empty if the entry cannot be read."
        ),
    ] = ""
    tool_call_id: str = ""
    suspension_id: Annotated[str, Field(description="The suspension that was settled.")] = ""
    subject: Annotated[
        str,
        Field(
            description="What else it is about: the turn, the message's place in the log, the grant, the rule, the grants that "
            "settled it (one a line), or the count of votes (`1 of 2`)."
        ),
    ] = ""
    shown_digest: Annotated[str, Field(description="The digest of what was shown to the person who decided.")] = ""
    settled_by: Annotated[
        str,
        Field(
            description="How the suspension was settled: by which kind of decision, or by `expiry`, `cancellation`, `grant`, "
            "`rule`."
        ),
    ] = ""
    decision: Annotated[str, Field(description="The kind of decision; empty if no decision named this call.")] = ""
    body_digest: Annotated[
        str,
        Field(
            description="The digest of what the decision said: edited arguments, a value, a denial's reason, an error, a "
            "review; of a message its text, of a grant its terms, of a cancellation the calls, of an escalation the approvers "
            "and the deadline, of a rule's denial the result."
        ),
    ] = ""
    reason_digest: Annotated[str, Field(description="The digest of the reason, if the body does not hold it.")] = ""
    principal_id: Annotated[
        str, Field(description="The id of the person who sent or decided it; empty if it was nobody, or is unknown.")
    ] = ""
    roles: Annotated[tuple[str, ...], Field(description="The roles of that person.")] = ()
    proof: Annotated[str, Field(description="How that was proven: `stated`, `link`, `key`, `oidc` or `proxy`.")] = ""
    request_id: Annotated[str, Field(description="The idempotency key of the message, decision or request.")] = ""
    tool: Annotated[
        str, Field(description="The name of the call's tool; not part of the link, but under the digest of what was shown.")
    ] = ""
    reason: Annotated[str, Field(description="Why, in words; not part of the link, which holds its digest.")] = ""
    previous: Annotated[str, Field(description="The head before this link.")] = ""
    head: Annotated[str, Field(description="The head after this link; empty for an event of a release that had no chain.")] = ""
    problem: Annotated[str | None, Field(description="Why the link does not hold; None if it does.")] = None
    format: Annotated[int, Field(description="The format of the link.")] = 1

    def follows(self, previous: str) -> str:
        """The head after this entry, given the head before it."""
        # A role has no line break.
        parts = ["\n".join(one) if isinstance(one, tuple | list) else str(one) for one in _said(self)]
        return _digest(f"{FORMAT}.{self.format}", previous, *parts)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return asdict(self) | {"roles": list(self.roles)}


def genesis(conversation_id: str) -> str:
    """The head before a conversation's first link."""
    return _digest(f"{FORMAT}.1", "genesis", conversation_id)


def is_audited(event: Event) -> bool:
    """Whether an event is a link of the chain; of call results, only denials by a permission rule are."""
    if isinstance(event, events.MessageAccepted):
        return event.salt != ""
    return isinstance(event, ChainLink) and (not isinstance(event, events.CallResolved) or event.by is SettledBy.RULE)


def linked(state: State, event: Event, salt: str) -> Event:
    """The event, which must directly follow the state, with its salt and, if it is a link, its head.

    `salt` is the random text of its command, from which the event's own salt is derived; empty: no salt.
    """
    said = {}
    if salt and (isinstance(event, events.CallSuspended | events.MessageAccepted) or is_audited(event)):
        said["salt"] = _digest("holdfast.salt", salt, str(state.seq + 1))[:SALT_DIGITS]
    if isinstance(event, events.SuspensionSettled | events.VoteCast):
        said["shown"] = _shown_to(state, event)
    event = event.model_copy(update=said) if said else event
    if not (isinstance(event, ChainLink) and is_audited(event)):
        return event
    entry = entry_of(state.conversation_id, state.seq + 1, event)
    return event.model_copy(update={"head": entry.follows(state.audit_head or genesis(state.conversation_id))})


def shown_digest(event: events.CallSuspended) -> str:
    """The digest of what a suspension shows to its approvers.

    The suspension's id stands for the conversation, the call and its arguments. Fields that are not given are left out, so a
    later release may show more without changing this digest. With a salt, it includes the message's `seq`, whose link says who
    asked.
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


def entry_of(conversation_id: str, seq: int, event: ChainLink) -> AuditEntry:
    """The entry of the audited event at `seq`, without the heads."""
    salt = event.salt
    said: dict[str, Any] = {
        name: vars(event).get(name) or "" for name in ("tool_call_id", "suspension_id", "request_id", "reason")
    }
    said |= _by(event.grant.by if isinstance(event, events.GrantGiven) else vars(event).get("principal"))
    said["reason_digest"] = text_digest(said["reason"], salt)
    match event:
        case events.MessageAccepted():
            said |= {"body_digest": _content_digest(event.text, salt), "request_id": event.message_id}
        case events.SuspensionSettled() | events.VoteCast():
            said |= {
                "subject": f"{event.votes} of {event.needed}" if event.needed else "",
                "shown_digest": event.shown,
                "decision": str(event.decision or ""),
                "body_digest": text_digest(event.body, salt),
                "request_id": event.decision_id or "",
            }
            if isinstance(event, events.SuspensionSettled):
                said |= {"settled_by": event.by.value, "reason": said["reason"] or _words(event)}
                said["subject"] = said["subject"] or "\n".join(event.grants)
        case events.CallEscalated():
            said |= {
                "subject": f"stage {event.stage}",
                "body_digest": _salted(salt, event.approvers.digest, str(event.expires_at)),
            }
        case events.CallResolved():
            said |= {"subject": event.rule, "settled_by": event.by.value, "body_digest": text_digest(event.content, salt)}
        case events.GrantGiven():
            grant = event.grant
            said |= {"subject": grant.grant_id, "body_digest": _salted(salt, *_terms(grant))}
            said["reason"] = f"{grant.kind} {grant.pattern} up to {grant.level.value}"
        case events.GrantRevoked():
            said["subject"] = event.grant_id
        case events.GivenRevoked():
            votes = (vote.suspension_id for vote in event.votes)
            said["subject"] = f"{event.proof or 'anybody'}:{event.by}"
            said["body_digest"] = _salted(salt, *event.grants, *votes)
        case events.InputWithdrawn():
            said["subject"] = str(event.message_seq)
        case events.InputRescheduled():
            said["subject"] = str(event.message_seq)
            said["body_digest"] = _salted(salt, str(event.due_at), str(event.priority))
        case events.InputSuperseded():
            parts = (str(event.epoch), str(event.by_seq), *map(str, event.message_seqs), *event.calls)
            said |= {"subject": event.turn_id or "", "body_digest": _salted(salt, *parts)}
        case events.TurnCancelled() | events.PendingCancelled():
            said |= {"subject": event.turn_id, "body_digest": _salted(salt, *event.calls)}
    return AuditEntry(conversation_id, seq, event.at, event.kind, format=2 if salt else 1, **said)


def _content_digest(content: Content, salt: str) -> str:
    return text_digest(content, salt) if isinstance(content, str) else _salted(salt, "parts", *said_by(content))


def _salted(salt: str, *parts: str) -> str:
    return _digest(*((salt,) if salt else ()), *parts)


def _by(principal: Principal | None) -> dict[str, Any]:
    if principal is None:
        return {}
    return {"principal_id": principal.id, "roles": principal.roles, "proof": principal.proof.value}


def _terms(grant: Grant) -> tuple[str, ...]:
    ends = "" if grant.ends_at is None else str(grant.ends_at)
    terms = (grant.grant_id, grant.kind, grant.pattern, grant.level.value, ends, str(grant.seq))
    return (*terms, f"approvers={grant.approvers}") if grant.approvers else terms


def _words(event: events.SuspensionSettled) -> str:
    """The words of a body: a denial's reason, an error, a review's notes; empty for any other body."""
    if event.body is None or (event.decision or event.by).value not in IN_WORDS:
        return ""
    try:
        said = loads(event.body)
    except NotJson:
        return ""
    if isinstance(said, dict):
        verdict, notes = said.get("verdict"), said.get("notes")
        said = f"{verdict}: {notes}" if notes else verdict
    return said if isinstance(said, str) else ""


def _shown_to(state: State, event: events.SuspensionSettled | events.VoteCast) -> str:
    call = state.calls.of(event.tool_call_id)
    return "" if call is None or call.suspension is None else call.suspension.shown


def _digest(*parts: str) -> str:
    return sha256_of(*parts).hex()
