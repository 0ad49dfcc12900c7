"""The client: it starts conversations, decides and lists pending calls, and pauses work. `Client` is its blocking face."""

import copy
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.conversation import Decision, Principal, Proof, Receipt, Status, SuspensionKind
from holdfast.conversation.ids import check_conversation_id, conversation_id_from
from holdfast.conversation.log.chain import AuditBreak
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import GivenContent
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ConversationNotFound,
    HoldfastError,
    InvalidConversationId,
    InvalidMessage,
)
from holdfast.persistence import ConversationRow
from holdfast.settings import Settings

from . import verbs
from .agents import AgentRow
from .audit import AuditReport
from .connecting import gateway_of
from .conversation import AsyncConversation, resolved
from .gateway import asked
from .given import Given
from .list_events import AsyncListEvent
from .operating import Operating
from .operation import check_suspension, key_of, stated_of
from .results import AsyncPendingCall, Link, Page, PendingCall, exactly
from .rule_check import RuleCheck
from .stack_gateway import at_stack
from .usage import UsageBy, UsageReport

if TYPE_CHECKING:
    from holdfast.agent import App

    from .access import Access


class AsyncClient(Operating):
    """A client of the conversations in one namespace of one store. Make it with `connect`; it does no I/O until used.

    A client belongs to one event loop; make another client for another loop. `holdfast.client` lists what every read and every
    command raises; a method lists only its special errors. In every list, `after` is the `next` of the page before.
    """

    @classmethod
    def connect(
        cls,
        app: "App | str | None" = None,
        *,
        url: str | None = None,
        token: str | None = None,
        plain_http: bool | None = None,
        redis_url: str | None = None,
        ray_address: str | None = None,
        namespace: str | None = None,
        embedded: bool | None = None,
        timeout_s: float = 30,
        home: str | Path | None = None,
        publish: bool | None = None,
    ) -> Self:
        """A client; nothing is connected yet, so it is safe before a fork.

        After a fork, the child may read with a client that the parent has used. Its commands raise `ConfigurationError`: Ray
        does not work in a forked process once the parent has joined it.

        Args:
            app: The `App` or its import path (`package.module:app`); only `start` needs it.
            url: The server (`holdfast serve`) to go through; then neither Redis nor Ray is needed here, and all other settings
                but `timeout_s` are the server's own.
            token: The token that the server knows the caller by. It is sent to that server alone.
            plain_http: Whether the token may be sent unencrypted to another machine.
            redis_url: The Redis that stores the conversations; without it, the embedded server of the home.
            ray_address: The Ray on which the actors run; without it, the embedded Ray of the home.
            namespace: The part of the store that holds the client's conversations (`[a-z0-9][a-z0-9_-]{0,62}`).
            embedded: Whether the embedded default may be used; False in production.
            timeout_s: The deadline of each call. It covers opening the store, joining Ray and loading the app; the first call
                on the embedded default may take 60 s longer, to start it, unless `timeout_s` is less than the default.
                A start that outlasts its call continues, and the next call finds its result.
            home: The home of the embedded stack.
            publish: Whether to publish the app, so that all its conversations now run with its code and its variables' values
                here. None publishes on the embedded stack, but not to a configured Redis; a client that does not publish warns
                with `AppDiffersWarning` if the published app differs from its own.

        Raises:
            InvalidInput: `app` is no app, or `timeout_s` is no time.
            ConfigurationError: A setting has the wrong type or contradicts another; the URL is not a server's, or the token
                would be sent unencrypted.
        """
        settings = Settings.of(
            url=url,
            token=token,
            plain_http=plain_http,
            redis_url=redis_url,
            ray_address=ray_address,
            namespace=namespace,
            embedded=embedded,
            home=home,
            publish=publish,
        )
        return cls(gateway_of(settings, app, timeout_s=timeout_s))

    def acting_as(self, principal: Principal) -> Self:
        """The same client; its starts, messages, decisions, cancellations and ends are this principal's.

        The log records the principal as this program states it: only a server proves who its callers are. Both clients share
        their connections: closing one closes both.

        Raises:
            InvalidInput: `principal` is no `Principal`, has a proof, or has characters in its names that do not show.
            ConfigurationError: The client is over HTTP, where the server knows the caller.
        """
        client = copy.copy(self)
        client.gateway = self.gateway.acting_as(stated_of(principal))
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. The embedded stack keeps running, with all conversations."""
        await self.gateway.aclose()

    @property
    def access(self) -> "Access":
        """The API keys of the namespace, for `holdfast keys` and the server. They are stored in Redis only.

        Raises:
            ConfigurationError: The client is over HTTP.
        """
        return self.gateway.access

    async def start(
        self,
        agent: str,
        text: GivenContent,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        context: Any = None,
        attended: bool = True,
        overrides: Overrides | Mapping[str, Any] | None = None,
    ) -> AsyncConversation:
        """Start a conversation with an agent of the app; returns once the start is durable.

        Args:
            agent: The agent's name.
            text: The user's first message: a text, or a list of parts as `AsyncConversation.send` takes it.
            conversation_id: The conversation's id; by default derived from `message_id`, so that one id is enough to retry.
            message_id: The idempotency key of the first message, 1 to 200 printable ASCII characters without spaces; by default
                derived from `conversation_id`, else random.
            context: Any JSON value, given to tools as `ToolContext.context`; the model does not see it.
            attended: Whether a person can be asked. If not, the agent's `unattended` says what is done instead.
            overrides: What the model calls of the first turn have in place of what the agent says, as `AsyncConversation.send`
                takes it.

        Returns:
            The conversation, with the start's receipt as `receipt`.

        Raises:
            AgentNotFound: The app, or its published version, has no such agent.
            AppNotFound: The app's path leads to no app, or its module was not imported in time.
            AppNotPublished: The app was never published, and this client does not publish it.
            ConversationExists: The id was started with something else.
            InvalidConversationId: The id is empty, too long or ill-formed.
            InvalidMessage: The text, the message id, the context or the overrides cannot be used, or the agent does not allow
                these.
        """
        if conversation_id is not None:
            check_conversation_id(conversation_id)
            message_id = f"start:{conversation_id}" if message_id is None else message_id
        message_id = key_of("message_id", InvalidMessage, message_id)
        conversation_id = conversation_id or conversation_id_from(message_id)
        ids = {"conversation_id": conversation_id, "message_id": message_id}
        said = {"agent": agent, "text": text, "context": context, "attended": attended, "overrides": overrides}
        receipt = await asked(self.gateway, verbs.STARTED, **ids, **said)
        return AsyncConversation(self.gateway, conversation_id, receipt=receipt)

    def conversation(self, conversation_id: str) -> AsyncConversation:
        """The conversation of that id; its first use shows whether it exists.

        Raises:
            InvalidConversationId: The id is empty, too long or ill-formed.
        """
        return AsyncConversation(self.gateway, check_conversation_id(conversation_id))

    async def resolve(
        self,
        call: PendingCall[Any] | str,
        decision: Decision,
        *,
        conversation_id: str | None = None,
        decision_id: str | None = None,
        client_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call; returns once the decision is durable, before the next turn is scheduled.

        If several people must agree (`PendingCall.approvers`), an approval is a vote: `Receipt.settled`, `.votes`, `.needed`.

        Args:
            call: The pending call as it was shown, or the whole id of its suspension (`PendingCall.suspension_id`).
            decision: What `PendingCall.decisions` says: `Approve`, `Deny`, `Answer`, `Fail`, `Redispatch`, `Review`, `Cancel`.
            conversation_id: The conversation of a suspension that is named by its id. Without it, a suspension is found only
                while it is open, so repeating a recorded decision raises `StaleCall`.
            decision_id: The idempotency key; the same key again returns the same receipt. None draws a random key.
            client_id: The client that has claimed the call, if it is that client's result. Nobody else's result is taken then.

        Raises:
            StaleCall: The call does not wait for this decision; `reason` says why, as far as that is known.
            InvalidDecision: The decision does not fit; the call still waits.
            NotPermitted: The client's principal may not decide the call; `why` says what is missing. Nothing was changed.
            AlreadyVoted: The same person has already agreed to the call, and others have to. Nothing was changed.
        """
        if isinstance(call, str) and conversation_id is None:
            call = exactly(await self.pending_call(call), call)
        ids = {"conversation_id": conversation_id, "decision_id": decision_id, "client_id": client_id}
        return await resolved(self.gateway, call, decision, **ids)

    async def resolve_each(
        self, decisions: Sequence[tuple[PendingCall[Any], Decision]], *, decision_id: str | None = None
    ) -> list[Receipt | HoldfastError]:
        """Decide several pending calls of any conversations, each by itself.

        Args:
            decisions: Pairs of a pending call and its decision, at most 1,000; 16 are under way at once. Over HTTP, a long list
                goes in several requests.
            decision_id: The idempotency key of all; the same key again returns the same receipts. None draws a random key.

        Returns:
            For each pair, in the order given: its receipt, or the error (as of `resolve`) that says why it was not decided.

        Raises:
            InvalidDecision: An item is no pair of a call and a decision, or the id is ill-formed; nothing was decided.
        """
        return await asked(self.gateway, verbs.RESOLVE_EACH, decisions=decisions, decision_id=decision_id)

    async def link(
        self,
        call: PendingCall[Any] | str,
        *,
        to: Principal,
        decisions: Collection[str] | None = None,
        expires_s: float = 86_400,
        conversation_id: str | None = None,
    ) -> Link:
        """A link by which one principal decides one pending call, without signing in: for a message to that person.

        The page under its `url` shows the call, and decides it once, as that principal with the proof `link`. Whether it may
        decide is judged again then. A link edits no arguments and gives no grants. Nothing is stored, and each call of this
        method makes another link. Over HTTP it takes the scopes `decide` and `admin`: it speaks for whomever it names.

        Args:
            call: The pending call as it was shown, or the whole id of its suspension.
            to: Who decides, with the roles that count. Whoever has the link acts as this principal.
            decisions: The kinds of decision that it makes; by default those that the call takes but `cancel` and `fail`.
            expires_s: For how many seconds it is valid, up to 90 days.
            conversation_id: The conversation of a suspension that is named by its id.

        Raises:
            StaleCall: The call does not wait any more.
            InvalidLink: The principal may not decide the call.
            InvalidInput: The principal's names are too long for a link, or the call takes no such decision.
            ConfigurationError: No key signs links (`HOLDFAST_LINK_KEYS`).
        """
        if isinstance(call, str) and conversation_id is None:
            call = exactly(await self.pending_call(call), call)
        found = (call.suspension_id, call.conversation_id) if isinstance(call, PendingCall) else (call, conversation_id)
        check_suspension(*found)
        ids = dict(zip(("suspension_id", "conversation_id"), found, strict=True))
        return await asked(self.gateway, verbs.LINK, **ids, to=to, decisions=decisions, expires_s=expires_s)

    async def redeem(self, token: str, decision: Decision) -> Receipt:
        """Decide the call of a link as the link's principal; the same decision again has the same receipt.

        At the stack itself, this process needs the keys of links. Over HTTP the server has them, and asks for the link alone.

        Args:
            token: `Link.token`.
            decision: One of the kinds that the link makes, without edited arguments and without a scope.

        Raises:
            InvalidLink: The link decides nothing, or not this; `reason` says why.
            InvalidDecision: The decision does not fit the call, or has edited arguments or a scope. The call still waits.
            AlreadyVoted: This person has already agreed to the call, and others have to.
            ConfigurationError: This process has no keys of links (`HOLDFAST_LINK_KEYS`).
        """
        return await asked(self.gateway, verbs.REDEEM, token=token, decision=decision)

    async def pending(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | str | None = None,
        tool: str | None = None,
        approver: Principal | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
        root: str | None = None,
    ) -> Page[AsyncPendingCall]:
        """A page of the pending calls of all conversations, oldest first. A call that cannot be read says so in its `problem`.

        A list leaves long values out (`PendingCall.cut`); `pending_call` shows one call whole.

        Args:
            limit: The most calls on the page, 1 to 1000. A page whose calls fill 8 MiB of logs is shorter, with a `next`.
            after: The `next` of the page before.
            agent: Only calls of this agent's conversations.
            kind: Only calls that wait for this kind of decision.
            tool: Only calls of this tool.
            approver: Only calls that this principal may decide, with its id and roles taken as proven.
            older_than_s: Only calls that have waited for so many seconds.
            expires_within_s: Only calls whose deadline is at most so many seconds away; the next to expire come first.
            root: Only calls of this conversation and of those below it, which it has delegated to. They are looked for in each
                of them, 1,000 at most; `ConversationNotFound` if the conversation was never started.

        With several filters a page may be shorter than `limit`, or empty, although its `next` says that more follow.
        """
        where = {"agent": agent, "kind": kind, "tool": tool, "approver": approver, "root": root}
        spans = {"older_than_s": older_than_s, "expires_within_s": expires_within_s}
        return await asked(self.gateway, verbs.PENDING, limit=limit, after=after, **where, **spans)

    async def pending_call(self, suspension_id: str, *, conversation_id: str | None = None) -> AsyncPendingCall:
        """The pending call of a suspension, whole.

        Args:
            suspension_id: The id, from `PendingCall.suspension_id`, or the beginning of it: six characters or more.
            conversation_id: The conversation. Without it, the settlement of a closed suspension cannot be told, and with it the
                id must be whole.

        Raises:
            StaleCall: The suspension is not open; `reason` says why, as far as that is known.
            InvalidInput: The id is no text, or several begin so; or the namespace's indexes are of an older release, which
                `holdfast reindex` changes.
            InvalidConversationId: The conversation's id is empty, too long or ill-formed.
        """
        check_suspension(suspension_id, conversation_id)
        ids = {"suspension_id": suspension_id, "conversation_id": conversation_id}
        return await asked(self.gateway, verbs.PENDING_CALL, **ids)

    async def conversations(
        self,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        stopped: bool | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ConversationRow]:
        """A page of all conversations, oldest first. A conversation that cannot be read says so in its `problem`.

        `status` and `agent` select conversations, `stopped` those whose last turn was stopped, or its reply cut off; `limit` is
        1 to 1000.
        """
        where: dict[str, Any] = {"agent": agent, "status": status, "stopped": stopped, "after": after, "limit": limit}
        return await asked(self.gateway, verbs.CONVERSATIONS, **where)

    async def usage(
        self,
        by: UsageBy | str = UsageBy.MODEL,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> UsageReport:
        """What the models' answers used in a page of conversations, by model, tool or agent.

        `status` and `agent` select conversations. Each log is read whole, so the sum of all takes as many pages as they need: a
        page ends after `limit` conversations (1 to 1000), or once it has read 50,000 events. A conversation that cannot be read
        is named in `unreadable`. What a delegated conversation used is counted there, and not in the one above it.
        """
        return await asked(self.gateway, verbs.USAGE, agent=agent, status=status, by=by, after=after, limit=limit)

    async def given(
        self, by: str | None = None, *, proof: Proof | str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Given]:
        """A page of conversations with what people have given there and what still stands: grants, and votes on waiting calls.

        Conversations in which `by` has given nothing are left out: a page may be shorter than its limit, or empty, though it
        has a `next`. A conversation that cannot be read says so in its `problem`.

        Args:
            by: Only what this principal has given, by its id, in any spelling.
            proof: Only what was given by somebody proven in this way.
            limit: How many conversations the page looks at, 1 to 1000.
            after: The `next` of the page before.
        """
        return await asked(self.gateway, verbs.GIVEN, by=by, proof=proof, limit=limit, after=after)

    async def audit(self, *, agent: str | None = None, status: Status | str | None = None) -> AsyncGenerator[AuditReport, None]:
        """The audits of all conversations (of this agent and status), oldest first; see `AsyncConversation.audit`.

        An unreadable conversation has a report without entries that is not intact, and hides no other.
        """
        after: str | None = None
        while True:
            page = await self.conversations(agent=agent, status=status, after=after, limit=100)
            for row in page.items:
                try:
                    yield await self.conversation(row.conversation_id).audit()
                except (ConversationNotFound, CipherMissing, CipherFailed, InvalidConversationId) as error:
                    yield AuditReport(row.conversation_id, [], "", [AuditBreak(None, str(error)[:300])])
            if page.next is None:
                return
            after = page.next

    def events(
        self, *, after: str | None = None, agent: str | Collection[str] | None = None, kind: SuspensionKind | str | None = None
    ) -> AsyncGenerator[AsyncListEvent, None]:
        """The changes of the lists over all conversations, as they happen: calls that wait, votes and notes, new statuses.

        To keep a list, begin without `after`, read the list at the first event (`following`), and apply what follows. The store
        keeps some thousands of the latest changes: a client that was away for longer is told `missed`, and reads the list anew.
        If the clock of Redis was set back by some seconds, a client that resumes then may miss that many seconds of changes.

        Args:
            after: The cursor of the last event that was received; the events after it follow.
            agent: Only conversations with this agent, or with one of these.
            kind: Only calls that wait, or waited, for this kind of decision; then no `status` is told.
        """
        arguments = verbs.LIST_EVENTS.checked({"after": after, "agent": agent, "kind": kind})
        return self.gateway.stream(verbs.LIST_EVENTS, arguments)

    async def ready(self) -> None:
        """Return if commands can be carried out: Redis answers, and a cluster with a living sweeper serves the store.

        Raises:
            ClusterUnavailable: No cluster serves the store, its sweeper has been silent for too long, or the cluster that this
                client had joined does not answer.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
        """
        await asked(self.gateway, verbs.READY)

    async def agents(self) -> list[AgentRow]:
        """The agents of the client's app, or of the server's, which `start` takes, with their tools.

        Raises:
            AppNotFound: The app's path leads to no app, or its module was not imported in time.
        """
        return await asked(self.gateway, verbs.AGENTS)

    async def check_rules(self, agent: str, tool: str, arguments: Mapping[str, Any], *, app: str | None = None) -> RuleCheck:
        """What would become of a call under the permission rules that are published now, and by which rule.

        Nothing is proposed or run. It needs Redis alone: neither the app's code nor Ray. A tool's approval function is not
        called: where that function decides, the effect is `ask`, and the reason says so. `app` is the import path of the
        published app; None: the client's own.

        Raises:
            AppNotPublished: The app is not published.
            AgentNotFound: The published app has no such agent.
            InvalidInput: The agent has no such tool, or the arguments are no JSON object.
        """
        return await asked(self.gateway, verbs.CHECK_RULES, agent=agent, tool=tool, arguments=arguments, app=app)


def acting_for(client: AsyncClient, principal: Principal) -> AsyncClient:
    """The same client, acting as a principal whom this process has verified, as only a server does.

    Its commands are signed, so that the principal's proof counts.
    """
    return AsyncClient(at_stack(client.gateway).acting_as(principal, proves=True))
