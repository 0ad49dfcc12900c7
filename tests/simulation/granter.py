"""People who approve with scopes, in a part of the seeds, and who revoke them, best while a call is about to run by one."""

import asyncio
import contextlib
import dataclasses
import random

from holdfast.conversation import Approve, Proof, Resolve, Revoke, RevokeGiven, Scope, Send
from holdfast.conversation.records.events import GrantGiven, RunScheduled
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import StoreUnavailable

from .clients import FITTING, Client
from .voters import ANAS_KEY

GRANTED = 0.2
"""In how many seeds there are grants."""
SCOPED = 0.8
"""How often an approval has a scope there."""
TOUCHING = 0.8
"""How often that is of a kind that the call touches."""
ENDS_S = (None, None, 0.05, 0.5, 3)
SCOPES = (
    Scope("account", "3*", level="write"),
    Scope("account", "*0", level="read"),
    Scope("account", "*0", level="write"),
    Scope("account", "*", level="execute", everything=True),
    Scope("account", "*", level="write", everything=True),
    Scope("order", "o-*", level="write"),
    Scope("order", "o-*", level="read"),
    Scope("depot", "*", level="admin", everything=True),
    Scope("depot", "ok", level="execute"),
    Scope("depot", "*", level="write", everything=True),
    Scope("tool", "*", level="admin", everything=True),
    Scope("tool", "sh*", level="execute"),
    Scope("path", "a/**", level="write"),
)
MORE = 0.2
"""How often it does."""
PROVOKED = 0.8
"""How often whoever revokes waits for a call that is about to run by a grant, and revokes that one."""
LOOKS = 4
"""How often an approver looks for something to decide before it asks for more work."""
LONGEST_S = 5.0
"""How long it waits for such a call."""
DELAYED = 0.5
"""How often work is delayed then, so that it is claimed after the revocation, or after the grant's end."""


class Granter:
    """Draws which approvals have scopes, and sees which calls run by them."""

    def __init__(self, world, seed):
        self._world = world
        self._drawn = random.Random(f"granted {seed}")
        self.granted = self._drawn.random() < GRANTED
        self._provoked = None

    def with_scope(self, decision, view):
        """A decision, which may have a scope now if it is a plain approval."""
        if not self.granted or decision != Approve() or self._drawn.random() > SCOPED:
            return decision
        touched = {target.kind for target in view.targets} if view.targets is not None else {"tool"}
        fitting = [scope for scope in SCOPES if scope.kind in touched]
        scope = self._drawn.choice(fitting if fitting and self._drawn.random() < TOUCHING else SCOPES)
        return Approve(scope=dataclasses.replace(scope, ends_s=self._drawn.choice(ENDS_S)))

    def saw(self, conversation_id, events):
        """Events were appended to a log."""
        if self._provoked is None or self._provoked.done():
            return
        for event in events:
            if isinstance(event, RunScheduled) and event.grants:
                self._provoked.set_result((conversation_id, self._drawn.choice(event.grants)))
                return

    async def waiting(self):
        """A conversation in which something waits; None if there is none for a while."""
        for _ in range(LOOKS):
            found = [name for name, held in self._world.memory._conversations.items() if held.listed and held.pending]
            if found:
                return self._drawn.choice(found)
            await asyncio.sleep(self._drawn.random())
        return None

    async def provocation(self):
        """The conversation and the grant of a call that is about to run by it; None if there is none for a while."""
        if self._drawn.random() > PROVOKED:
            return None
        self._provoked = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                return await self._provoked
        return None

    def ends(self):
        """What else of Ana's ends now: her API key, all that she has given in a conversation, or nothing."""
        return self._drawn.choices(("key", "given", None), (0.05, 0.15, 0.8))[0]

    def delay_work(self):
        """Have what is about to run by a grant run later."""
        if self._drawn.random() < DELAYED:
            self._world.delay_work(self._drawn, "freezes while a grant is revoked")


class Approver(Client):
    """A client that approves what waits as soon as it waits, and asks for more: the others mostly start conversations."""

    left, hasty = (8, 20), 2

    async def _act(self):
        world, rng = self._world, self._world.rng
        begun = [name for name in world.conversations if world.ledger.length(name)]
        if not begun:
            return
        name = await world.granter.waiting()
        views = await self._store.pending_of(name) if name else ()
        if not name and rng.random() < MORE:
            message_id = world.new_id("m")
            await self._ask(rng.choice(begun), Send(text=f"text of {message_id}", message_id=message_id))
        if not views:
            return
        view, key = rng.choice(views), world.new_id("d")
        ruling = DecisionRecord.of(world.granter.with_scope(FITTING[view.kind][0], view))
        await self._ask(
            name,
            Resolve(
                tool_call_id=view.tool_call_id,
                ruling=ruling,
                decision_id=key,
                suspension_id=view.suspension_id,
                principal=world.voters.one(view),
            ),
        )


class Revoker(Client):
    """A client that does nothing but revoke."""

    left, hasty = (5, 12), 2

    async def _act(self):
        world, rng = self._world, self._world.rng
        ends = world.granter.ends()
        if ends == "key":
            with contextlib.suppress(StoreUnavailable):
                await self._store.remove_api_key(ANAS_KEY.key_id)
        found = await world.granter.provocation()
        if found is None:
            await world.sleep(rng.random())
            given = [
                (name, event.grant.grant_id)
                for name in world.conversations
                for event in world.ledger.log(name).events
                if isinstance(event, GrantGiven)
            ]
            if not given:
                return
            found = rng.choice(given)
        else:
            world.granter.delay_work()
        conversation_id, grant_id = found
        if ends == "given":
            await self._ask(conversation_id, RevokeGiven(request_id=world.new_id("x"), by="ana", proof=Proof.KEY))
        await self._ask(conversation_id, Revoke(request_id=world.new_id("x"), grant_id=grant_id))
