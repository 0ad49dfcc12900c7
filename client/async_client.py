"""The client: it starts conversations, decides and lists pending calls, and pauses work. `Client` is its blocking face."""

import asyncio
import copy
import uuid
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from holdfast.conversation import (
    Decision,
    Principal,
    Proof,
    Receipt,
    Start,
    State,
    Status,
    SuspensionKind,
    decide,
)
from holdfast.conversation.chain import AuditBreak
from holdfast.conversation.ids import check_conversation_id, check_request_id, conversation_id_from
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ClusterStopped,
    ClusterUnavailable,
    ConfigurationError,
    ConversationNotFound,
    HoldfastError,
    InvalidConversationId,
    InvalidInput,
    InvalidMessage,
)
from holdfast.persistence import EVERYWHERE, PAUSE_LAG_MS, ConversationRow, Listing, Pause, Place
from holdfast.settings import Settings

from .agents import AgentRow
from .arguments import (
    agent_of,
    agents_of,
    attended_of,
    check_suspension,
    context_of,
    giver_of,
    is_app,
    is_time,
    member_of,
    pausable,
    reason_of,
    stated_of,
    text_of,
    this_user,
)
from .audit import AuditReport
from .batches import pairs_of, resolve_each
from .connection import Connection
from .conversation import Conversation
from .deciders import MOST_PAGES, decider_of, decides
from .given import Given, given_page
from .large import judged
from .list_events import AsyncListEvent
from .list_feed import list_events
from .results import AsyncPendingCall, Page, PendingCall
from .rule_check import RuleCheck, arguments_of, checked, named
from .stack import Stack

if TYPE_CHECKING:
    from holdfast.agent import App

    from .access import Access

LAPSED_MS = PAUSE_LAG_MS + 100
"""After what time no worker acts on a view from before a pause any more, and the work that such a view allowed has begun."""

SILENT_MS = 15_000
"""How long a cluster may leave its binding to the store as it is; its sweeper renews it every moment."""


class AsyncClient:
    """A client of the conversations in one namespace of one store. Make it with `connect`; it does no I/O until used.

    A client belongs to one event loop; make another client for another loop.
    """

    def __init__(self, stack: Stack, *, timeout_s: float) -> None:
        self._stack = stack
        self._connection = Connection(stack, timeout_s=timeout_s)

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

        A process that is forked from one that has used the client may read with it. Its commands raise
        `ConfigurationError`, since Ray does not work in a forked process once the parent has joined it.

        Args:
            app: The `App` or its import path (`package.module:app`); only `start` needs it.
            url: The server (`holdfast serve`) over which conversations are reached; then neither Redis nor Ray is needed here,
                and all else but `timeout_s` is the server's own.
            token: What the server knows the caller by. It is sent to that server alone.
            plain_http: Whether the token may be sent unencrypted to another machine.
            redis_url: The Redis that stores the conversations; without it, the embedded server of the home.
            ray_address: The Ray on which the actors run; without it, the embedded Ray of the home.
            namespace: The part of the store that holds the client's conversations (`[a-z0-9][a-z0-9_-]{0,62}`).
            embedded: Whether the embedded default may be used; False in production.
            timeout_s: The deadline of each call. It covers opening the store, joining Ray and loading the app; the first call
                on the embedded default may take 60 s longer, to start it, unless `timeout_s` is less than the default.
                A start that outlasts its call goes on, and the next call finds its result.
            home: The home of the embedded stack.
            publish: Whether to publish the app, so that all its conversations run with it as it is here from now on, with the
                values that its variables have here. None publishes on the embedded stack and not where a Redis is configured;
                a client that does not publish warns with `AppDiffersWarning` if the published app differs from its own.

        Raises:
            InvalidInput: `app` is no app, or `timeout_s` is no time.
            ConfigurationError: A setting has the wrong type, or does not go with another; the URL is none of a server, or the
                token would be sent unencrypted.
        """
        if app is not None and not isinstance(app, str) and not is_app(app):
            raise InvalidInput("app", f"{type(app).__name__} is no app", "give an App or its import path")
        if not is_time(timeout_s) or timeout_s <= 0:
            raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, more than 0")
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
        if settings.url is not None:
            if app is not None:
                raise ConfigurationError("app", "it does not go with the url of a server, which has its own", "leave it out")
            return cast("Self", over_http(settings, timeout_s=timeout_s))
        return cls(Stack(settings, app), timeout_s=timeout_s)

    def acting_as(self, principal: Principal) -> Self:
        """The same client, whose starts, messages, decisions, cancellations and ends are this principal's.

        The log keeps who it was, as this program states it: only a server proves who its callers are. Both clients share their
        connections: to close one closes both.

        Raises:
            InvalidInput: `principal` is no `Principal`, has a proof, or its names do not show whole.
        """
        acting = copy.copy(self)
        acting._connection = self._connection.acting_as(stated_of(principal))  # noqa: SLF001 - this class's own
        return acting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. The embedded stack and all conversations go on."""
        await self._connection.feed.close()
        await self._stack.close()

    @property
    def access(self) -> "Access":
        """The API keys of the namespace, which `holdfast keys` and the server use; they stand in Redis alone."""
        from .access import Access  # noqa: PLC0415 - `holdfast pending` counts milliseconds

        return Access(self._connection)

    async def start(
        self,
        agent: str,
        text: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        context: Any = None,
        attended: bool = True,
    ) -> "Conversation":
        """Start a conversation with an agent of the app; returns once the start is durable.

        Args:
            agent: The agent's name.
            text: The user's first message.
            conversation_id: The conversation's id; by default derived from `message_id`, so that one id is enough to retry.
            message_id: The idempotency key of the first message, 1 to 200 printable ASCII characters without spaces; without
                one, it is derived from `conversation_id`, else random.
            context: Any JSON value, given to tools as `ToolContext.context`; the model does not see it.
            attended: Whether there is somebody to ask. Where not, the agent's `unattended` says what is done instead.

        Returns:
            The conversation, with the start's receipt as `receipt`.

        Raises:
            AgentNotFound: The app has no such agent, or its published version has none.
            AppNotFound: The app's path leads to no app, or its module was not imported in time.
            AppNotPublished: Nobody has published the app, and this client does not.
            ConversationEnded: The conversation of that id has ended.
            ConversationExists: The id was started with something else.
            InvalidConversationId: The id is empty, too long or ill-formed.
            InvalidMessage: The text, the message id or the context cannot be used.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `message_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `message_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        if conversation_id is not None:
            check_conversation_id(conversation_id)
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        message_id = message_id or (f"start:{conversation_id}" if conversation_id is not None else uuid.uuid4().hex)
        conversation_id = conversation_id or conversation_id_from(message_id)
        app = await self._connection.app()
        command = Start(
            agent=agent,
            app=cast("str", self._stack.app_path),
            text=text_of(text),
            message_id=message_id,
            context=await judged(partial(context_of, context), context),
            attended=attended_of(attended),
            spec=app.agent(agent).spec,
        )
        judgement = partial(decide, State(conversation_id=conversation_id), command)
        await judged(judgement, context)  # refuse a bad command before it travels
        receipt = await self._connection.reply_to(conversation_id, command, what="the start", retry_id=message_id, create=True)
        return Conversation(self._connection, conversation_id, receipt=cast("Receipt", receipt))

    def conversation(self, conversation_id: str) -> "Conversation":
        """The conversation of that id; its first use shows whether it exists.

        Raises:
            InvalidConversationId: The id is empty, too long or ill-formed.
        """
        return Conversation(self._connection, check_conversation_id(conversation_id))

    async def resolve(
        self,
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call; returns once the decision is durable, before the next turn is scheduled.

        Where several people have to agree (`PendingCall.approvers`), an approval is a vote: the receipt says whether the call
        is decided (`settled`), and how many of those who are `needed` have agreed (`votes`).

        Args:
            conversation_id: The conversation's id.
            tool_call_id: The call's id.
            decision: What `PendingCall.decisions` says: `Approve`, `Deny`, `Answer`, `Fail`, `Redispatch`, `Review`, `Cancel`.
            suspension_id: Binds the decision to the suspension that was shown; needed once the call has been suspended twice.
            decision_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            StaleCall: The call does not wait for this decision; `reason` says why.
            InvalidDecision: The decision does not fit; the call still waits.
            NotPermitted: Whoever this client acts as may not decide the call; `why` says what is missing. Nothing was changed.
            AlreadyVoted: The same person has agreed to the call before, and others have to. Nothing was changed.
            InvalidConversationId: The id is empty, too long or ill-formed.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `decision_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `decision_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        return await self._connection.resolve(
            conversation_id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id
        )

    async def resolve_each(
        self, decisions: Sequence[tuple[AsyncPendingCall, Decision]], *, decision_id: str | None = None
    ) -> list[Receipt | HoldfastError]:
        """Decide several pending calls, of whatever conversations, each by itself.

        Args:
            decisions: Pairs of a pending call and its decision, at most 1,000; 16 are under way at once.
            decision_id: The idempotency key of all; the same key again returns the same receipts. None draws a random key.

        Returns:
            For each pair, in the order given: its receipt, or the error (as of `resolve`) that says why it was not decided.

        Raises:
            InvalidDecision: The list holds something else than pairs of a call and a decision, or the id is ill-formed; nothing
                was decided.
        """
        own: list[tuple[AsyncPendingCall, Decision]] = [
            (PendingCall.of(call, self.resolve), decision) for call, decision in pairs_of(decisions)
        ]
        return await resolve_each(own, decision_id)

    async def pending(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | str | None = None,
        approver: Principal | None = None,
    ) -> Page[AsyncPendingCall]:
        """A page of the pending calls of all conversations, oldest first. A call that cannot be read says so in its `problem`.

        What is long is left out of a list (`PendingCall.cut`); `pending_call` shows one call whole.

        Args:
            limit: How many calls the page may have, 1 to 1000. It has fewer, and a `next`, where 8 MiB of logs hold no more.
            after: The `next` of the page before.
            agent: Only calls of this agent's conversations.
            kind: Only calls that wait for this kind of decision.
            approver: Only calls that this principal may decide, by its id and roles, as if they were proven. A page may then
                have fewer calls than `limit`, or none, although `next` says that more follow.

        Raises:
            InvalidInput: The limit, the cursor, the agent, the kind or the approver is not valid.
            StoreUnavailable: Redis does not answer in time, or refuses.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        of_agent, of_kind = agent_of(agent), member_of(SuspensionKind, "kind", kind)
        who = None if approver is None else decider_of(approver)

        async def page_after(place: str | None) -> Listing:
            return await self._connection.read(
                lambda store: store.pending(limit=limit, after=place, agent=of_agent, kind=of_kind)
            )

        for _ in range(MOST_PAGES):
            page = await page_after(after)
            found = [view for view in page.items if who is None or decides(view, who)]
            after = page.next
            if found or after is None:
                break
        return Page(items=[PendingCall.of(view, self._connection.resolve) for view in found], next=after)

    async def pending_call(self, suspension_id: str, *, conversation_id: str | None = None) -> AsyncPendingCall:
        """The pending call of a suspension, whole, by the suspension's id alone, or faster by its conversation too.

        Args:
            suspension_id: The id, from `PendingCall.suspension_id`.
            conversation_id: The conversation. Without it, all open suspensions are looked through, if they are no more than
                10,000, and what settled one that is not open any more cannot be told.

        Raises:
            StaleCall: The suspension is not open; `reason` says why, as far as that is known.
            InvalidInput: The id is no text, or so many calls wait that the conversation has to be named.
            InvalidConversationId: The conversation's id is empty, too long or ill-formed.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        check_suspension(suspension_id, conversation_id)
        of_it = None if conversation_id is None else check_conversation_id(conversation_id)
        views = await self._connection.read(lambda store: store.pending_of(of_it, suspension_id))
        if not views:
            raise await self._connection.settled(suspension_id, conversation_id)
        return PendingCall.of(views[0], self._connection.resolve)

    async def settle(
        self,
        suspension_id: str,
        decision: Decision,
        *,
        conversation_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide what a suspension asks, by the suspension's id; returns once the decision is durable.

        Args:
            suspension_id: The id, from `PendingCall.suspension_id`.
            decision: What `PendingCall.decisions` says, as for `resolve`.
            conversation_id: The conversation. Without it, a suspension is found only while it is open, so that the repetition
                of a decision that was recorded raises `StaleCall` in place of returning its receipt.
            decision_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            StaleCall: The suspension is not open; `reason` says why, as far as that is known.
            HoldfastError: Any other error that `resolve` names.
        """
        if conversation_id is None:
            call = await self.pending_call(suspension_id)
            return await call.resolve(decision, decision_id=decision_id)
        name = check_conversation_id(conversation_id)
        check_suspension(suspension_id, name)
        state = await self._connection.read(lambda store: store.load(name))
        ids = {call.suspension.suspension_id: call.tool_call_id for call in state.calls if call.suspension is not None}
        tool_call_id = ids.get(suspension_id)
        if tool_call_id is None:
            stale = await self._connection.settled(suspension_id, name)
            if decision_id is None or stale.settled_at is None:
                raise stale
            tool_call_id = stale.tool_call_id  # perhaps it was this decision that settled it
        return await self.resolve(name, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id)

    async def conversations(
        self,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ConversationRow]:
        """A page of all conversations, oldest first. A conversation that cannot be read says so in its `problem`.

        Args:
            status: Only conversations of this status.
            agent: Only conversations with this agent.
            limit: How many conversations the page may have, 1 to 1000.
            after: The `next` of the page before.

        Raises:
            InvalidInput: The limit, the cursor, the agent or the status is not valid.
            StoreUnavailable: Redis does not answer in time, or refuses.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        of_agent, of_status = agent_of(agent), member_of(Status, "status", status)
        page = await self._connection.read(
            lambda store: store.conversations(limit=limit, after=after, agent=of_agent, status=of_status)
        )
        return Page(items=list(page.items), next=page.next)

    async def given(
        self,
        by: str | None = None,
        *,
        proof: Proof | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Given]:
        """A page of what people have given beyond one decision, and what stands: grants, and votes in calls that wait.

        Conversations in which `by` has given nothing are left out: a page may have fewer items than its limit, or none, though
        a `next` leads on. A conversation that cannot be read says so in its `problem`.

        Args:
            by: Only what this principal has given, by its id, however that is spelled.
            proof: Only what somebody has given who was proven in this way.
            limit: How many conversations the page looks at, 1 to 1000.
            after: The `next` of the page before.

        Raises:
            InvalidInput: The id, the proof, the limit or the cursor is not valid.
            StoreUnavailable: Redis does not answer in time, or refuses.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        giver, proven = None if by is None else giver_of(by), member_of(Proof, "proof", proof)
        return await self._connection.read(lambda store: given_page(store, giver, proven, limit=limit, after=after))

    async def audit(self, *, agent: str | None = None, status: Status | str | None = None) -> AsyncGenerator[AuditReport, None]:
        """The audits of all conversations, oldest first, one by one; `Conversation.audit` says what each checks.

        A conversation of which nothing can be read has a report without entries that is not intact, and hides no other.

        Args:
            agent: Only conversations with this agent.
            status: Only conversations of this status.

        Raises:
            InvalidInput: The agent or the status is not valid.
            StoreUnavailable: Redis does not answer in time, or refuses.
            WrongStore: The Redis there is not the store that this client has known.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
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
        self,
        *,
        after: str | None = None,
        agent: str | Collection[str] | None = None,
        kind: SuspensionKind | str | None = None,
    ) -> AsyncGenerator[AsyncListEvent, None]:
        """The changes of the lists over all conversations, as they happen: calls that wait, votes and notes, new statuses.

        To keep a list, begin without `after`, read the list at the first event (`following`), and apply what follows. The store
        keeps some thousands of the latest changes: whoever was away for longer is told `missed`, and reads the list anew. If
        the clock of the Redis server is set back, changes of as much time may be passed over by who resumes in it.

        Args:
            after: The cursor of the last event that was received; the events after it follow.
            agent: Only conversations with this agent, or with one of these.
            kind: Only calls that wait, or waited, for this kind of decision; then no `status` is told.

        Raises:
            InvalidInput: The cursor, the agent or the kind is not valid.
            StoreUnavailable: Redis does not answer in time, or refuses; go on after the last cursor.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        of_agents, of_kind = agents_of(agent), member_of(SuspensionKind, "kind", kind)
        place = None if after is None else Place.of(after)
        return list_events(self._connection, place, of_agents, of_kind)

    async def ready(self) -> None:
        """Return if commands can be carried out: Redis answers, and a cluster whose sweeper lives serves the store.

        Raises:
            StoreUnavailable: Redis does not answer in time, or refuses.
            ClusterUnavailable: No cluster serves the store, its sweeper has been silent for too long, or the cluster that this
                client had joined does not answer.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        if EVERYWHERE in await self._connection.read(lambda store: store.withheld()):
            raise ClusterStopped((await self._connection.store()).namespace)
        binding = await self._connection.read(lambda store: store.binding())
        if binding is None:
            raise ClusterUnavailable("no cluster serves the store: run holdfast up")
        if binding.age_ms > SILENT_MS:
            raise ClusterUnavailable(f"the sweeper of the cluster at {binding.address} has been silent for {binding.age_ms} ms")
        if (absent := self._connection.stack.absent) is not None:
            raise ClusterUnavailable(absent)

    async def agents(self) -> list[AgentRow]:
        """The agents of the client's app, which `start` takes, with their tools; nothing is asked of the stack.

        Raises:
            AppNotFound: The app's path leads to no app, or its module was not imported in time.
            ConfigurationError: The client names no app, or the app is declared wrongly.
        """
        return [AgentRow.of(agent.spec) for agent in (await self._connection.app()).agents]

    async def check_rules(self, agent: str, tool: str, arguments: Mapping[str, Any], *, app: str | None = None) -> RuleCheck:
        """What would become of a call under the permission rules that are published now, and by which rule.

        Nothing is proposed or run. It needs Redis alone: neither the app's code nor Ray. A tool's approval that is a function
        of the app is not called; where it alone decides, the effect is `ask`, and the reason says so.

        Args:
            agent: The agent's name.
            tool: The name of one of its tools.
            arguments: The call's arguments, a JSON object.
            app: The import path of the published app; None: the client's own.

        Raises:
            AppNotPublished: The app is not published.
            AgentNotFound: The published app has no such agent.
            InvalidInput: The agent has no such tool, or the arguments are no JSON object.
            ConfigurationError: Neither the client nor the call names an app.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
        """
        of_agent, of_tool = named("agent", agent), named("tool", tool)
        given = await judged(partial(arguments_of, arguments), arguments)
        path = self._connection.stack.app_path if app is None else named("app", app)
        return await self._connection.read(lambda store: checked(store, path, of_agent, of_tool, given))

    async def pause(self, agent: str | None = None, reason: str = "") -> Pause:
        """Stop new work of one agent, or (None) of the whole namespace, until `resume`; returns the pause that stands then.

        Decisions, messages, cancellations, ends and deadlines go on being recorded, and acknowledged. Turns, model calls and
        runs that have not begun wait; none of them is lost, and their time limits do not run meanwhile. Work that has begun
        goes on, a model call with its own retries, and its outcome is recorded. A pause of the namespace and the pauses of its
        agents are independent of each other. A pause needs Redis alone.

        Once this returns, no new work begins: a worker reads the pauses before each model call and run, that view counts for
        at most a second, and this call takes that much longer. The store refuses a run that is claimed later; a model call
        could only begin later in a process that was stopped between its look and its request (SIGSTOP). If this call is given
        up before it returns, the pause may stand already: call again.

        Args:
            agent: The agent whose work is paused; None pauses the whole namespace.
            reason: The reason, for people who look at the pauses; at most 1024 bytes.

        Returns:
            The pause: who made it, why and since when. `duplicate` says that it stood before and is as it was.

        Raises:
            InvalidInput: The agent or the reason cannot be used, or 64 pauses stand and this would be one more agent's.
            StoreUnavailable: Redis does not answer in time, or refuses; the pause may stand.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        whose, why = pausable(agent), reason_of(reason)
        principal = self._connection.principal
        by = principal.id.replace("|", "?") if principal is not None else this_user()
        pause = await self._connection.read(lambda store: store.pause(whose, by=by, reason=why))
        now = await self._connection.read(lambda store: store.now())
        await asyncio.sleep(min(max(pause.since + LAPSED_MS - now, 0), LAPSED_MS) / 1000)
        return pause

    async def resume(self, agent: str | None = None) -> Pause | None:
        """Lift a pause; returns the pause that was lifted, None if none stood. Work that waits goes on within a few seconds.

        To resume the namespace lifts no agent's pause, and the other way round.

        Raises:
            InvalidInput: The agent cannot be a name.
            StoreUnavailable: Redis does not answer in time, or refuses; the pause may be lifted.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        whose = pausable(agent)
        return await self._connection.read(lambda store: store.resume(whose))

    async def paused(self) -> list[Pause]:
        """The pauses that stand, that of the namespace first, then by the agent's name.

        Raises:
            StoreUnavailable: Redis does not answer in time, or refuses.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return list((await self._connection.read(lambda store: store.paused())).pauses)


def over_http(settings: Settings, *, timeout_s: float) -> AsyncClient:
    """The client of the server that the settings name.

    Raises:
        ConfigurationError: The URL is none of a server, or the token would be sent unencrypted.
    """
    from .http_address import Address  # noqa: PLC0415 - only who is over HTTP imports what speaks it
    from .http_client import HttpClient  # noqa: PLC0415 - as above

    address = Address.of(cast("str", settings.url), settings.token, plain_http=settings.plain_http)
    return HttpClient(address, timeout_s=timeout_s)
