"""Everything that a page shows of one call: its form, its conversation's last messages, who asked, its runs."""

import asyncio
import contextlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.client import HoldfastError, PendingCall, Principal
from holdfast.client.agents import ToolRow
from holdfast.client.inbox.around import Around, around_of, delegated
from holdfast.client.inbox.choices import ANSWER, APPROVE, REDISPATCH
from holdfast.client.inbox.filled import Filled, blank
from holdfast.client.inbox.history import History, Settled, history_of
from holdfast.client.inbox.kinds import offered
from holdfast.client.inbox.row import approvers_of, parameters_of
from holdfast.conversation.terms.approvers import is_same
from holdfast.errors import StaleCall

from .visit import Visit

_VOTES = frozenset({APPROVE.name, ANSWER.name, REDISPATCH.name})
"""Votes for a call: nobody votes twice."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A pending call, with its form.

    Attributes:
        tool: Its tool, as the app declares it; None if the app no longer has it.
        asked_by: The sender of the message that led to it; None if not known.
        decision_id: The idempotency key of the decision that the form makes.
        siblings: The other pending calls of the same model answer.
        agreed: Whether the viewer has agreed already; then others must agree, or it is decided otherwise.
        task: What its conversation was asked, if another one has delegated to it; empty if not, or if it cannot be read.
        above: What was said last in each conversation above its own that the viewer may see, by the conversation's id.
    """

    call: PendingCall[Any]
    tool: ToolRow | None
    filled: Filled
    around: Around
    asked_by: Principal | None
    decision_id: str
    siblings: Sequence[PendingCall[Any]] = ()
    agreed: bool = False
    task: str = ""
    above: Mapping[str, str] = field(default_factory=dict)

    @property
    def offered(self) -> Collection[str]:
        """The names of the decisions that are offered, and `edit`."""
        return offered(self.call) - (_VOTES if self.agreed else frozenset())

    @property
    def approvers(self) -> str:
        """Who may decide it, in a line; empty if there is no restriction."""
        return approvers_of(self.call)

    def refused(self, principal: Principal) -> str:
        """Why this principal may not decide it; empty if it may."""
        terms = self.call.approvers
        return "" if terms is None else terms.problem(principal, self.call.requester) or ""

    def outsider(self, principal: Principal) -> bool:
        """Whether this principal is not among its approvers. The requester is among them, even if barred from its own calls."""
        return self.call.approvers is not None and self.call.approvers.outsider(principal) is not None


async def detail_of(visit: Visit, call: PendingCall[Any], *, edited: bool = False, filled: Filled | None = None) -> Detail:
    """Everything that is shown of a call."""
    tool, around = await asyncio.gather(tool_of(visit, call), around_of(visit.client.conversation(call.conversation_id)))
    form = blank(call, parameters_of(tool), edited=edited) if filled is None else filled
    agreed = any(is_same(vote.by.id, visit.caller.principal.id) for vote in call.votes)
    if agreed:
        form = replace(form, answer=None)
    asked_by = around.history.senders.get(call.tool_call_id)
    key = visit.form.get("decision_id") or uuid.uuid4().hex
    pending = () if around.state is None or not call.batch_id else around.state.pending
    siblings = [one for one in pending if one.batch_id == call.batch_id and one.suspension_id != call.suspension_id]
    task, above = await delegated(visit.client, call, visit.caller.touches)
    return Detail(call, tool, form, around, asked_by, key, siblings, agreed, task, above)


async def tool_of(visit: Visit, call: PendingCall[Any]) -> ToolRow | None:
    """The tool of a call, as this server's app declares it."""
    tools = [tool for agent in await visit.agents() if agent.name == call.agent for tool in agent.tools]
    return next((tool for tool in tools if tool.name == call.tool), None)


async def settled_of(visit: Visit, stale: StaleCall, conversation_id: str, suspension_id: str) -> Settled:
    """How a call that is no longer pending was settled."""
    history, name = History(), stale.conversation_id or conversation_id
    if name:
        with contextlib.suppress(HoldfastError):  # then the history is not known
            history = await history_of(visit.client.conversation(name))
    found = history.settled.get(suspension_id)
    if found is None or found.event is None:
        return Settled(suspension_id, name, stale.settled_by, stale.settled_at)
    mine = found.event.decision_id is not None and found.event.decision_id == visit.form.get("decision_id")
    return replace(found, mine=mine, scope=history.given.get(found.seq))
