"""Any sequence of what clients do with their calls: each call has one claimant at a time, and ends."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from holdfast.conversation import (
    Answer,
    Cancel,
    Fail,
    OnDetach,
    OnLost,
    Present,
    Principal,
    Proof,
    Redispatch,
    State,
    Wake,
    evolve,
)
from holdfast.conversation.judging.clients import MOST_CLAIMS
from holdfast.conversation.log.index import delta, pending_entries
from holdfast.conversation.terms.presence import GONE_MS, client_name
from holdfast.errors import HoldfastError

PEOPLE = [Principal("ana", proof=Proof.KEY), Principal("lee", proof=Proof.KEY), None]
CLIENTS = st.tuples(st.sampled_from(["tab-1", "tab-2"]), st.sampled_from(PEOPLE))
RULES = st.sampled_from(OnLost)
DECISIONS = st.sampled_from([Answer("here"), Fail("no"), Cancel(), Redispatch()])


class Clients(RuleBasedStateMachine):
    """Three calls of one answer, and clients that come, act, and are gone."""

    def __init__(self, conversations):
        super().__init__()
        self.conversations = conversations
        self.attached = {}
        self.claimants = {}  # call id -> the name of its client

    @initialize(rules=st.lists(RULES, min_size=3, max_size=3), grace_s=st.sampled_from([5, 5, 20, None]))
    def calls_wait(self, rules, grace_s):
        tools = ("locate", "lookup", "charge")  # the desk's, each for clients here
        client = {name: {"executor": "client", "on_lost": one} for name, one in zip(tools, rules, strict=True)}
        spec = self.conversations.desk_with(**client).model_copy(update={"client_grace_s": grace_s})
        self.conversation = self.conversations(spec=spec).begun()
        self.called = self.conversation.call(*tools)
        self.due_at = self.conversation.state.due_at

    # What clients do.

    @rule(
        one=CLIENTS, on_detach=st.sampled_from(OnDetach), tools=st.sampled_from([("locate", "lookup"), ("charge",), ("none",)])
    )
    def attaches(self, one, on_detach, tools):
        until = self.conversation.now + GONE_MS
        client_id, principal = one
        present = Present(client_id=client_id, principal=principal, tools=tools, on_detach=on_detach, until=until)
        self.attached[present.name] = present

    @precondition(lambda self: self.attached)
    @rule(data=st.data())
    def renews(self, data):
        name = data.draw(st.sampled_from(sorted(self.attached)), label="client")
        until = self.conversation.now + GONE_MS
        self.attached[name] = self.attached[name].model_copy(update={"until": until})

    @precondition(lambda self: self.attached)
    @rule(data=st.data(), forgotten=st.booleans())
    def leaves(self, data, forgotten):
        name = data.draw(st.sampled_from(sorted(self.attached)), label="client")
        present = self.attached.pop(name)
        if not forgotten:
            self.attached[name] = present.model_copy(update={"until": min(present.until, self.conversation.now)})

    @rule(one=CLIENTS, data=st.data(), on_detach=st.sampled_from(OnDetach))
    def claims(self, one, data, on_detach):
        call, was = self._call(data), dict(self.claimants)
        judgement = self._does("claim", one[0], call, principal=one[1], on_detach=on_detach)
        if judgement is not None:
            assert call not in was, "a call has two claimants"
            assert judgement.reply.attempt == self.conversation.state.calls.of(call).claims

    @rule(one=CLIENTS, data=st.data(), began=st.booleans())
    def gives_back(self, one, data, began):
        call, was = self._call(data), dict(self.claimants)
        if self._does("give_back", one[0], call, principal=one[1], began=began) is not None:
            assert was[call] == client_name(*one)

    @rule(one=CLIENTS, data=st.data(), decision=DECISIONS, named=st.booleans())
    def decides(self, one, data, decision, named):
        call, was = self._call(data), dict(self.claimants)
        judgement = self._does("resolve", decision, call, principal=one[1], client_id=one[0] if named else "")
        if judgement is not None and call in was and not isinstance(decision, Cancel):
            assert named
            assert was[call] == client_name(*one)

    @rule(one=CLIENTS)
    def cancels_what_waits_for_it(self, one):
        was = dict(self.claimants)
        judgement = self._does("cancel_pending", client_id=one[0], principal=one[1])
        if judgement is not None:
            assert {call for call, name in was.items() if name == client_name(*one)} == set(judgement.reply.calls)

    # What time does.

    @rule(seconds=st.sampled_from([1, 4, 11, 21, 61]))
    def time_passes(self, seconds):
        self._wakes_until(self.conversation.now + seconds * 1000)

    def _wakes_until(self, until):
        """The shell's part: it wakes the conversation when it is due, and at each departure."""
        conversation = self.conversation
        for _ in range(400):
            leaves = [one.until + 5_000 for one in self.attached.values() if one.on_detach is OnDetach.CANCEL]
            times = [*(at for at in leaves if at > conversation.now), *([] if self.due_at is None else [self.due_at])]
            at = max(min(times, default=until + 1), conversation.now)
            if at > until:
                conversation.now = until
                return
            judgement = self._does("wake", at=at)
            assert self.due_at is None or self.due_at > at, "something is still due"
            self._nothing_happens_before_it_is_due(judgement)
        raise AssertionError("it is always due again at once")

    def _nothing_happens_before_it_is_due(self, judgement):
        assert judgement.due_at is None or judgement.due_at == self.due_at
        later = (self.due_at or self.conversation.now + 100_000) - 1
        leaves = [one.until + 5_000 for one in self.attached.values() if one.on_detach is OnDetach.CANCEL]
        at = min([later, *(moment - 1 for moment in leaves if moment > self.conversation.now)])
        now, self.conversation.now = self.conversation.now, at
        self.conversation.present = tuple(self.attached.values())
        assert not self.conversation.judge(Wake()).events
        self.conversation.now = now

    # The steps.

    def _call(self, data):
        return data.draw(st.sampled_from(self.called), label="call")

    def _does(self, step, *args, **more):
        conversation = self.conversation
        conversation.present = tuple(self.attached.values())
        before, logged = conversation.state, len(conversation.log)
        try:
            judgement = getattr(conversation, step)(*args, **({"at": conversation.now} | more))
        except HoldfastError:
            assert (conversation.state, len(conversation.log)) == (before, logged)
            return None
        for event in conversation.log[logged:]:
            self._account(event)
        changes = delta(before, conversation.state, judgement.events)
        stood = {*pending_entries(before)} - {*changes.closed} | {*changes.opened}
        assert stood == {*pending_entries(conversation.state)}, "the lists miss a change"
        self.due_at = judgement.due_at if judgement.due_at is not None else conversation.state.due_at
        self._the_state_tells_who_has_claimed()
        return judgement

    def _account(self, event):
        match event.kind:
            case "call_claimed":
                assert event.tool_call_id not in self.claimants
                self.claimants[event.tool_call_id] = event.client
                assert 1 <= event.attempt <= MOST_CLAIMS
            case "call_given_back":
                assert self.claimants.pop(event.tool_call_id, None) is not None
            case "suspension_settled":
                claimant = self.claimants.pop(event.tool_call_id, None)
                if claimant is not None and event.by in ("answer", "fail"):
                    assert claimant.startswith(f"{'' if event.principal is None else event.principal.mark}/")
            case "run_scheduled":
                raise AssertionError("a worker runs a client's call")

    def _the_state_tells_who_has_claimed(self):
        state = self.conversation.state
        found = {call.tool_call_id: call.suspension.claim.name for call in state.calls.awaiting() if call.suspension.claim}
        assert found == self.claimants
        assert all(len(call.suspension.notes) <= 1 for call in state.calls.awaiting())

    def teardown(self):
        folded = State(conversation_id="c-1")
        for event in self.conversation.log:
            folded = State.model_validate_json(
                evolve(folded, type(event).model_validate_json(event.model_dump_json())).model_dump_json()
            )
        assert folded == self.conversation.state
        self.attached = {}
        for _ in range(40):
            self._wakes_until(self.conversation.now + 1_001_000)
            for call in self.conversation.state.calls.awaiting():
                self._does("resolve", Cancel(), call.tool_call_id)
        assert not self.conversation.state.calls.any_open
        super().teardown()


def test_each_call_has_one_claimant_at_a_time_and_ends(conversations):
    run_state_machine_as_test(
        lambda: Clients(conversations),
        settings=settings(max_examples=120, stateful_step_count=40, deadline=None, database=None),
    )
