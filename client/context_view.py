"""What the model would be sent of a conversation, and what is left out of it."""

from typing import Any

from pydantic import Field

from holdfast.conversation import AgentSpec, State
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.window import LeftOut, window
from holdfast.persistence import Store

from .results import Result
from .turns import READ_AT_ONCE


class ContextView(Result):
    """The messages that a model call of a conversation has at present."""

    agent: str = Field(description="The agent whose terms these are.")
    messages: list[dict[str, Any]] = Field(description="The messages, in the OpenAI chat format, without the system message.")
    tokens: int = Field(description="About how many tokens the request has, with instructions and tools.")
    budget: int | None = Field(
        default=None, description="How many tokens the request may have; None if the agent does not bound them."
    )
    fits: bool = Field(
        default=True, description="Whether the request is within its budget, or made smaller first; if not, the turn fails."
    )
    compacts: bool = Field(default=False, description="Whether the oldest messages are summarised before the next model call.")
    cached: int = Field(
        default=0, description="How many messages the request before began with, too; 0 if what is left out has changed since."
    )
    left_out: list[LeftOut] = Field(
        default_factory=list, description="What is not sent as it is, and by which rule, in the order of the transcript."
    )


async def published_spec(store: Store, state: State) -> AgentSpec | None:
    """The spec of a conversation's agent as it is published, if it is."""
    record = await store.app(state.app)
    digest = None if record is None else record.agents.get(state.agent)
    return None if digest is None else await store.spec(digest)


async def context_view(store: Store, conversation_id: str) -> ContextView:
    """See `Conversation.context`."""
    state = await store.load(conversation_id)
    transcript = Transcript()
    while page := await store.read(conversation_id, after=transcript.seq, limit=READ_AT_ONCE):
        for seq, event in page:
            transcript.add(seq, event)
    spec = await (published_spec(store, state) if state.turn is None else store.spec(state.turn.spec_digest))
    spec = spec or AgentSpec(name=state.agent, model="")
    by = transcript.overrides if state.turn is not None else None
    stopped = "" if state.turn is None or state.turn.stopping is None else state.turn.stopping.detail
    spec = spec.overridden(by) if by is not None else spec
    summaries: dict[str, Any] = {"compacted": transcript.compacted, "failed": transcript.failed, "refused": transcript.refused}
    summaries["by_hand"] = bool(state.compacting)
    found = window(spec, transcript.messages(), transcript.reported, stopped, **summaries)
    own = ContextView.model_fields.keys() - {"agent", "compacts"}
    return ContextView(agent=state.agent, compacts=found.due is not None, **{name: getattr(found, name) for name in own})
