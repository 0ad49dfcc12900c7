"""Clients as simulated processes: they start, send, decide, cancel, end and repeat themselves, not always sensibly."""

import contextlib

from holdfast.actors.proofs import signed
from holdfast.client.stack_gateway import reply_in
from holdfast.conversation import (
    Answer,
    Approve,
    Assign,
    Cancel,
    CancelPending,
    CancelTurn,
    Comment,
    Decided,
    Deny,
    End,
    Fail,
    Receipt,
    Redispatch,
    Resolve,
    ResolveMany,
    Review,
    Send,
    Start,
    Wake,
)
from holdfast.conversation.records.events import TurnStarted
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.registry.messages import MOST_BYTES
from holdfast.registry.pool import Pool
from holdfast.registry.registry import Delivery, Registry

from . import inputs, shop
from .actors import SERVED, SERVERS_KEY, SimActors
from .children import MORE
from .store import SimStore
from .trace import shown
from .workers import messages

FITTING = {
    "approval": (Approve(), Approve(), Approve({"ms": 10}), Deny("no")),
    "elicitation": (Answer("blue"), Answer(False), Answer(None), Deny()),
    "client_exec": (Answer({"at": 1}), Answer(""), Fail("no signal")),
    "lost": (Redispatch(), Redispatch(), Answer("it went through"), Fail("it did not")),
    "review": (Review("allow"), Review("block", "no"), Review("review", "less of it"), Cancel("never mind")),
    "limit": (Approve(), Approve(), Deny("enough")),
}
ANY = (Approve(), Deny("no"), Answer("blue"), Answer(7), Fail("broken"), Redispatch(), Cancel(), Review("allow"))

CHATTED = 0.6
"""The share of what people do, where they chat, that is a message."""
MESSAGES = 0.8
"""The share of messages that clients write as guests, in seeds with guests."""


class Client:
    """One client with a registry of its own."""

    left, hasty = (3, 10), 0.0

    def __init__(self, world, process):
        self.process = process
        self._world = world
        self._store = SimStore(world, process)
        actors = SimActors(world)
        pool = Pool(self._store, actors, timing=world.timing, process_limits=world.process_limits)
        self._registry = Registry(self._store, actors, pool=pool, timing=world.timing)
        self._messages = messages(world, process, self._store)
        self._open = 0
        self.told = 0
        self._left = world.rng.randint(*self.left) + MORE * world.children.there + inputs.MORE * world.inputs.there
        self._doubtful = world.rng.choice((0.0, 0.1, 0.3))
        self._hasty = self.hasty or world.rng.choice((0.5, 1.5, 3))

    @property
    def done(self):
        return self.process.dead or (self._left == 0 and self._open == 0)

    async def live(self):
        rng = self._world.rng
        while self._left:
            await self._world.sleep(rng.random() * self._hasty)
            self._begin(self._act())

    def _begin(self, act):
        self._open += 1
        self._left -= 1
        self.process.start(self._once(act))

    async def _once(self, act):
        try:
            await act
        except HoldfastError as error:  # of the store, while it was looked at
            self._world.trace.note("cannot look: %s", error)
        finally:
            self._open -= 1

    async def _act(self):
        world, rng = self._world, self._world.rng
        conversation_id = world.children.or_child(rng.choice(world.conversations))
        if world.children.meddles():
            await self._meddle(conversation_id)
            return
        if rng.random() < self._doubtful:
            await self._doubt(conversation_id)
        draw = rng.random()
        if world.ledger.length(conversation_id) and world.inputs.acts():
            await self._ask(conversation_id, await world.inputs.command(conversation_id))
        elif world.ledger.length(conversation_id) == 0 and draw < 0.7:
            await self._ask(conversation_id, self._start(conversation_id), create=True)
        elif world.chats and rng.random() < CHATTED:
            await self._send(conversation_id)
        elif draw < 0.1 and world.said:
            await self._ask(*rng.choice(world.said))
        elif draw < 0.12:
            await self._ask(conversation_id, self._start(conversation_id), create=True)
        elif draw < 0.25:
            await self._send(conversation_id)
        elif draw < 0.29:
            await self._ask(conversation_id, self._cancellation(conversation_id))
        elif draw < 0.31:
            await self._ask(conversation_id, End(request_id=world.new_id("x")))
        else:
            await self._decide(conversation_id)

    def begin_meddling(self, conversation_id):
        """Meddle with a conversation that waits for a child, beside all else."""
        self._left += 1
        self._begin(self._meddle(conversation_id))

    async def _meddle(self, conversation_id):
        """End a call that waits for a child, or do what only the child may."""
        world = self._world
        found = await world.children.meddling(conversation_id)
        if found is None:
            return
        wait, means = found
        match means:
            case "take its id":
                await self._ask(wait.source, self._start(wait.source), create=True)
            case "cancel the turn":
                await self._ask(conversation_id, CancelTurn(request_id=world.new_id("x")))
            case "cancel what waits":
                await self._ask(conversation_id, CancelPending(request_id=world.new_id("x")))
            case "end":
                await self._ask(conversation_id, End(request_id=world.new_id("x")))
            case _:
                ruling = DecisionRecord.of(Cancel("never mind") if means == "cancel" else Answer("I am the child"))
                named = {"tool_call_id": wait.tool_call_id, "suspension_id": wait.suspension_id}
                await self._ask(conversation_id, Resolve(ruling=ruling, decision_id=world.new_id("d"), **named))

    async def _send(self, conversation_id):
        """A message; where people chat, best once the conversation rests and nobody owns it."""
        world, rng = self._world, self._world.rng
        for _ in range(rng.choice((0, 60, 60)) if world.chats else 0):
            visited = await self._store.visit(conversation_id, most_bytes=MOST_BYTES)
            if visited is not None and visited.state.turn is None and not visited.state.busy:
                break
            await world.sleep(rng.random() / 2)
        message_id = world.new_id("m")
        await self._ask(
            conversation_id, Send(text=f"text of {message_id}", message_id=message_id, overrides=world.windows.overrides())
        )

    def _cancellation(self, conversation_id):
        """Of the turn, of what waits, or of a turn that may be over by then."""
        world = self._world
        turns = [event.turn_id for event in world.ledger.log(conversation_id).events if isinstance(event, TurnStarted)]
        match world.rng.choice(("the turn", "what waits", "a turn")):
            case "what waits":
                return CancelPending(request_id=world.new_id("x"), suspension_kind=world.rng.choice((None, "approval")))
            case "a turn" if turns:
                return CancelTurn(request_id=world.new_id("x"), turn_id=world.rng.choice(turns))
            case _:
                return CancelTurn(request_id=world.new_id("x"))

    def _start(self, conversation_id):
        text = self._world.rng.choice(("hello", "hello", "something else"))
        return Start(
            agent=shop.agent_of(conversation_id).name,
            app=shop.PATH,
            text=text,
            message_id=f"start:{conversation_id}",
            spec=shop.agent_of(conversation_id).spec,
            context='{"a":1}',
            overrides=self._world.windows.overrides(),
        )

    async def _doubt(self, conversation_id):
        """Have another actor take the conversation over, as after an answer that did not come: the owner may live."""
        holder = self._world.ledger.log(conversation_id).holder
        if holder is not None:
            self._world.trace.note("doubts %s of %s", holder, conversation_id)
            with contextlib.suppress(HoldfastError, TimeoutError):
                await self._registry.not_hosted(conversation_id, holder.name, until=self._world.loop.time() + 5)
                await self._registry.deliver(Delivery(conversation_id, Wake(), timeout_s=5, waits_for_store=False))

    async def _decide(self, conversation_id):
        world, rng = self._world, self._world.rng
        for _ in range(6):
            views = await self._store.pending_of(conversation_id) if world.ledger.length(conversation_id) else ()
            if views:
                break
            await world.sleep(rng.random())
        else:
            return
        if rng.random() < 0.15:
            await self._decide_many(conversation_id, views)
            return
        view = rng.choice(views)
        seen = world.shown.setdefault(conversation_id, [])
        seen.append(view.suspension_id)
        await world.sleep(rng.random() * rng.choice((0.1, 0.1, 2, 12)))
        await world.children.until_late(conversation_id)
        decision = world.granter.with_scope(rng.choice(FITTING[view.kind] if rng.random() < 0.9 else ANY), view)
        draw = rng.random()
        suspension_id = view.suspension_id if draw < 0.55 else None if draw < 0.75 else rng.choice(seen)
        decision_id = world.new_id("d")
        if world.voters.notes():
            await self._note(conversation_id, view)
        who = world.voters.one(view)
        answer = await self._ask(
            conversation_id,
            Resolve(
                tool_call_id=view.tool_call_id,
                ruling=DecisionRecord.of(world.voters.edited(decision)),
                decision_id=decision_id,
                suspension_id=suspension_id,
                principal=who,
            ),
        )
        if isinstance(answer, Receipt) and not answer.settled and world.voters.goes_on():
            await self._follow(conversation_id, view.tool_call_id, who)

    async def _follow(self, conversation_id, tool_call_id, before):
        """Somebody else agrees to what somebody has agreed to."""
        world = self._world
        views = await self._store.pending_of(conversation_id)
        view = next((one for one in views if one.tool_call_id == tool_call_id), None)
        if view is None:
            return
        fitting = {"approval": Approve(), "lost": Redispatch()}.get(view.kind, Cancel("no more"))
        await self._ask(
            conversation_id,
            Resolve(
                tool_call_id=tool_call_id,
                ruling=DecisionRecord.of(fitting),
                decision_id=world.new_id("d"),
                suspension_id=view.suspension_id,
                principal=world.voters.other(before),
            ),
        )

    async def _note(self, conversation_id, view):
        world = self._world
        named = {"tool_call_id": view.tool_call_id, "suspension_id": view.suspension_id, "request_id": world.new_id("n")}
        who = world.voters.one(view)
        note = Comment(text="look", principal=who, **named) if who is None else Assign(to=who.id, principal=who, **named)
        await self._ask(conversation_id, note)

    async def _decide_many(self, conversation_id, views):
        """Some of what waits, at once; now and then one decision does not fit, or its suspension is an old one."""
        world, rng = self._world, self._world.rng
        seen = world.shown.setdefault(conversation_id, [])
        chosen = [view for view in views if rng.random() < 0.8] or views
        seen.extend(view.suspension_id for view in chosen)
        await world.sleep(rng.random() * rng.choice((0.1, 2)))
        named = {
            view.suspension_id: world.granter.with_scope(rng.choice(FITTING[view.kind] if rng.random() < 0.95 else ANY), view)
            for view in chosen
        }
        if rng.random() < 0.2:
            named[rng.choice(seen)] = Cancel("no more")
        key = world.new_id("d")
        decided = (
            Decided(suspension_id=name, ruling=DecisionRecord.of(decision), decision_id=f"{key}.{number}")
            for number, (name, decision) in enumerate(named.items())
        )
        await self._ask(conversation_id, ResolveMany(decisions=tuple(decided), principal=world.voters.one(None)))

    async def _ask(self, conversation_id, command, create=False):  # noqa: FBT002 - as the commands that are repeated have it
        world, rng = self._world, self._world.rng
        world.said.append((conversation_id, command, create))
        for _ in range(3):
            timeout_s = rng.choice((2, 6, 15))
            asked = world.ledger.asks(self.process, conversation_id, command, timeout_s)
            world.trace.note("asks %s: %s", conversation_id, shown(command))
            answer = error = None
            try:
                sent = command if command.proven is None else signed(SERVERS_KEY, SERVED, conversation_id, command)
                delivery = Delivery(conversation_id, sent, timeout_s=timeout_s, create=create)
                accepted = await self._messages.accepted(delivery) if self._as_a_guest(command) else None
                answer = reply_in(accepted or await self._registry.deliver(delivery), what="it", retry_id="id")
            except Exception as raised:
                error = raised
            world.ledger.answered(asked, answer, error)
            self.told += 1
            world.trace.note("is told of %s: %s", shown(command), repr(error) if error is not None else answer)
            if not isinstance(error, OutcomeUnknown) or rng.random() < 0.3:
                return answer
        return None

    def _as_a_guest(self, command):
        """Whether the client itself writes it, where it can: starts, and four messages of five."""
        world = self._world
        return world.guests and (isinstance(command, Start) or (isinstance(command, Send) and world.rng.random() < MESSAGES))
