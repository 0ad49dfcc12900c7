"""The client over HTTP: the methods of `AsyncClient`, with neither Ray nor Redis in the process."""

import uuid
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any, NoReturn

import httpx

from holdfast.conversation import Decision, Principal, Proof, Receipt, Status, SuspensionKind, jsontext
from holdfast.conversation.ids import check_conversation_id, check_request_id, conversation_id_from
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    InvalidDecision,
    InvalidMessage,
    StaleCall,
    StaleReason,
)
from holdfast.persistence import ConversationRow, Pause, Place

from . import http_replies as replies
from .agents import AgentRow
from .arguments import (
    agent_of,
    agents_of,
    attended_of,
    check_page,
    check_suspension,
    context_of,
    encodes,
    giver_of,
    member_of,
    pausable,
    principal_of,
    reason_of,
    text_of,
)
from .async_client import AsyncClient
from .audit import AuditReport
from .deciders import asked_for
from .given import Given
from .http_address import Address
from .http_conversation import HttpConversation
from .http_decisions import resolve_each, said
from .http_events import follow_lists
from .http_exchange import Exchange, key_or
from .http_paths import fits, part
from .list_events import AsyncListEvent
from .results import AsyncPendingCall, Page
from .rule_check import RuleCheck, arguments_of, named


class HttpClient(AsyncClient):
    """A client over HTTP; `AsyncClient` describes its methods, and `AsyncClient.connect` makes it where a `url` is given.

    A request whose answer is lost is sent again with its key, until the deadline of the call.
    """

    def __init__(self, address: Address, *, timeout_s: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.exchange = Exchange(address, timeout_s=timeout_s, transport=transport)

    def __repr__(self) -> str:
        return f"HttpClient({self.exchange.address.url!r})"

    def acting_as(self, principal: Principal) -> NoReturn:
        """Refused: the server knows the caller, and takes nobody's word.

        Raises:
            ConfigurationError: Always.
        """
        name = principal_of(principal).id
        problem = f"over HTTP nobody acts as {name!r:.60}: the server knows the caller by its token"
        raise ConfigurationError("principal", problem, "connect with a token of that principal's")

    @property
    def access(self) -> NoReturn:
        """Refused: keys are made and revoked where Redis is.

        Raises:
            ConfigurationError: Always.
        """
        problem = "keys are made and revoked where Redis is, and not over HTTP"
        raise ConfigurationError("url", problem, "connect there without a url, or use `holdfast keys`")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.exchange.aclose()

    async def start(
        self,
        agent: str,
        text: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        context: Any = None,
        attended: bool = True,
    ) -> HttpConversation:
        """Start a conversation with an agent of the server's app; see `AsyncClient.start`."""
        if conversation_id is not None:
            check_conversation_id(conversation_id)
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        message_id = message_id or (f"start:{conversation_id}" if conversation_id is not None else uuid.uuid4().hex)
        conversation_id = conversation_id or conversation_id_from(message_id)
        body = {
            "agent": agent_of(agent),
            "text": text_of(text),
            "conversation_id": conversation_id,
            "context": jsontext.loads(context_of(context)),
            **({} if attended_of(attended) else {"attended": False}),
        }
        receipt = await self.exchange.post("/v1/conversations", "the start", body, replies.receipt, key=message_id)
        return HttpConversation(self, conversation_id, receipt=receipt)

    def conversation(self, conversation_id: str) -> HttpConversation:
        """The conversation of that id; see `AsyncClient.conversation`."""
        return HttpConversation(self, check_conversation_id(conversation_id))

    async def resolve(
        self,
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call; see `AsyncClient.resolve`."""
        check_conversation_id(conversation_id)
        body = said(decision)
        if decision_id is not None:
            check_request_id("decision_id", decision_id, InvalidDecision)
        if suspension_id is not None and not isinstance(suspension_id, str):
            raise InvalidDecision("suspension_id", f"{suspension_id!r:.40} is not a string", "pass PendingCall.suspension_id")
        if not isinstance(tool_call_id, str):
            raise InvalidDecision("tool_call_id", f"{tool_call_id!r:.40} is not a string", "pass PendingCall.tool_call_id")
        if not (encodes(tool_call_id) and encodes(suspension_id or "")):
            raise StaleCall(conversation_id, ascii(tool_call_id), StaleReason.UNKNOWN)
        place = {"tool_call_id": tool_call_id} | ({} if suspension_id is None else {"suspension_id": suspension_id})
        path = f"/v1/conversations/{part(conversation_id)}/resolve"
        return await self.exchange.post(path, "the decision", body | place, replies.receipt, key=key_or(decision_id))

    async def resolve_each(
        self, decisions: Sequence[tuple[AsyncPendingCall, Decision]], *, decision_id: str | None = None
    ) -> list[Receipt | HoldfastError]:
        """Decide several pending calls, each by itself; see `AsyncClient.resolve_each`. Many go in several requests."""
        return await resolve_each(self.exchange, decisions, decision_id)

    async def pending(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | str | None = None,
        approver: Principal | None = None,
    ) -> Page[AsyncPendingCall]:
        """A page of the pending calls; see `AsyncClient.pending`."""
        of_agent, of_kind = agent_of(agent), member_of(SuspensionKind, "kind", kind)
        query = {"limit": limit, "after": after, "agent": of_agent, "kind": of_kind, **asked_for(approver)}
        check_page(limit, after)
        found = replies.page(await self.exchange.get("/v1/pending", "the pending calls", **query))
        return Page(items=[replies.pending_call(one, self.resolve) for one in found.items], next=found.next)

    async def pending_call(self, suspension_id: str, *, conversation_id: str | None = None) -> AsyncPendingCall:
        """The pending call of a suspension; see `AsyncClient.pending_call`."""
        check_suspension(suspension_id, conversation_id)
        if conversation_id is not None:
            check_conversation_id(conversation_id)
        if not fits(suspension_id):
            raise await self._unknown(suspension_id, conversation_id)
        path = f"/v1/pending/{part(suspension_id)}"
        reply = await self.exchange.get(path, "the pending call", conversation_id=conversation_id)
        return replies.pending_call(reply, self.resolve)

    async def settle(
        self,
        suspension_id: str,
        decision: Decision,
        *,
        conversation_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide what a suspension asks; see `AsyncClient.settle`."""
        if conversation_id is None:  # found first, so that the decision itself can be repeated
            call = await self.pending_call(suspension_id)
            return await call.resolve(decision, decision_id=decision_id)
        check_conversation_id(conversation_id)
        check_suspension(suspension_id, conversation_id)
        body = said(decision)
        if decision_id is not None:
            check_request_id("decision_id", decision_id, InvalidDecision)
        if not fits(suspension_id):
            raise await self._unknown(suspension_id, conversation_id)
        path = f"/v1/pending/{part(suspension_id)}/resolve"
        body["conversation_id"] = conversation_id
        return await self.exchange.post(path, "the decision", body, replies.receipt, key=key_or(decision_id))

    async def conversations(
        self,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ConversationRow]:
        """A page of all conversations; see `AsyncClient.conversations`."""
        of_agent, of_status = agent_of(agent), member_of(Status, "status", status)
        query = {"status": of_status, "agent": of_agent, "limit": limit, "after": after}
        check_page(limit, after)
        found = replies.page(await self.exchange.get("/v1/conversations", "the conversations", **query))
        return Page(items=[replies.row(one) for one in found.items], next=found.next)

    async def given(
        self,
        by: str | None = None,
        *,
        proof: Proof | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Given]:
        """A page of grants and votes that stand; see `AsyncClient.given`."""
        giver, proven = None if by is None else giver_of(by), member_of(Proof, "proof", proof)
        query = {"by": giver, "proof": proven, "limit": limit, "after": after}
        check_page(limit, after)
        found = replies.page(await self.exchange.get("/v1/given", "what was given", **query))
        return Page(items=[replies.given(one) for one in found.items], next=found.next)

    def audit(self, *, agent: str | None = None, status: Status | str | None = None) -> AsyncGenerator[AuditReport, None]:
        """The audits of all conversations; see `AsyncClient.audit`."""
        return super().audit(agent=agent, status=status)

    def events(
        self,
        *,
        after: str | None = None,
        agent: str | Collection[str] | None = None,
        kind: SuspensionKind | str | None = None,
    ) -> AsyncGenerator[AsyncListEvent, None]:
        """What changes in the lists; see `AsyncClient.events`. A stream that is cut goes on where it was."""
        of_agents, of_kind = agents_of(agent), member_of(SuspensionKind, "kind", kind)
        if after is not None:
            Place.of(after)
        return follow_lists(self.exchange, self.resolve, after=after, agents=of_agents, kind=of_kind)

    async def ready(self) -> None:
        """Return if the server can carry commands out; see `AsyncClient.ready`."""
        await self.exchange.get("/ready", "whether the server is ready")

    async def agents(self) -> list[AgentRow]:
        """The agents of the server's app; see `AsyncClient.agents`."""
        return [replies.agent(one) for one in replies.page(await self.exchange.get("/v1/agents", "the agents")).items]

    async def check_rules(self, agent: str, tool: str, arguments: Mapping[str, Any], *, app: str | None = None) -> RuleCheck:
        """What would become of a call under the rules that are published now; see `AsyncClient.check_rules`."""
        body = {"agent": named("agent", agent), "tool": named("tool", tool), "arguments": arguments_of(arguments)}
        body |= {} if app is None else {"app": named("app", app)}
        return await self.exchange.post("/v1/rules/check", "the check of the rules", body, replies.rule_check)

    async def pause(self, agent: str | None = None, reason: str = "") -> Pause:
        """Stop new work; see `AsyncClient.pause`."""
        body = {"agent": pausable(agent), "reason": reason_of(reason)}
        return await self.exchange.post("/v1/pause", "the pause", body, replies.pause)

    async def resume(self, agent: str | None = None) -> Pause | None:
        """Lift a pause; see `AsyncClient.resume`."""
        return await self.exchange.post("/v1/resume", "the resumption", {"agent": pausable(agent)}, replies.resumed)

    async def paused(self) -> list[Pause]:
        """The pauses that stand; see `AsyncClient.paused`."""
        return [replies.pause(one) for one in replies.page(await self.exchange.get("/v1/pause", "the pauses")).items]

    async def _unknown(self, suspension_id: str, conversation_id: str | None) -> Exception:
        """The error of a suspension whose id Holdfast never makes."""
        if conversation_id is not None:
            await self.conversation(conversation_id).state()  # which says whether there is a conversation at all
        return StaleCall(conversation_id or "", suspension_id, StaleReason.UNKNOWN)
