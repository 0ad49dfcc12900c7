"""The result of a rehearsal: the state of the conversation, its log, and the runs of tools' bodies."""

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from holdfast.actors.worker.notify.notices import notice_of
from holdfast.actors.workers import DeliverRequest
from holdfast.agent import App
from holdfast.agent.notice import Notice
from holdfast.agent.notify import notify_of
from holdfast.client.results import ConversationState, Event, PendingCall
from holdfast.client.stack_state import shown_arguments
from holdfast.conversation import AgentSpec, Receipt, State, Status, evolve
from holdfast.conversation.log.owed import notified, owed_by
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.events import CallSuspended
from holdfast.persistence import Conversations

from .transcripts import Message

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One execution of a tool's body.

    Attributes:
        tool: The tool's name.
        tool_call_id: The call.
        arguments: The arguments that the body was given.
        attempt: The number of the run among the call's runs, from 1.
        ok: Whether the body returned a result.
        result: The body's result as a JSON value, or the error that the model reads; None for a lost run.
        lost: Whether the worker died after the body's end and before its outcome was recorded.
    """

    tool: str
    tool_call_id: str
    arguments: dict[str, Any]
    attempt: int
    ok: bool
    result: Any
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RehearsalResult(Generic[R]):
    """The state of a conversation, with its log, runs and model calls.

    Attributes:
        state: The state as `Conversation.wait` of the client gives it.
        messages: The messages in the OpenAI chat format, without the system message.
        events: The durable events, as `Conversation.events` of the client gives them.
        receipts: The receipts of messages and decisions, in their order.
        runs: The executions of tools' bodies, in the order of their ends.
        prompts: The messages that each model call was sent, with the system message.
        replies_left: How many replies of the scripts were not asked for, by any conversation.
        notices: What the app's notification targets would have been told of the events so far, by their names; nothing is sent.
        children: The results of the conversations to which this one has delegated calls, in the order of their starts.
    """

    state: ConversationState[R]
    messages: list[Message]
    events: list[Event]
    receipts: list[Receipt]
    runs: list[ToolRun]
    prompts: list[list[Message]]
    replies_left: int
    notices: dict[str, list[Notice]]
    children: "list[RehearsalResult[R]]" = field(default_factory=list)

    @property
    def status(self) -> Status:
        """The status of the conversation."""
        return self.state.status

    @property
    def reply(self) -> str | None:
        """The last completed turn's answer."""
        return self.state.reply

    @property
    def value(self) -> dict[str, Any] | None:
        """The last completed turn's answer as an object, if its agent has a `reply`."""
        return self.state.value

    @property
    def error(self) -> str | None:
        """The last failed turn's error."""
        return self.state.error

    @property
    def pending(self) -> list[PendingCall[R]]:
        """The calls that wait for a decision, in the model's order; then those of the conversations below."""
        return [*self.state.pending, *(call for child in self.children for call in child.pending)]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events, in their order."""
        return [event.kind for event in self.events]


async def log_of(store: Conversations, state: State) -> tuple[list[Event], list[Message]]:
    """The durable events and the messages of a conversation."""
    transcript, events = Transcript(), list[Event]()
    for seq, event in await store.read(state.conversation_id, limit=state.seq, whole=True):
        transcript.add(seq, event)
        arguments = None
        if isinstance(event, CallSuspended):
            arguments = await shown_arguments(store, state.conversation_id, event)
        events.append(Event.recorded(seq, event, arguments=arguments))
    return events, transcript.messages()


async def notices_of(store: Conversations, state: State, app: App | None) -> dict[str, list[Notice]]:
    """What the targets of an app are owed by the events of a conversation, by their names."""
    targets = () if app is None else app.notify
    notices: dict[str, list[Notice]] = {target.name: [] for target in targets}
    spec = AgentSpec(name=state.agent, model="", notify=notify_of(targets, state.agent))
    before = State(conversation_id=state.conversation_id)
    for _, event in await store.read(state.conversation_id, limit=state.seq, whole=True) if targets else ():
        after = evolve(before, event)
        for owed in owed_by([event], before, after, spec):
            name, _ = notified(owed.target) or ("", "")
            request = DeliverRequest(state.conversation_id, name, replace(owed, at=event.at))
            notices[name].append(await notice_of(store, request))
        before = after
    return notices
