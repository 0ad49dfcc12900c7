"""Everything that a page shows of one call: its form, its conversation's last messages, who asked, its runs."""

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.client import AsyncConversation, ConversationState, Grant, HoldfastError, PendingCall, Principal, Scope
from holdfast.client.agents import ToolRow
from holdfast.conversation.terms.approvers import is_same, said
from holdfast.errors import StaleCall, StaleReason
from holdfast.redaction import PLAIN

from .choices import ANSWER, APPROVE, REDISPATCH, settled_as, words_of
from .filled import Filled, blank
from .history import History, history_of, messages_of
from .kinds import Kind, effect_of, kind_of, offered
from .visit import Visit

LAST_MESSAGES = 8
"""How many messages of the conversation stand beside a call; the conversation's page has all of them."""
_VOTES = frozenset({APPROVE.name, ANSWER.name, REDISPATCH.name})
"""Votes for a call: nobody votes twice."""


@dataclass(frozen=True, slots=True)
class Around:
    """The context of a conversation's calls; empty if it cannot be read, and `problem` says why."""

    state: ConversationState[Any] | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    history: History = field(default_factory=History)
    grants: Sequence[Grant] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """A pending call, with its form.

    Attributes:
        call: The call.
        kind: Its kind.
        tool: Its tool, as the app declares it; None if the app no longer has it.
        filled: Its form.
        around: Its context.
        asked_by: The sender of the message that led to it; None if not known.
        decision_id: The idempotency key of the decision that the form makes.
        request_id: The idempotency key of a note.
        siblings: The other pending calls of the same model answer.
        agreed: Whether the viewer has agreed already; then others must agree, or it is decided otherwise.
    """

    call: PendingCall[Any]
    kind: Kind
    tool: ToolRow | None
    filled: Filled
    around: Around
    asked_by: Principal | None
    decision_id: str
    siblings: Sequence[PendingCall[Any]] = ()
    agreed: bool = False
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def offered(self) -> Collection[str]:
        """The names of the decisions that are offered, and `edit`."""
        return offered(self.call) - (_VOTES if self.agreed else frozenset())

    @property
    def effect(self) -> str:
        """The effect of the decisions that are offered."""
        return effect_of(self.call)

    @property
    def approvers(self) -> str:
        """Who may decide it, in a line; empty if there is no restriction."""
        terms = self.call.approvers
        return "" if terms is None else said(terms.who, terms.minimum, not_requester=terms.not_requester)

    def refused(self, principal: Principal) -> str:
        """Why this principal may not decide it; empty if it may."""
        terms = self.call.approvers
        return "" if terms is None else terms.problem(principal, self.call.requester) or ""

    def outsider(self, principal: Principal) -> bool:
        """Whether this principal is not among its approvers. The requester is among them, even if barred from its own calls."""
        return self.call.approvers is not None and self.call.approvers.outsider(principal) is not None

    @property
    def runs(self) -> Sequence[int]:
        """When its runs were scheduled, in integer milliseconds UTC."""
        return self.around.history.runs.get(self.call.tool_call_id, ())


@dataclass(frozen=True, slots=True)
class Settled:
    """A call that is no longer pending: what settled it, as far as known.

    Attributes:
        suspension_id: The suspension.
        conversation_id: The conversation; empty if it was not named.
        reason: Why it is not pending.
        by: The name of a decision, `expiry` or `cancellation`; None if unknown.
        at: When, in integer milliseconds UTC.
        principal: Who decided; None if nobody did, or it is not recorded.
        mine: Whether the viewer's own decision, just sent, settled it.
        said: The content of the decision: a reason, an error, an answer, a verdict with notes; None if empty.
        why: The reason for the log, if there is one.
        scope: The scope of the grant that the decision gave; None without a grant.
        tool: The tool; empty if not known.
    """

    suspension_id: str
    conversation_id: str = ""
    reason: StaleReason = StaleReason.UNKNOWN
    by: str | None = None
    at: int | None = None
    principal: Principal | None = None
    mine: bool = False
    said: Any = None
    tool: str = ""
    why: str = ""
    scope: Scope | Grant | None = None

    @property
    def done(self) -> str:
        """How it was settled, as text for people."""
        return settled_as(self.by, self.said)

    @property
    def words(self) -> Any:
        """The further content of the decision."""
        return words_of(self.by, self.said)


async def detail_of(visit: Visit, call: PendingCall[Any], *, edited: bool = False, filled: Filled | None = None) -> Detail:
    """Everything that is shown of a call."""
    tool, around = await asyncio.gather(tool_of(visit, call), around_of(visit.client.conversation(call.conversation_id)))
    form = blank(call, parameters_of(tool), edited=edited) if filled is None else filled
    agreed = any(is_same(vote.by.id, visit.caller.principal.id) for vote in call.votes)
    if agreed:
        form = replace(form, answer=None)
    asked_by = around.history.sender_of(call.tool_call_id)
    key = visit.form.get("decision_id") or uuid.uuid4().hex
    return Detail(call, kind_of(call), tool, form, around, asked_by, key, _siblings(call, around), agreed)


def _siblings(call: PendingCall[Any], around: Around) -> list[PendingCall[Any]]:
    if around.state is None or not call.batch_id:
        return []
    return [one for one in around.state.pending if one.batch_id == call.batch_id and one.suspension_id != call.suspension_id]


async def around_of(conversation: AsyncConversation, *, messages: int = LAST_MESSAGES) -> Around:
    """The context of a conversation's calls, with its last messages."""
    try:
        state = await conversation.state()
        history, grants = await asyncio.gather(history_of(conversation), conversation.grants())
    except HoldfastError as error:  # the call itself is shown nevertheless
        return Around(problem=PLAIN.redacted(str(error)))
    return Around(state, messages_of(history)[-messages:], history, grants)


async def _history(conversation: AsyncConversation) -> History:
    """The history from the latest events; empty if they cannot be read."""
    try:
        return await history_of(conversation)
    except HoldfastError:
        return History()


async def tool_of(visit: Visit, call: PendingCall[Any]) -> ToolRow | None:
    """The tool of a call, as this server's app declares it."""
    try:
        agents = await visit.client.agents()
    except HoldfastError:
        return None
    tools = [tool for agent in agents if agent.name == call.agent for tool in agent.tools]
    return next((tool for tool in tools if tool.name == call.tool), None)


def parameters_of(tool: ToolRow | None) -> Any:
    """The schema of a tool's arguments; True, which accepts anything, if not known."""
    return True if tool is None else tool.parameters


async def settled_of(visit: Visit, stale: StaleCall, conversation_id: str, suspension_id: str) -> Settled:
    """How a call that is no longer pending was settled."""
    history, name = History(), stale.conversation_id or conversation_id
    if name:
        history = await _history(visit.client.conversation(name))
    settlement = history.settlement_of(suspension_id)
    if settlement is None:
        return Settled(suspension_id, name, stale.reason, stale.settled_by, stale.settled_at)
    end = settlement.settled
    given = visit.form.get("decision_id")
    tool = "" if settlement.opened is None else settlement.opened.tool
    return Settled(
        suspension_id,
        name,
        stale.reason,
        end.by.value,
        end.at,
        end.principal,
        bool(given) and end.decision_id == given,
        settlement.said,
        tool,
        end.reason,
        history.given.get(settlement.seq),
    )
