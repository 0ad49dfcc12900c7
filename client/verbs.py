"""Every public operation, declared once: a row for each, from which both gateways of the client and the server's routes follow.

A row says how each argument is checked, where the operation is over HTTP, and what it replies. A command's row names the
command that the stack delivers; a read's row names the function that reads the store. What an operation needs beyond its row is
a function in `stack_gateway.py` and one in `http_gateway.py`, registered there under the row.

A method's docstring lists only its special errors; `holdfast.client` lists what every read and every command raises.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast import errors
from holdfast.conversation import (
    Assign,
    Cancelled,
    CancelPending,
    CancelTurn,
    Claim,
    ClaimReceipt,
    Comment,
    CompactNow,
    End,
    EscalateCall,
    GiveBack,
    Grant,
    Interrupt,
    Interrupted,
    OnDetach,
    Origin,
    Proof,
    Receipt,
    Receipts,
    Reschedule,
    Resolve,
    Revoke,
    RevokeGiven,
    Send,
    Snooze,
    SuspensionKind,
    When,
    Withdraw,
)
from holdfast.conversation.ids import check_conversation_id, check_request_id
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.link import check_token
from holdfast.conversation.terms.overrides import overrides_of
from holdfast.conversation.terms.parts import content_of
from holdfast.conversation.terms.presence import check_client_id, checked_tools
from holdfast.persistence import ConversationRow, OutboxState, Pause, Place, Store
from holdfast.persistence.access import AccessScope
from holdfast.persistence.pages import check_limit

from . import filters
from . import operation as of
from .agents import AgentRow
from .audit import AuditReport
from .batches import many_of, pairs_of, rulings_of
from .context_view import ContextView, context_view
from .filters import checks_of, filtered
from .given import Given, given_page, grants_of
from .list_events import AsyncListEvent
from .log_pages import MessagePage, TurnPage, message_page, turn_of, turn_page
from .operation import Checks, Verb
from .outbox import Undelivered, outbox_cursor_of, outbox_id_of, outbox_page
from .results import AsyncPendingCall, ConversationState, Event, Link, Page
from .rule_check import RuleCheck, arguments_of, named
from .summary import Summary, summary_of
from .tree import Node, tree
from .tree_cursor import place_of as place_below
from .turns import Message, QueuedMessage, Turn, queue_of, what_became
from .usage import UsageBy, UsageReport, usage_of, usage_page

READ, START, DECIDE, CLIENT, ADMIN = (AccessScope[name] for name in ("READ", "START", "DECIDE", "CLIENT", "ADMIN"))


def _as_it_is(value: Any) -> Any:
    return value


def _member(kind: Any, field: str) -> Callable[[Any], Any]:
    return partial(of.member_of, kind, field)


_ONE: Checks = {"conversation_id": check_conversation_id}
_REQUEST: Checks = {"request_id": partial(of.key_of, "request_id", errors.InvalidInput)}
_DECISION: Checks = {"decision_id": partial(of.key_of, "decision_id", errors.InvalidDecision)}
_PAGE: Checks = {"after": of.cursor_of, "limit": check_limit}
_LOG_PAGE: Checks = dict.fromkeys(("limit", "after", "before"), _as_it_is)
_KIND: Checks = {"kind": _member(SuspensionKind, "kind")}
_PROOF: Checks = {"proof": _member(Proof, "proof")}
_MESSAGE: Checks = {"message_id": partial(check_request_id, "message_id", error=errors.InvalidMessage)}
_ORIGIN: Checks = {"origin": _member(Origin, "origin")}
_OVERRIDES: Checks = {"overrides": overrides_of}
_REASON: Checks = {"reason": of.reason_of}
_BY: Checks = {"by": _member(UsageBy, "by")}
_NOTED: Checks = {"suspension_id": _as_it_is, "tool_call_id": _as_it_is}
_CLIENT: Checks = {"client_id": check_client_id}
_ON_DETACH: Checks = {"on_detach": _member(OnDetach, "on_detach")}
_CONVERSATION = "/v1/conversations/{conversation_id}"


def _list_cursor(after: str) -> str:
    Place.of(after)
    return after


async def _conversations(store: Store, **where: Any) -> Page[ConversationRow]:
    page = await filtered(store.conversations, filters.CONVERSATIONS, **where)
    return Page(items=list(page.items), next=page.next)


async def _paused(store: Store) -> list[Pause]:
    return list((await store.paused()).pauses)


STARTED = Verb(
    *("start", "POST /v1/conversations", Receipt, "the start", START),
    checks={
        "conversation_id": check_conversation_id,
        "message_id": partial(of.key_of, "message_id", errors.InvalidMessage),
        "agent": of.started_of,
        "text": content_of,
        "context": of.context_of,
        "attended": of.attended_of,
        **_OVERRIDES,
    },
)
RESOLVE = Verb(
    *("resolve", "POST /v1/pending/{suspension_id}/resolve", Receipt, "the decision", DECIDE),
    instead=CLIENT,
    checks={**_ONE, "suspension_id": _as_it_is, "decision": DecisionRecord.of, **_DECISION, **_CLIENT},
)
RESOLVE_CALL = Verb(
    *("resolve", f"POST {_CONVERSATION}/resolve", Receipt, "the decision", DECIDE),
    operation="resolveCall",
    instead=CLIENT,
    checks={
        **_ONE,
        "decision": DecisionRecord.of,
        **_DECISION,
        **_CLIENT,
        "suspension_id": of.optional(of.id_of("suspension_id")),
        "tool_call_id": of.id_of("tool_call_id"),
    },
    command=Resolve,
    renamed={"decision": "ruling"},
)
RESOLVE_EACH = Verb(
    *("resolve_each", "POST /v1/pending/resolve-each", list[Receipt | errors.HoldfastError], "the decisions", DECIDE),
    checks={"decisions": pairs_of, **_DECISION},
)
PENDING = Verb(
    *("pending", "GET /v1/pending", Page[AsyncPendingCall], "the pending calls"),
    operation="listPending",
    checks={**checks_of(filters.CALLS), **_PAGE},
)
PENDING_CALL = Verb(
    *("pending_call", "GET /v1/pending/{suspension_id}", AsyncPendingCall, "the pending call"),
    operation="getPending",
    checks={"suspension_id": _as_it_is, "conversation_id": of.optional(check_conversation_id)},
)
LINK = Verb(
    *("link", "POST /v1/pending/{suspension_id}/links", Link, "the link", DECIDE),
    also=(ADMIN,),  # it speaks for whomever it names
    checks={
        "suspension_id": _as_it_is,
        "conversation_id": check_conversation_id,
        "to": of.stated_of,
        "decisions": of.kinds_of,
        "expires_s": of.link_span_of,
    },
)
REDEEM = Verb(
    *("redeem", "POST /r/{token}", Receipt, "the decision", None),
    checks={"token": check_token, "decision": DecisionRecord.of},
)
CONVERSATIONS = Verb(
    *("conversations", "GET /v1/conversations", Page[ConversationRow], "the conversations"),
    operation="listConversations",
    checks={**checks_of(filters.CONVERSATIONS), **_PAGE},
    read=_conversations,
)
USAGE = Verb(
    *("usage", "GET /v1/usage", UsageReport, "the usage"),
    checks={**checks_of(filters.USED), **_BY, **_PAGE},
    read=usage_page,
)
GIVEN = Verb(
    *("given", "GET /v1/given", Page[Given], "what was given"),
    operation="listGiven",
    checks={**checks_of(filters.GIVEN), **_PAGE},
    read=given_page,
)
LIST_EVENTS = Verb(
    *("events", "GET /v1/events", AsyncListEvent, "the events"),
    operation="followLists",
    checks={**checks_of(filters.EVENTS), "after": of.optional(_list_cursor)},
)
READY = Verb(
    *("ready", "GET /ready", bool, "whether the server is ready"),
    scope=None,
)
AGENTS = Verb("agents", "GET /v1/agents", list[AgentRow], "the agents", operation="listAgents")
CHECK_RULES = Verb(
    *("check_rules", "POST /v1/rules/check", RuleCheck, "the check of the rules"),
    checks={
        "agent": partial(named, "agent"),
        "tool": partial(named, "tool"),
        "arguments": arguments_of,
        "app": of.optional(partial(named, "app")),
    },
)
PAUSE = Verb(
    *("pause", "POST /v1/pause", Pause, "the pause", ADMIN),
    checks={"agent": of.pausable, **_REASON},
)
UNPAUSE: Verb[Pause | None] = Verb(
    *("unpause", "POST /v1/unpause", Pause, "the lifting of the pause", ADMIN),
    checks={"agent": of.pausable},
    read=lambda store, agent: store.unpause(agent),
    under="lifted",
)
OUTBOX = Verb(
    *("outbox", "GET /v1/outbox", Page[Undelivered], "the outbox", ADMIN),
    operation="listOutbox",
    checks={"state": _member(OutboxState, "state"), "after": outbox_cursor_of, "limit": check_limit},
    read=outbox_page,
)
REDELIVER = Verb(
    *("redeliver", "POST /v1/outbox/{outbox_id}/retry", bool, "the delivery", ADMIN),
    checks={"outbox_id": outbox_id_of},
    read=lambda store, outbox_id: store.redeliver(outbox_id),
    under="found",
)
DROP = Verb(
    *("drop", "POST /v1/outbox/{outbox_id}/drop", bool, "the removal", ADMIN),
    operation="dropOwed",
    checks={"outbox_id": outbox_id_of},
    read=lambda store, outbox_id: store.drop_owed(outbox_id),
    under="found",
)
PAUSED = Verb("paused", "GET /v1/pause", list[Pause], "the pauses", operation="listPauses", read=_paused)

SEND = Verb(
    *("send", f"POST {_CONVERSATION}/messages", Receipt, "the message", START),
    checks={
        **_ONE,
        "message_id": partial(of.key_of, "message_id", errors.InvalidMessage),
        "text": content_of,
        "when": _member(When, "when"),
        "at": of.time_of,
        "priority": of.priority_of,
        **_ORIGIN,
        **_OVERRIDES,
    },
    command=Send,
)
INTERRUPT = Verb(
    *("interrupt", f"POST {_CONVERSATION}/interrupt", Interrupted, "the interruption", START),
    checks={**_ONE, **_REQUEST, "text": of.optional(content_of), **_ORIGIN, **_OVERRIDES},
    command=Interrupt,
)
QUEUE = Verb(
    *("queue", f"GET {_CONVERSATION}/queue", list[QueuedMessage], "the queue"),
    operation="listQueue",
    checks=_ONE,
    read=queue_of,
)
WITHDRAW = Verb(
    *("withdraw", f"DELETE {_CONVERSATION}/queue/{{message_id}}", Receipt, "the withdrawal", START),
    checks={**_ONE, **_REQUEST, **_MESSAGE},
    command=Withdraw,
)
RESCHEDULE = Verb(
    *("reschedule", f"PATCH {_CONVERSATION}/queue/{{message_id}}", Receipt, "the request", START),
    checks={**_ONE, **_REQUEST, **_MESSAGE, "at": of.time_of, "priority": of.optional(of.priority_of)},
    command=Reschedule,
)
COMPACT = Verb(
    *("compact", f"POST {_CONVERSATION}/compact", Receipt, "the request", START),
    checks={**_ONE, **_REQUEST},
    command=CompactNow,
)
SUMMARY = Verb(
    *("summary", f"GET {_CONVERSATION}/summaries/{{request_id}}", Summary, "the summary"),
    operation="getSummary",
    checks={**_ONE, "request_id": partial(check_request_id, "request_id", error=errors.InvalidInput)},
    read=summary_of,
)
RESOLVE_MANY = Verb(
    *("resolve_many", f"POST {_CONVERSATION}/resolve-many", Receipts, "the decisions", DECIDE),
    checks={**_ONE, **_DECISION, "decisions": rulings_of},
    command=many_of,
)
STATE = Verb(
    *("wait", f"GET {_CONVERSATION}", ConversationState[Awaitable[Receipt]], "the state"),
    operation="getConversation",
    checks={**_ONE, "after": of.optional(of.place_of), "timeout_s": of.timeout_of},
)
PENDING_OF = Verb("pending", STATE.route, list[AsyncPendingCall], "the pending calls", operation=STATE.operation, checks=_ONE)
TREE = Verb(
    *("tree", f"GET {_CONVERSATION}/tree", Node, "the tree"),
    operation="getTree",
    checks=_ONE,
    read=tree,
)
MESSAGES_PAGE = Verb(
    *("messages_page", f"GET {_CONVERSATION}/messages", MessagePage, "the messages"),
    operation="listMessages",
    checks={**_ONE, **_LOG_PAGE},
    read=message_page,
)
CONTEXT = Verb(
    *("context", f"GET {_CONVERSATION}/context", ContextView, "the context"),
    operation="getContext",
    checks=_ONE,
    read=context_view,
)
USAGE_OF = Verb(
    *("usage", f"GET {_CONVERSATION}/usage", UsageReport, "the usage"),
    operation="getUsage",
    checks={**_ONE, **_BY},
    read=usage_of,
)
MESSAGE = Verb(
    *("message", f"GET {_CONVERSATION}/messages/{{message_id}}", Message, "the message"),
    operation="getMessage",
    checks={**_ONE, **_MESSAGE},
    read=what_became,
)
TURNS_PAGE = Verb(
    *("turns_page", f"GET {_CONVERSATION}/turns", TurnPage, "the turns"),
    operation="listTurns",
    checks={**_ONE, **_LOG_PAGE},
    read=turn_page,
)
TURN = Verb(
    *("turn", f"GET {_CONVERSATION}/turns/{{turn_id}}", Turn, "the turn"),
    operation="getTurn",
    checks={**_ONE, "turn_id": _as_it_is},
    read=turn_of,
)
EVENTS = Verb(
    *("events", f"GET {_CONVERSATION}/events", Event, "the events"),
    operation="followConversation",
    checks={**_ONE, "after": of.place_of, "live": bool},
)
EVENTS_BELOW = Verb(
    *("events", EVENTS.route, Event, "the events"),
    operation=EVENTS.operation,
    checks={**_ONE, "after": place_below, "live": bool, "agents": _as_it_is},
)
LATEST = Verb(
    "latest", EVENTS.route, list[Event], "the events", operation=EVENTS.operation, checks={**_ONE, "limit": check_limit}
)
CANCEL = Verb(
    *("cancel", f"POST {_CONVERSATION}/cancel", Cancelled, "the cancellation", START),
    checks={**_ONE, **_REQUEST, "turn_id": of.turn_id_of, "wait_s": of.wait_of},
    command=CancelTurn,
)
CANCEL_PENDING = Verb(
    *("cancel_pending", f"POST {_CONVERSATION}/cancel-pending", Cancelled, "the cancellation", START),
    also=(DECIDE,),
    instead=CLIENT,
    checks={**_ONE, **_REQUEST, **_KIND, **_REASON, "client_id": of.optional(check_client_id), "kinds": _as_it_is},
    command=CancelPending,
    renamed={"kind": "suspension_kind"},
)
GRANTS = Verb(
    "grants", f"GET {_CONVERSATION}/grants", list[Grant], "the grants", operation="listGrants", checks=_ONE, read=grants_of
)
REVOKE = Verb(
    *("revoke", f"DELETE {_CONVERSATION}/grants/{{grant_id}}", Receipt, "the revocation", DECIDE),
    operation="revokeGrant",
    checks={**_ONE, **_REQUEST, "grant_id": of.grant_id_of, **_REASON},
    command=Revoke,
)
REVOKE_GIVEN = Verb(
    *("revoke_given", f"POST {_CONVERSATION}/revoke-given", Receipt, "the revocation", DECIDE),
    checks={**_ONE, **_REQUEST, "by": of.giver_of, **_PROOF, **_REASON},
    command=RevokeGiven,
)
AUDIT = Verb("audit", f"GET {_CONVERSATION}/audit", AuditReport, "the audit", checks={**_ONE, "receipts": _as_it_is})
AUDIT_LINES = Verb(
    *("audit_lines", AUDIT.route, dict[str, Any], "the audit"),
    operation=AUDIT.operation,
    checks={**AUDIT.checks, "after": of.place_of},
)
ASSIGN = Verb(
    *("assign", "POST /v1/pending/{suspension_id}/assign", Receipt, "the assignment", DECIDE),
    checks={**_ONE, **_REQUEST, **_NOTED, "to": _as_it_is},
    command=Assign,
)
COMMENT = Verb(
    *("comment", "POST /v1/pending/{suspension_id}/comment", Receipt, "the comment", DECIDE),
    checks={**_ONE, **_REQUEST, **_NOTED, "text": partial(of.text_of, errors.InvalidInput)},
    command=Comment,
)
SNOOZE = Verb(
    *("snooze", "POST /v1/pending/{suspension_id}/snooze", Receipt, "the snooze", DECIDE),
    checks={**_ONE, **_REQUEST, **_NOTED, **_REASON, "for_s": of.for_of},
    command=Snooze,
)
ESCALATE = Verb(
    *("escalate", "POST /v1/pending/{suspension_id}/escalate", Receipt, "the escalation", DECIDE),
    checks={**_ONE, **_REQUEST, **_NOTED, **_REASON, "to": of.deciders_of, "administrator": _as_it_is},
    command=EscalateCall,
    renamed={"to": "approvers"},
)
ATTACH = Verb(
    *("attach", f"GET {_CONVERSATION}/attach", AsyncListEvent, "the presence", CLIENT),
    checks={**_ONE, **_CLIENT, "tools": checked_tools, **_ON_DETACH, "moves": _as_it_is, "kinds": _as_it_is},
)
CLAIM = Verb(
    *("claim", "POST /v1/pending/{suspension_id}/claim", ClaimReceipt, "the claim", CLIENT),
    checks={**_ONE, **_REQUEST, **_NOTED, **_CLIENT, **_ON_DETACH},
    command=Claim,
)
GIVE_BACK = Verb(
    *("give_back", "POST /v1/pending/{suspension_id}/give-back", Receipt, "the request", CLIENT),
    checks={**_ONE, **_REQUEST, **_NOTED, **_CLIENT, **_REASON, "began": of.began_of},
    command=GiveBack,
)
REPORT_PROGRESS = Verb(
    *("report_progress", "POST /v1/pending/{suspension_id}/progress", bool, "the progress", CLIENT),
    checks={**_ONE, **_NOTED, **_CLIENT, **dict.fromkeys(("value", "message", "status", "loaded", "total"), _as_it_is)},
    under="heard",
)
RETRY = Verb(
    *("retry", f"POST {_CONVERSATION}/retry", bool, "the retry", START),
    checks=_ONE,
    read=lambda store, conversation_id: store.retry(conversation_id),
    under="lifted",
)
END = Verb("end", f"POST {_CONVERSATION}/end", Receipt, "the end", START, checks={**_ONE, **_REQUEST}, command=End)
