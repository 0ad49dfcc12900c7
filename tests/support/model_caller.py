"""Model calls as a worker makes them, over real HTTP and through real litellm, without Ray and Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar

from writer import Writer, begin, send, start

from holdfast.actors.worker import model
from holdfast.actors.worker.asking import Ask, here
from holdfast.actors.worker.breakers import Breakers
from holdfast.actors.worker.gate import CallRules, FixedRules
from holdfast.actors.worker.model_outcome import ModelCounts
from holdfast.actors.workers import ModelRequest
from holdfast.agent import Rules, Tool, TurnContext, Unattended
from holdfast.agent.reply import Reply
from holdfast.conversation import AgentSpec, CallModel, Event, Limits, ModelFailed, ModelReplied, ToolSpec, outstanding
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.terms.models import RETRIES
from holdfast.conversation.terms.parts import Content
from holdfast.conversation.text import jsontext
from holdfast.conversation.window import closing
from holdfast.counting import Counts
from holdfast.persistence import codec
from holdfast.persistence.memory_store import MemoryStore
from holdfast.redaction import PLAIN
from holdfast.testing import ModelServer

# Each test has a server of its own, and so a client in litellm's cache, which drops the oldest of 200 without closing it.
model.litellm.in_memory_llm_clients_cache.max_size_in_memory = 10**9

_T = TypeVar("_T")
LOOKUP = ToolSpec(name="lookup", parameters='{"type":"object","properties":{"order":{"type":"integer"}}}')
SEARCH = ToolSpec(
    name="web_search", executor="provider", definition='{"type":"web_search_20250305","name":"web_search","max_uses":3}'
)


class InPlace:
    """What an `AppLoop` does, on the loop of the test."""

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await work

    async def judged(self, agent: str, judge: Callable[[Callable[[int], Ask]], _T]) -> _T:
        del agent
        return await asyncio.to_thread(judge, here)

    async def asked(self, agent: str, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        del agent, what, otherwise
        return await asyncio.to_thread(function)


@dataclass(frozen=True)
class Declared:
    """The agent as the app has it, keys and all, which a real one would refuse; its tools judge as they are given."""

    spec: AgentSpec
    own_options: dict[str, Any]
    fallback_options: tuple[dict[str, Any], ...] = ()
    overridable_options: tuple[dict[str, Any], ...] = ()
    summary_options: tuple[dict[str, Any], ...] = ()
    name: str = "desk"
    tools: tuple[Tool, ...] = ()
    errors: str = "full"
    unattended: Unattended = field(default_factory=Unattended)
    reply: Reply | None = None

    def tool(self, name: str) -> Tool | None:
        """The tool with the app's functions, if it has any."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass
class Caller:
    """Calls models for one conversation and keeps its log, in a store in memory."""

    server: ModelServer
    spec: AgentSpec
    writer: Writer
    own_options: dict[str, Any] = field(default_factory=dict)
    fallback_options: tuple[dict[str, Any], ...] = ()
    summary_options: tuple[dict[str, Any], ...] = ()
    live: list[list[Any]] = field(default_factory=list)
    app_tools: tuple[Tool, ...] = ()
    reply: Reply | None = None
    app_loop: Any = field(default_factory=InPlace)
    counts: Counts = field(default_factory=Counts)
    breakers: Breakers = field(default_factory=lambda: Breakers(Counts()))
    direct: ClassVar[bool] = True
    retries: ClassVar[int] = RETRIES
    timed: ClassVar[bool] = False
    """Whether answers have their times, by which equal ones differ."""

    @classmethod
    async def of(
        cls, server: ModelServer, *, anthropic: bool = False, tools: tuple[ToolSpec, ...] = (), **more: Any
    ) -> "Caller":
        """A conversation at its first model call."""
        address = server.anthropic_url if anthropic else server.url
        own = {"api_base": address, "api_key": "sk-test"}
        reply: Reply | None = more.pop("reply", None)
        spec = AgentSpec(
            name="desk",
            model=more.pop("model", "anthropic/claude-sonnet-4-5" if anthropic else "openai/gpt-4o-mini"),
            model_options=jsontext.dumps(more.pop("options", {})),
            tools=tools,
            retries=more.pop("retries", cls.retries),
            breaker=more.pop("breaker", None),
            fallbacks=more.pop("fallbacks", ()),
            stop=more.pop("stop", None),
            reply=None if reply is None else reply.schema,
            limits=Limits(**more),
        )
        writer = await Writer.of(MemoryStore(), "c-1")
        writer.spec = spec
        caller = cls(server, spec, writer, own, reply=reply)
        await writer.do(start("hello"), begin())
        return caller

    @property
    def transcript(self) -> Transcript:
        """The transcript of the log so far."""
        transcript = Transcript()
        for seq, event in enumerate(self.events, 1):
            transcript.add(seq, event)
        return transcript

    @property
    def events(self) -> list[Event]:
        """The log so far."""
        return list(self.writer.events)

    @property
    def request(self) -> ModelRequest:
        """The request for the model call that is outstanding."""
        effect = outstanding(self.writer.state)[0]
        return ModelRequest(
            code="k",
            conversation_id="c-1",
            agent="desk",
            spec_digest=self.spec.digest,
            effect_id=self.writer.effect_ids[0],
            upto_seq=self.writer.state.seq,
            attempt=1,
            stopped=effect.stopped if isinstance(effect, CallModel) else "",
            stats=effect.stats if isinstance(effect, CallModel) else None,
        )

    async def call(
        self, messages: list[dict[str, Any]] | None = None, *, asked: AgentSpec | None = None, hidden: bool = False
    ) -> ModelReplied | ModelFailed:
        """Make the model call that is outstanding; what came of it, which the log has not taken in yet.

        It is sent these messages, or all. `asked` is the stored spec, if it is not the one that the app declares. `hidden`:
        listeners are told nothing.
        """
        own: dict[str, Any] = {"fallback_options": self.fallback_options, "summary_options": self.summary_options}
        agent: Any = Declared(self.spec, self.own_options, **own, tools=self.app_tools, reply=self.reply)
        turn = TurnContext(conversation_id="c-1", agent="desk")
        rules = CallRules(FixedRules(Rules()), Rules(), "desk", partial(asyncio.sleep, 0, turn))
        outcome: Awaitable[ModelReplied | ModelFailed] = model.call(
            self,
            self.request,
            spec=asked or self.spec,
            messages=[*self.transcript.messages(), *closing(self.request.stopped)] if messages is None else messages,
            agent=agent,
            loop=lambda: self.app_loop,
            rules=rules,
            redaction=PLAIN,
            counts=ModelCounts(self.counts, self.spec.model),
            breakers=self.breakers,
            direct=self.direct,
            hidden=hidden,
        )
        found = await asyncio.wait_for(outcome, 60)
        if self.timed or isinstance(found, ModelFailed):
            return found
        return found.model_copy(update={"duration_ms": None, "first_token_ms": None})

    async def turn(self) -> ModelReplied | ModelFailed:
        """Make the call, and record what came of it."""
        outcome = await self.call()
        await self.writer.do(lambda _: outcome)
        return outcome

    async def send(self, text: Content = "and then?") -> None:
        """Send a message, and begin its turn."""
        await self.writer.do(send(text), begin())

    async def now(self) -> int:
        """The time of the conversation's store."""
        return await self.writer.store.now()

    async def publish(self, _conversation_id: str, payload: bytes) -> None:
        """Keep what would go to whoever listens."""
        self.live.append(list(codec.unpack(payload)))

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages that reached the server with a request."""
        return list(self.server.requests[number].body["messages"])
