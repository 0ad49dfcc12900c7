"""Every public operation, declared once: a row for each, from which both gateways of the client and the server's routes follow.

A row says how each argument is checked, where the operation is over HTTP, and what it replies. A command's row names the
command that the stack delivers; a read's row names the function that reads the store. What an operation needs beyond its row is
a function in `stack_gateway.py` and one in `http_gateway.py`, registered there under the row.

A method's docstring lists only its special errors, the row's `raises`. Besides, every read raises `READ_RAISES`, a read of
one conversation `CONVERSATION_RAISES` too, and every command both and `COMMAND_RAISES`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast.conversation import (
    Assign,
    Cancelled,
    CancelPending,
    CancelTurn,
    Comment,
    Decision,
    End,
    Grant,
    Proof,
    Receipt,
    Receipts,
    Resolve,
    Revoke,
    RevokeGiven,
    Send,
    Status,
    SuspensionKind,
)
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import (
    AgentNotFound,
    AlreadyVoted,
    AppNotFound,
    AppNotPublished,
    BatchRefused,
    ClusterStopped,
    ClusterUnavailable,
    ConversationExists,
    HoldfastError,
    InvalidConversationId,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    MessageNotFound,
    NotPermitted,
    QueueFull,
    StaleCall,
    TurnNotFound,
)
from holdfast.persistence import ConversationRow, Pause, Place, Store
from holdfast.persistence.api_keys import AccessScope
from holdfast.persistence.pages import check_limit

from . import arguments as of
from .agents import AgentRow
from .audit import AuditReport
from .batches import many_of, pairs_of, rulings_of
from .deciders import decider_of
from .given import Given, given_page, grants_of
from .list_events import AsyncListEvent
from .log_pages import MessagePage, message_page, turn_page
from .noting import comment_of
from .results import AsyncPendingCall, ConversationState, Event, Page
from .rule_check import RuleCheck, arguments_of, named
from .turns import Message, Turn, turn_log, what_became
from .verb import Checks, Verb

READ, START, DECIDE, ADMIN = AccessScope.READ, AccessScope.START, AccessScope.DECIDE, AccessScope.ADMIN


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _as_it_is(value: Any) -> Any:
    return value


def _member(kind: Any, field: str) -> Callable[[Any], Any]:
    return partial(of.member_of, kind, field)


_ONE: Checks = {"conversation_id": check_conversation_id}
_REQUEST: Checks = {"request_id": partial(of.key_of, "request_id", InvalidInput)}
_DECISION: Checks = {"decision_id": partial(of.key_of, "decision_id", InvalidDecision)}
_PAGE: Checks = {"after": of.cursor_of, "limit": check_limit}
_LOG_PAGE: Checks = {"limit": _as_it_is, "after": _as_it_is}
_AGENT: Checks = {"agent": of.agent_of}
_KIND: Checks = {"kind": _member(SuspensionKind, "kind")}
_PROOF: Checks = {"proof": _member(Proof, "proof")}
_REASON: Checks = {"reason": of.reason_of}
_CONVERSATION = "/v1/conversations/{conversation_id}"


_NOTED: Checks = {"suspension_id": _as_it_is, "tool_call_id": _as_it_is}


def _ruling(decision: Decision) -> DecisionRecord:
    return DecisionRecord.of(decision)


def _list_cursor(after: str) -> str:
    Place.of(after)
    return after


async def _conversations(store: Store, **where: Any) -> Page[ConversationRow]:
    page = await store.conversations(**where)
    return Page(items=list(page.items), next=page.next)


async def _paused(store: Store) -> list[Pause]:
    return list((await store.paused()).pauses)


async def _turn(store: Store, conversation_id: str, turn_id: str) -> Turn:
    return (await turn_log(store, conversation_id)).turn(turn_id)


STARTED = Verb(
    "start",
    "POST /v1/conversations",
    "start",
    Receipt,
    "the start",
    START,
    checks={
        "conversation_id": check_conversation_id,
        "message_id": partial(of.key_of, "message_id", InvalidMessage),
        "agent": of.started_of,
        "text": of.text_of,
        "context": of.context_of,
        "attended": of.attended_of,
    },
    raises=(AgentNotFound, AppNotFound, AppNotPublished, ConversationExists, InvalidConversationId, InvalidMessage),
)
RESOLVE = Verb(
    "resolve",
    "POST /v1/pending/{suspension_id}/resolve",
    "resolve",
    Receipt,
    "the decision",
    DECIDE,
    checks={"conversation_id": check_conversation_id, "suspension_id": _as_it_is, "decision": _ruling, **_DECISION},
    raises=(StaleCall, InvalidDecision, NotPermitted, AlreadyVoted),
)
RESOLVE_CALL = Verb(
    "resolve",
    f"POST {_CONVERSATION}/resolve",
    "resolveCall",
    Receipt,
    "the decision",
    DECIDE,
    checks={
        **_ONE,
        "decision": _ruling,
        **_DECISION,
        "suspension_id": _optional(partial(of.id_of, "suspension_id")),
        "tool_call_id": partial(of.id_of, "tool_call_id"),
    },
    raises=RESOLVE.raises,
    command=lambda decision, **ids: Resolve(ruling=decision, **ids),
)
RESOLVE_EACH = Verb(
    "resolve_each",
    "POST /v1/pending/resolve-each",
    "resolveEach",
    list[Receipt | HoldfastError],
    "the decisions",
    DECIDE,
    checks={"decisions": pairs_of, **_DECISION},
    raises=(InvalidDecision,),
)
PENDING = Verb(
    "pending",
    "GET /v1/pending",
    "listPending",
    Page[AsyncPendingCall],
    "the pending calls",
    checks={**_AGENT, **_KIND, "approver": _optional(decider_of), **_PAGE},
)
PENDING_CALL = Verb(
    "pending_call",
    "GET /v1/pending/{suspension_id}",
    "getPending",
    AsyncPendingCall,
    "the pending call",
    checks={"suspension_id": _as_it_is, "conversation_id": _optional(check_conversation_id)},
    raises=(StaleCall, InvalidInput, InvalidConversationId),
)
CONVERSATIONS = Verb(
    "conversations",
    "GET /v1/conversations",
    "listConversations",
    Page[ConversationRow],
    "the conversations",
    checks={**_AGENT, "status": _member(Status, "status"), **_PAGE},
    read=_conversations,
)
GIVEN = Verb(
    "given",
    "GET /v1/given",
    "listGiven",
    Page[Given],
    "what was given",
    checks={"by": _optional(of.giver_of), **_PROOF, **_PAGE},
    read=given_page,
)
LIST_EVENTS = Verb(
    "events",
    "GET /v1/events",
    "followLists",
    AsyncListEvent,
    "the events",
    checks={"agent": of.agents_of, **_KIND, "after": _optional(_list_cursor)},
)
READY = Verb(
    "ready", "GET /ready", "ready", bool, "whether the server is ready", scope=None, raises=(ClusterUnavailable, ClusterStopped)
)
AGENTS = Verb("agents", "GET /v1/agents", "listAgents", list[AgentRow], "the agents", raises=(AppNotFound,))
CHECK_RULES = Verb(
    "check_rules",
    "POST /v1/rules/check",
    "checkRules",
    RuleCheck,
    "the check of the rules",
    checks={
        "agent": partial(named, "agent"),
        "tool": partial(named, "tool"),
        "arguments": arguments_of,
        "app": _optional(partial(named, "app")),
    },
    raises=(AppNotPublished, AgentNotFound, InvalidInput),
)
PAUSE = Verb("pause", "POST /v1/pause", "pause", Pause, "the pause", ADMIN, checks={"agent": of.pausable, **_REASON})
RESUME: Verb[Pause | None] = Verb(
    "resume",
    "POST /v1/resume",
    "resume",
    Pause,
    "the resumption",
    ADMIN,
    checks={"agent": of.pausable},
    read=lambda store, agent: store.resume(agent),
    under="resumed",
)
PAUSED = Verb("paused", "GET /v1/pause", "listPauses", list[Pause], "the pauses", read=_paused, raises=())
CLIENT = (
    STARTED,
    RESOLVE,
    RESOLVE_CALL,
    RESOLVE_EACH,
    PENDING,
    PENDING_CALL,
    CONVERSATIONS,
    GIVEN,
    LIST_EVENTS,
    READY,
    AGENTS,
    CHECK_RULES,
    PAUSE,
    RESUME,
    PAUSED,
)
"""The operations of a client."""

SEND = Verb(
    "send",
    f"POST {_CONVERSATION}/messages",
    "send",
    Receipt,
    "the message",
    START,
    checks={**_ONE, "message_id": partial(of.key_of, "message_id", InvalidMessage), "text": of.text_of},
    raises=(InvalidMessage, QueueFull),
    command=Send,
)
RESOLVE_MANY = Verb(
    "resolve_many",
    f"POST {_CONVERSATION}/resolve-many",
    "resolveMany",
    Receipts,
    "the decisions",
    DECIDE,
    checks={**_ONE, **_DECISION, "decisions": rulings_of},
    raises=(BatchRefused, InvalidDecision),
    command=many_of,
)
STATE = Verb(
    "wait",
    f"GET {_CONVERSATION}",
    "getConversation",
    ConversationState[Awaitable[Receipt]],
    "the state",
    checks={**_ONE, "after": _optional(of.place_of), "timeout_s": _optional(of.timeout_of)},
)
PENDING_OF = Verb("pending", STATE.route, STATE.operation, list[AsyncPendingCall], "the pending calls", checks=_ONE, raises=())
MESSAGES_PAGE = Verb(
    "messages_page",
    f"GET {_CONVERSATION}/messages",
    "listMessages",
    MessagePage,
    "the messages",
    checks={**_ONE, **_LOG_PAGE},
    read=message_page,
)
MESSAGE = Verb(
    "message",
    f"GET {_CONVERSATION}/messages/{{message_id}}",
    "getMessage",
    Message,
    "the message",
    checks={**_ONE, "message_id": partial(of.id_given, "message_id", InvalidMessage)},
    raises=(InvalidMessage, MessageNotFound),
    read=what_became,
)
TURNS_PAGE = Verb(
    "turns_page",
    f"GET {_CONVERSATION}/turns",
    "listTurns",
    Page[Turn],
    "the turns",
    checks={**_ONE, **_LOG_PAGE},
    read=turn_page,
)
TURN = Verb(
    "turn",
    f"GET {_CONVERSATION}/turns/{{turn_id}}",
    "getTurn",
    Turn,
    "the turn",
    checks={**_ONE, "turn_id": _as_it_is},
    raises=(TurnNotFound,),
    read=_turn,
)
EVENTS = Verb(
    "events",
    f"GET {_CONVERSATION}/events",
    "followConversation",
    Event,
    "the events",
    checks={**_ONE, "after": of.place_of, "live": bool},
)
LATEST = Verb("latest", EVENTS.route, EVENTS.operation, list[Event], "the events", checks={**_ONE, "limit": check_limit})
CANCEL = Verb(
    "cancel",
    f"POST {_CONVERSATION}/cancel",
    "cancel",
    Cancelled,
    "the cancellation",
    START,
    checks={**_ONE, **_REQUEST, "turn_id": of.turn_id_of, "wait_s": of.wait_of},
    raises=(InvalidInput, TurnNotFound),
    command=CancelTurn,
)
CANCEL_PENDING = Verb(
    "cancel_pending",
    f"POST {_CONVERSATION}/cancel-pending",
    "cancelPending",
    Cancelled,
    "the cancellation",
    START,
    also=(DECIDE,),
    checks={**_ONE, **_REQUEST, **_KIND, **_REASON},
    command=lambda kind, **said: CancelPending(suspension_kind=kind, **said),
)
GRANTS = Verb(
    "grants", f"GET {_CONVERSATION}/grants", "listGrants", list[Grant], "the grants", checks=_ONE, read=grants_of, raises=()
)
REVOKE = Verb(
    "revoke",
    f"DELETE {_CONVERSATION}/grants/{{grant_id}}",
    "revokeGrant",
    Receipt,
    "the revocation",
    DECIDE,
    checks={**_ONE, **_REQUEST, "grant_id": of.grant_id_of, **_REASON},
    command=Revoke,
)
REVOKE_GIVEN = Verb(
    "revoke_given",
    f"POST {_CONVERSATION}/revoke-given",
    "revokeGiven",
    Receipt,
    "the revocation",
    DECIDE,
    checks={**_ONE, **_REQUEST, "by": of.giver_of, **_PROOF, **_REASON},
    command=RevokeGiven,
)
AUDIT = Verb("audit", f"GET {_CONVERSATION}/audit", "audit", AuditReport, "the audit", checks={**_ONE, "receipts": _as_it_is})
AUDIT_LINES = Verb(
    "audit_lines", AUDIT.route, AUDIT.operation, dict[str, Any], "the audit", checks={**AUDIT.checks, "after": of.place_of}
)
ASSIGN = Verb(
    "assign",
    "POST /v1/pending/{suspension_id}/assign",
    "assign",
    Receipt,
    "the assignment",
    DECIDE,
    checks={**_ONE, **_REQUEST, **_NOTED, "to": _as_it_is},
    raises=(StaleCall, NotPermitted, InvalidInput),
    command=Assign,
)
COMMENT = Verb(
    "comment",
    "POST /v1/pending/{suspension_id}/comment",
    "comment",
    Receipt,
    "the comment",
    DECIDE,
    checks={**_ONE, **_REQUEST, **_NOTED, "text": comment_of},
    raises=(StaleCall, NotPermitted, InvalidInput),
    command=Comment,
)
RETRY = Verb(
    "retry",
    f"POST {_CONVERSATION}/retry",
    "retry",
    bool,
    "the retry",
    START,
    checks=_ONE,
    read=lambda store, conversation_id: store.retry(conversation_id),
    under="lifted",
    raises=(),
)
END = Verb("end", f"POST {_CONVERSATION}/end", "end", Receipt, "the end", START, checks={**_ONE, **_REQUEST}, command=End)
CONVERSATION = (
    SEND,
    RESOLVE_MANY,
    STATE,
    MESSAGES_PAGE,
    MESSAGE,
    TURNS_PAGE,
    TURN,
    EVENTS,
    CANCEL,
    CANCEL_PENDING,
    GRANTS,
    REVOKE,
    REVOKE_GIVEN,
    AUDIT,
    ASSIGN,
    COMMENT,
    RETRY,
    END,
)
"""The operations of a conversation."""
PARTS = (PENDING_OF, LATEST, AUDIT_LINES)
"""Operations of a conversation without a route: over HTTP each is made of another one."""
