"""What conversations owe each other, made of real logs in a store in memory, and judged by the machine."""

import asyncio

import pytest
from writer import Writer, begin, call, cancel, end, fail_model, finish, reply, resolve, send, start, wake

from holdfast.actors.answers import Replied
from holdfast.actors.workers import Delivered, Later, SetAside
from holdfast.conversation import Cancel, Principal, Proof, Receipt, Start, Status, Stop, Tell
from holdfast.conversation.log.owed import END, START, TELL, Envelope, own_target
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.errors import (
    AppNotPublished,
    ConversationExists,
    ConversationNotFound,
    CorruptStore,
    HoldfastError,
    InvalidInput,
    InvalidMessage,
    NotPermitted,
    Overloaded,
    StaleCall,
    StaleReason,
)
from holdfast.persistence import Leased, MemoryStore
from holdfast.registry.own_deliveries import GIVEN_UP_MS, START_MS, own_deliveries
from holdfast.registry.registry import Refused, Unknown, Unsent

TASK = '{"task":"look into it"}'
DAY_MS = 86_400_000


class Conversations:
    """A registry whose conversations are writers of one store; the next results may be given."""

    def __init__(self, clock):
        self.store = MemoryStore(clock=clock)
        self.writers = {}
        self.sent = []
        self.signed = []
        self.results = []
        self.kinds = own_deliveries(self, self.store, self.sign)

    async def sign(self, conversation_id, command):
        self.signed.append((conversation_id, type(command)))
        return command.model_copy(update={"signature": "signed"})

    async def deliver(self, delivery):
        command, name = delivery.command, delivery.conversation_id
        self.sent.append((name, command))
        if self.results:
            return self.results.pop(0)
        if name not in self.writers:
            if not delivery.create:
                return Unsent(ConversationNotFound(name))
            await self.begun(name)
        try:
            return Replied(await self.writers[name].do(lambda _: command))
        except HoldfastError as error:
            return Refused(error)

    async def begun(self, name, *steps):
        self.writers[name] = writer = await Writer.of(self.store, name)
        if steps:
            await writer.do(*steps)
        return writer

    async def delivered(self, kind, of, to, **more):
        """Deliver what a conversation owes another one, as the courier does."""
        asked = {"seq": 0, "n": 0, "at": await self.store.now()} | more
        return await self.kinds[kind](to, Leased(of, Envelope(kind, own_target(to), **asked), "nonce", 1))


class Clock:
    now = 1_800_000_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def own(clock):
    return Conversations(clock)


class Asked:
    """A parent that waits for a child."""

    def __init__(self, own, parent):
        self.own, self.parent = own, parent
        self.wait = next(one.suspension for one in parent.state.calls if one.suspension is not None)
        self.child = self.wait.source

    async def start(self, **more):
        seq = next(seq for seq, event in enumerate(self.parent.events, 1) if event.kind == "call_suspended")
        return await self.own.delivered(START, self.parent.conversation_id, self.child, seq=seq, **more)

    async def tell(self):
        return await self.own.delivered(TELL, self.child, self.parent.conversation_id)

    @property
    def below(self):
        return self.own.writers[self.child]

    @property
    def settled(self):
        """The result of the call, and whether its source is known to have ended; None while it waits."""
        found = [event for event in self.parent.events if event.kind == "call_resolved"]
        ended = [event.source_ended for event in self.parent.events if event.kind == "suspension_settled"]
        return (found[0].content, ended[0]) if found else None


@pytest.fixture
async def asked(own):
    said = ProposedCall(tool_call_id="call_1", name="consult", arguments=TASK)
    by = Principal("ana", proof=Proof.STATED)
    parent = await own.begun("c-1", start("hello", context='{"order":7}', principal=by), begin(), call(said))
    return Asked(own, parent)


# -- start --------------------------------------------------------------------------------------------------------------


async def test_a_start_says_what_the_log_of_the_parent_says(own, asked):
    assert await asked.start() == Delivered()
    state = asked.below.state
    assert (state.agent, state.app, state.attended) == ("clerk", "shop:app", True)
    assert (state.parent.conversation_id, state.parent.suspension_id) == ("c-1", asked.wait.suspension_id)
    assert state.parent.must_end_by == asked.wait.expires_at
    first, message = asked.below.events
    assert (first.context, message.text, message.message_id) == ('{"order":7}', "look into it", asked.wait.suspension_id)
    assert message.principal.id == "ana"
    assert own.signed == [(asked.child, Start)]


async def test_who_joined_the_parents_turn_has_asked_for_what_follows(own):
    ana, bob = (Principal(name, proof=Proof.KEY) for name in ("ana", "bob"))
    steered = send("in Bonn", message_id="s-1", when="steer", principal=bob)
    said = ProposedCall(tool_call_id="call_1", name="consult", arguments=TASK)
    parent = await own.begun("c-1", start("hello", principal=ana), begin(), steered, reply("and now?"), call(said))
    asked = Asked(own, parent)

    assert await asked.start() == Delivered()

    assert asked.below.events[1].principal.id == "ana"
    assert [one.id for one in asked.below.state.parent.editors] == ["bob"]


async def test_a_start_has_the_context_that_the_tool_made(own):
    said = ProposedCall(tool_call_id="call_1", name="consult", arguments=TASK, context='{"only":"this"}')
    asked = Asked(own, await own.begun("c-1", start(), begin(), call(said)))
    await asked.start()
    assert asked.below.events[0].context == '{"only":"this"}'


async def test_the_starts_of_a_parent_that_come_at_once_read_it_once(own, monkeypatch):
    said = [ProposedCall(tool_call_id=f"call_{one}", name="consult", arguments=TASK) for one in range(10)]
    parent = await own.begun("c-1", start(), begin(), call(*said))
    load, loaded = own.store.load, []

    async def counted(name):
        loaded.append(name)
        return await load(name)

    monkeypatch.setattr(own.store, "load", counted)
    waits = [(seq, event.source) for seq, event in enumerate(parent.events, 1) if event.kind == "call_suspended"]
    answers = await asyncio.gather(*(own.delivered(START, "c-1", child, seq=seq) for seq, child in waits))
    assert answers == [Delivered()] * 10
    assert loaded == ["c-1"]


async def test_a_child_is_not_started_once_its_parent_waits_no_longer(own, asked):
    await asked.parent.do(cancel())
    assert await asked.start() == Delivered()
    assert own.sent == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidMessage("text", "it is too long", "shorten it"), "too long"),
        (InvalidInput("signature", "no conversation has sent this", "leave it"), "no conversation has sent this"),
        (NotPermitted("c-child", "call_1", "it is another's"), "another's"),
        (ConversationExists("c-child"), "c-child"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_start_that_every_repetition_would_have_refused_fails_the_call(own, asked, error, said):
    own.results = [Refused(error)]
    assert await asked.start() == Delivered()
    content, ended = asked.settled
    assert "the agent 'clerk' could not be asked: " in content
    assert said in content
    assert not ended  # whoever holds the id is not known to have ended: it is told to


async def test_a_conversation_of_somebody_else_with_the_childs_id_fails_the_call_and_is_not_ended(own, asked):
    await own.begun(asked.child, start("mine", message_id=asked.wait.suspension_id))
    assert await asked.start() == Delivered()
    assert "could not be asked" in asked.settled[0]
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()
    assert own.writers[asked.child].state.parent is None
    assert own.writers[asked.child].state.status is not Status.ENDED


async def test_a_start_after_the_waits_deadline_starts_nothing(own, asked, clock):
    clock.now = asked.wait.expires_at
    assert isinstance(await asked.start(), Later)
    assert asked.child not in own.writers or not asked.below.state.seq
    assert asked.settled is None  # by its deadline, which its own actor notices


@pytest.mark.parametrize(
    "result", [Unsent(Overloaded("c", 1000)), Unknown(TimeoutError()), Refused(AppNotPublished("shop:app"))]
)
async def test_a_start_that_may_succeed_later_is_tried_again_until_its_time_is_over(own, asked, clock, result):
    own.results = [result]
    at = clock.now
    assert isinstance(await asked.start(at=at), Later)
    assert asked.settled is None
    clock.now += GIVEN_UP_MS + 1
    clock.now = min(clock.now, asked.wait.expires_at - 1)
    own.results = [result]
    assert await asked.start(at=clock.now - GIVEN_UP_MS - 1) == Delivered()
    content, ended = asked.settled
    assert "could not be asked" in content
    assert not ended


async def test_a_word_that_cannot_be_brought_to_the_parent_now_is_brought_later(own, asked):
    own.results = [Refused(NotPermitted("c-child", "call_1", "no")), Unknown(TimeoutError())]
    assert isinstance(await asked.start(), Later)


def unreadable(own, monkeypatch, read, *names):
    """What a store reads of these conversations is corrupt from now on."""
    whole = getattr(own.store, read)

    async def corrupt(name, *more):
        if name in names:
            raise CorruptStore(f"the log of {name}")
        return await whole(name, *more)

    monkeypatch.setattr(own.store, read, corrupt)


async def test_a_call_whose_task_cannot_be_read_fails(own, asked, monkeypatch):
    unreadable(own, monkeypatch, "at", "c-1")
    assert await asked.start() == Delivered()
    content, ended = asked.settled
    assert "the task cannot be read" in content
    assert not ended


async def test_a_parent_that_cannot_be_read_has_its_start_set_aside(own, asked, monkeypatch):
    unreadable(own, monkeypatch, "load", "c-1")
    answer = await asked.start()
    assert isinstance(answer, SetAside)
    assert "the log of c-1" in answer.reason


@pytest.mark.parametrize(("seq", "child"), [(1, "d-other"), (2, "d-other"), (5, "d-other")])
async def test_an_entry_that_delegates_nothing_to_the_child_starts_nothing(own, asked, seq, child):
    assert asked.parent.events[4].kind == "call_suspended"
    assert await own.delivered(START, "c-1", child, seq=seq) == Delivered()
    assert own.sent == []


async def test_a_repeated_start_changes_nothing_while_the_child_works(own, asked):
    await asked.start()
    before = asked.below.state
    assert await asked.start() == Delivered()
    assert asked.below.state == before
    assert asked.settled is None


async def test_a_repeated_start_of_a_child_that_has_ended_tells_its_parent_again(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    assert asked.below.state.ended
    assert await asked.start() == Delivered()
    assert asked.settled == (f'{{"ok":true,"result":"It is fine.","conversation":"{asked.child}"}}', True)


# -- tell ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "ok", "said"),
    [
        ((begin(), reply("It is fine.")), True, '"result":"It is fine."'),
        ((begin(), reply(None)), True, '"result":""'),
        ((begin(), fail_model("no such model")), False, "the agent 'clerk' failed: no such model"),
        ((begin(), cancel()), False, "the agent 'clerk' was cancelled before it answered"),
        ((begin(), end()), False, "the agent 'clerk' was cancelled before it answered"),
        ((end(),), False, "the agent 'clerk' was ended before it began"),
    ],
    ids=["completed", "without-text", "failed", "cancelled", "ended", "ended-before-it-began"],
)
async def test_a_parent_is_told_how_its_child_ended(own, asked, steps, ok, said):
    await asked.start()
    await asked.below.do(*steps)
    assert asked.below.state.ended
    assert await asked.tell() == Delivered()
    content, ended = asked.settled
    assert content.startswith(f'{{"ok":{str(ok).lower()}')
    assert said in content
    assert asked.child in content
    assert ended
    assert own.signed[-1] == ("c-1", Tell)


@pytest.mark.parametrize(
    ("words", "ok", "said"),
    [
        ("half is done", True, '"result":"half is done"'),
        (None, False, "the agent 'clerk' was stopped before it said anything (rounds)"),
        ("", False, "the agent 'clerk' was stopped before it said anything (timeout)"),
    ],
)
async def test_a_parent_is_told_what_its_child_said_until_it_was_stopped(own, asked, words, ok, said):
    await asked.start()
    stop = Stop(timeout_s=60) if words == "" else Stop(rounds=1)
    asked.below.spec = asked.below.spec.model_copy(update={"stop": stop}).stored_as(asked.below.spec.digest)
    await asked.below.do(begin())
    if words == "":
        await asked.below.do(wake(), now=asked.below.state.due_at)
    else:
        await asked.below.do(call("lookup"), finish(), call("lookup", content=words))
    assert await asked.tell() == Delivered()
    content, ended = asked.settled
    assert ended
    assert content.startswith(f'{{"ok":{str(ok).lower()}')
    assert said in content


async def test_a_quarantined_child_is_a_failure_and_is_not_known_to_have_ended(own, asked):
    await asked.start()
    await asked.below.do(begin())
    await own.store.strike(asked.child, asked.below.token, process="p-1", reason="it dies", limit=1)
    assert await asked.tell() == Delivered()
    content, ended = asked.settled
    assert "quarantined" in content
    assert not ended


async def test_a_child_that_is_tried_again_before_its_parent_is_told_of_its_quarantine_goes_on(own, asked):
    await asked.start()
    await asked.below.do(begin())
    await own.store.strike(asked.child, asked.below.token, process="p-1", reason="it dies", limit=1)
    await own.store.retry(asked.child)
    assert await asked.tell() == Delivered()
    assert asked.settled is None


async def test_a_repeated_start_of_a_child_in_quarantine_tells_its_parent_again(own, asked):
    await asked.start()
    await asked.below.do(begin())
    await own.store.strike(asked.child, asked.below.token, process="p-1", reason="it dies", limit=1)
    own.results = [Replied(Receipt(conversation_id=asked.child, seq=2, accepted_at=0, duplicate=True))]
    assert await asked.start() == Delivered()
    assert "quarantined" in asked.settled[0]


async def test_a_reply_that_cannot_be_read_is_a_failure_that_says_so(own, asked, monkeypatch):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    unreadable(own, monkeypatch, "at", asked.child)
    assert await asked.tell() == Delivered()
    assert "its answer cannot be read" in asked.settled[0]


async def test_a_child_that_cannot_be_read_is_a_failure_and_is_not_known_to_have_ended(own, asked, monkeypatch):
    await asked.start()
    unreadable(own, monkeypatch, "load", asked.child)
    assert await asked.tell() == Delivered()
    content, ended = asked.settled
    assert "conversation cannot be read" in content
    assert not ended


async def test_a_word_between_two_that_cannot_be_read_is_set_aside(own, asked, monkeypatch):
    await asked.start()
    unreadable(own, monkeypatch, "load", asked.child, "c-1")
    assert isinstance(await asked.tell(), SetAside)


async def test_a_second_word_counts_as_delivered_and_changes_nothing(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    await asked.tell()
    before = asked.parent.state
    assert await asked.tell() == Delivered()
    assert asked.parent.state == before


async def test_a_word_for_a_call_that_was_cancelled_counts_as_delivered(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    await asked.parent.do(resolve(Cancel(), "call_1"))
    assert await asked.tell() == Delivered()


async def test_a_word_for_a_parent_that_is_gone_or_has_ended_counts_as_delivered(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    own.results = [Unsent(ConversationNotFound("c-1"))]
    assert await asked.tell() == Delivered()
    await asked.parent.do(end())
    assert await asked.tell() == Delivered()


async def test_a_word_that_its_parent_refuses_for_good_is_set_aside(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("It is fine."))
    own.results = [Refused(NotPermitted("c-1", "call_1", "it does not wait for it"))]
    assert isinstance(await asked.tell(), SetAside)
    own.results = [Unknown(TimeoutError())]
    assert isinstance(await asked.tell(), Later)


async def test_a_conversation_without_a_parent_tells_nobody(own):
    await own.begun("c-2", start(), begin(), reply("Fine."), end())
    assert await own.delivered(TELL, "c-2", "c-1") == Delivered()
    assert own.sent == []


# -- end ----------------------------------------------------------------------------------------------------------------


async def test_a_child_is_ended_with_what_it_waits_for(own, asked):
    await asked.start()
    await asked.below.do(begin(), call("ask"))
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()
    assert asked.below.state.ended
    assert asked.below.suspension_ids == ()
    before = asked.below.state
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()
    assert asked.below.state == before


async def test_the_end_of_a_child_that_has_ended_counts_as_delivered(own, asked):
    await asked.start()
    await asked.below.do(begin(), reply("Fine."))
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()


async def test_the_end_of_a_child_that_cannot_be_reached_is_tried_again(own, asked):
    own.results = [Refused(StaleCall("c", "call_1", StaleReason.UNKNOWN)), Unknown(TimeoutError())]
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()
    assert isinstance(await own.delivered(END, "c-1", asked.child, seq=9), Later)


async def test_what_people_send_a_child_does_not_outlive_its_turn(own, asked):
    await asked.start()
    await asked.below.do(begin(), send("and this"))
    await asked.below.do(reply("Fine."))
    assert asked.below.state.ended
    assert not asked.below.state.queue


class Guests:
    """Accepts what it is told to, and nothing else."""

    def __init__(self, *results):
        self.results, self.asked = list(results), []

    async def accepted(self, delivery):
        self.asked.append(type(delivery.command))
        return self.results.pop(0) if self.results else None


async def test_starts_and_words_need_no_actor_where_a_guest_accepts_them(own, asked):
    guests = Guests(Replied(None))
    own.kinds = own_deliveries(own, own.store, own.sign, guests)
    assert await asked.start() == Delivered()
    assert own.sent == own.signed == []
    assert await asked.start() == Delivered()  # the guest leaves this one to an actor
    assert [(type(command), command.signature) for _, command in own.sent] == [(Start, "signed")]
    await asked.below.do(begin(), reply("Fine."))
    assert await asked.tell() == Delivered()
    assert await own.delivered(END, "c-1", asked.child, seq=9) == Delivered()
    assert guests.asked == [Start, Start, Tell]


@pytest.mark.parametrize("late", [False, True], ids=["soon", "too late"])
async def test_no_child_starts_after_its_end(own, asked, clock, late):
    """A courier stands still for longer than its lease, and another one delivers the start and the end meanwhile."""
    at = clock.now

    async def end():
        return await own.delivered(END, "c-1", asked.child, seq=9, at=at)

    async def standing_still(_, command):
        own.kinds = own_deliveries(own, own.store, own.sign)
        await asked.parent.do(cancel())
        assert await asked.start() == Delivered()
        assert await end() == Later("it may start yet", START_MS)
        clock.now += START_MS * late
        return command

    own.kinds = own_deliveries(own, own.store, standing_still)
    assert isinstance(await asked.start(), Later if late else Delivered)
    clock.now += 1
    assert await end() == Delivered()
    assert (not asked.below.state.seq) if late else asked.below.state.ended
