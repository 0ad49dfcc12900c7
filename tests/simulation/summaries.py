"""Summaries by hand: in some seeds people ask for summaries at any moment, and beside all that ends what they asked for."""

import random

from holdfast.client.summary import check_declared
from holdfast.conversation import CancelTurn, CompactNow, End, Interrupt, Send, When
from holdfast.conversation.records.events import CompactionRequested, CompactionStarted
from holdfast.errors import HoldfastError, InvalidInput

from .clients import Client
from .shop import agent_of
from .windows import HOLDS, LIES

BY_HAND = 0.1
"""In how many seeds people ask for them; drawn apart, so that other seeds stay what they are."""
BESIDE = ("the turn", "the summary", "interrupt", "interrupt with a text", "steer", "reject", "again", "end")
"""What comes beside a request, by one person or by several."""
MOMENTS = ("now", "runs", "waits", "summarises", "rests", "rests", "rests")
"""When somebody asks."""
TURNS = (0, 4, 6)
"""How many turns a conversation has had that rests: of few messages no summary is made."""
LOOKS = 80
BEGUN = 0.9
"""How often somebody asks for a summary of a conversation that has begun and not ended, which may be a child."""
CHECKED = 0.8
"""How often whoever asks looks first whether the published agent makes summaries, as the gateway does."""
TALKS = 0.75
"""In how many of these seeds models ask for few calls and reply at length, so that conversations rest soon."""
MESSAGES = 0.5
"""How often whoever asks for summaries sends a message instead, of which there is something to summarise."""


class Summaries:
    """Whether people ask for summaries, and what comes beside that."""

    def __init__(self, world, seed):
        self._world = world
        self.drawn = random.Random(f"by hand {seed}")
        self.there = self.drawn.random() < BY_HAND and not (world.stops.there or world.windows.there)
        if self.there:
            first = self.drawn.randrange(3)
            world.conversations = [f"h-{first + number}" for number in range(len(world.conversations))]
            world.windows.overriding = True
            world.model.lies, world.model.holds = self.drawn.choice(LIES), self.drawn.choice(HOLDS)
            world.model.restless()
            if self.drawn.random() < TALKS:
                world.model.brief()
                world.model.wordy()

    async def moment(self, conversation_id):
        """Wait for a moment at which somebody asks: any, or one at which the conversation does something."""
        moment, turns = self.drawn.choice(MOMENTS), self.drawn.choice(TURNS)
        for _ in range(LOOKS):
            found = self._world.memory._conversations.get(conversation_id)
            state = None if found is None else found.listed
            if moment == "now" or (state is not None and (state.ended or _does(state, turns) == moment)):
                return
            await self._world.sleep(self.drawn.random() / 4)


def _does(state, turns):
    """What a conversation does at the moment; nothing before it has had so many turns."""
    if state.turn is None:
        return "rests" if state.turns >= turns else ""
    if state.turn.compacts:
        return "summarises"
    return "waits" if state.calls.any_awaiting else "runs"


class Summarizer(Client):
    """A client that asks for summaries, mostly twice or beside something that ends or delays them."""

    left, hasty = (15, 35), 1.5

    async def _act(self):
        world, drawn = self._world, self._world.summaries.drawn
        logs = {name: log.events for name, log in world.ledger.written.items() if log.events}
        begun = [name for name, events in logs.items() if events[-1].kind != "conversation_ended"]
        among = begun if begun and drawn.random() < BEGUN else world.conversations
        conversation_id = drawn.choice(among)
        await world.summaries.moment(conversation_id)
        if drawn.random() < MESSAGES and world.ledger.length(conversation_id):
            name = world.new_id("m")
            text = f"text of {name}{' and so on' * drawn.choice((4, 8, 16))}"
            await self._ask(conversation_id, Send(text=text, message_id=name, overrides=world.windows.overrides()))
            return
        command = CompactNow(request_id=world.new_id("y"))
        beside = drawn.choice((None, None, *BESIDE))
        if beside is not None and (beside != "end" or drawn.random() < 0.2):
            self._left += 1
            self._begin(self._beside(conversation_id, command, beside))
        await self._request(conversation_id, command)

    async def _request(self, conversation_id, command):
        """Ask for a summary, as the gateway does it: of an agent that makes none it is refused before the log is asked."""
        world, drawn = self._world, self._world.summaries.drawn
        if drawn.random() < CHECKED:
            try:
                await check_declared(self._store, conversation_id, command.request_id)
            except InvalidInput as refusal:
                world.trace.note("is told by the gateway: %s", refusal)
                spec = agent_of(conversation_id, world.ledger.log(conversation_id).events).spec
                if spec.context is not None and spec.context.compact is not None:
                    world.ledger.wrong("%s: a summary is refused, and %s makes them", conversation_id, spec.name)
                return
            except HoldfastError as error:  # of the store, or there is no conversation yet, which its log says, too
                world.trace.note("cannot look: %s", error)
        await self._ask(conversation_id, command)

    async def _beside(self, conversation_id, command, what):
        """Ask for something else shortly before, with or after a request."""
        world, drawn = self._world, self._world.summaries.drawn
        await world.sleep(drawn.random() * drawn.choice((0.05, 0.3, 2)))
        name = world.new_id("b")
        match what:
            case "again":
                await self._request(conversation_id, command)
                return
            case "the turn":
                other = CancelTurn(request_id=name)
            case "the summary":
                other = CancelTurn(request_id=name, turn_id=self._one_of(conversation_id))
            case "end":
                other = End(request_id=name)
            case "interrupt" | "interrupt with a text":
                other = Interrupt(text=None if what == "interrupt" else f"text of {name}", request_id=name)
            case _:
                other = Send(text=f"text of {name}", message_id=name, when=When(what))
        await self._ask(conversation_id, other)

    def _one_of(self, conversation_id):
        """What stands in place of a turn's id for a summary that is asked for, or was; for any turn if none ever was."""
        events = self._world.ledger.log(conversation_id).events
        asked = [f"c{seq}" for seq, event in enumerate(events, 1) if isinstance(event, CompactionRequested)]
        begun = [event.turn_id for event in events if isinstance(event, CompactionStarted)]
        return self._world.summaries.drawn.choice([*asked[-1:], *begun]) if asked else None
