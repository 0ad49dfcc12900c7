"""Any sequence of grants, uses and revocations: what runs without a person's decision does so by grants that stand.

The workers are part of it: they hold requests for runs as long as they like, and claim as the stores let them.
"""

import functools

import writer as steps
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from holdfast.conversation import (
    Approval,
    Approve,
    CallModel,
    Deny,
    Execution,
    Fail,
    OnLost,
    Redispatch,
    Review,
    RunRuled,
    RunTool,
    State,
    SuspensionKind,
    evolve,
    outstanding,
)
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.grants import MOST_GRANTS, CallTarget, Level, Scope, covering, tool_target
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import HoldfastError

SOURCE = (CallTarget(kind="path", value="src/a", level=Level.WRITE),)
TARGETS = st.sampled_from(
    [
        *[SOURCE] * 6,
        None,
        (),
        (CallTarget(kind="path", value="src/a", level=Level.READ), CallTarget(kind="path", value="lib/a", level=Level.READ)),
        (CallTarget(kind="path", value="src/a", level=Level.ADMIN),),
    ]
)
TOOLS = st.sampled_from(["refund", "refund", "refund", "ship", "lookup", "share"])
SCOPES = st.sampled_from(
    [
        *[Scope("path", "src/**", level="write")] * 3,
        None,
        Scope("path", "src/**", level="write", ends_s=20),
        Scope("path", "lib/**", level="read", ends_s=20),
        Scope("path", "**", level="write", everything=True),
        Scope("tool", "*", level="execute", everything=True, ends_s=30),
    ]
)
RULED = st.sampled_from(
    [None, None, None, RuleVerdict(effect=RuleEffect.ASK, rule="look"), RuleVerdict(effect=RuleEffect.ALLOW, rule="go")]
)


class Granting(RuleBasedStateMachine):
    """One conversation whose approvers give scopes, and an account of them that is kept without the machine."""

    def __init__(self, conversations):
        super().__init__()
        self.conversations = conversations
        self.given = {}  # grant id -> grant, without those that were revoked
        self.revoked = set()
        self.again = set()  # calls of which a person has said that they are to run again
        self.requests = []  # what actors have asked workers for, however long ago
        self.claimed = {}  # effect id -> the request by which it was claimed
        self.numbers = iter(range(10**6))

    @initialize(execution=st.sampled_from(Execution))
    def begins(self, execution):
        changed = {"refund": {"on_lost": OnLost.REDISPATCH}, "lookup": {"on_lost": OnLost.REDISPATCH}}
        spec = self.conversations.desk_with({"max_model_calls": 1000}, **changed)
        self.conversation = self.conversations(spec=spec.model_copy(update={"execution": execution})).begun()

    # What happens.

    @precondition(lambda self: any(isinstance(effect, CallModel) for effect in outstanding(self.state)))
    @rule(calls=st.lists(st.tuples(TOOLS, TARGETS, RULED), min_size=1, max_size=4))
    def the_model_asks(self, calls):
        proposed = (
            ProposedCall(
                tool_call_id=f"call-{next(self.numbers)}", name=name, arguments='{"amount":5}', targets=targets, ruled=ruled
            )
            for name, targets, ruled in calls
        )
        self._do(steps.call(*proposed))

    @precondition(lambda self: self.state.calls.awaiting())
    @rule(data=st.data(), scope=SCOPES, denied=st.sampled_from([False] * 5 + [True]))
    def somebody_decides(self, data, scope, denied):
        call = data.draw(st.sampled_from(list(self.state.calls.awaiting())), label="call")
        self._do(steps.resolve(self._decision(call, scope, denied=denied), suspension_id=call.suspension.suspension_id))

    @precondition(lambda self: len(list(self.state.calls.awaiting())) > 1)
    @rule(data=st.data())
    def somebody_decides_several_at_once(self, data):
        waiting = data.draw(st.permutations(list(self.state.calls.awaiting())), label="calls")[:3]
        decisions = {
            call.tool_call_id: self._decision(call, data.draw(SCOPES), denied=data.draw(st.booleans())) for call in waiting
        }
        before = len(self.conversation.log)
        self._do(steps.resolve_many(decisions))
        settled = [event for event in self.conversation.log[before:] if event.kind == "suspension_settled"]
        assert [event.tool_call_id for event in settled[: len(waiting)]] == list(decisions), "another took a decision's place"

    @staticmethod
    def _decision(call, scope, *, denied):
        match call.suspension.kind:
            case SuspensionKind.APPROVAL:
                return Deny("no") if denied else Approve(scope=scope)
            case SuspensionKind.LOST:
                return Redispatch()
            case SuspensionKind.REVIEW:
                return Review("allow", "fine")
            case _:
                return Fail("no GPS")

    @precondition(lambda self: self.given or self.revoked)
    @rule(data=st.data())
    def a_grant_is_revoked(self, data):
        grant_id = data.draw(st.sampled_from(sorted([*self.given, *self.revoked])), label="grant")
        self._do(steps.revoke(grant_id))
        assert grant_id not in {grant.grant_id for grant in self.state.grants}

    @rule(seconds=st.sampled_from([1, 1, 25]))
    def time_passes(self, seconds):
        self.conversation.now += 1000 * seconds
        self._do(steps.wake())

    @precondition(lambda self: self._runs())
    @rule(data=st.data())
    def a_worker_is_asked_for_a_run(self, data):
        self.requests.append(data.draw(st.sampled_from(self._runs()), label="run"))

    @precondition(lambda self: self._runs())
    @rule(data=st.data(), late=st.booleans())
    def a_worker_claims(self, data, late):
        """What it was asked for lately or long ago; what cannot be claimed it refuses, as the stores let it."""
        wanted = self.requests if late and self.requests else self._runs()
        request = data.draw(st.sampled_from(wanted), label="request")
        if request.effect_id in self.claimed or request.effect_id not in {one.effect_id for one in self._runs()}:
            return
        in_time = request.grants_until is None or self.conversation.now < request.grants_until
        if not request.grants or (request.grants_epoch == self.state.grants_epoch and in_time):
            self.claimed[request.effect_id] = request
            self._claimed_by_what_stands(request)
        else:
            self._do(RunRuled(effect_id=request.effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))

    @precondition(lambda self: self._at_work())
    @rule(data=st.data(), how=st.sampled_from(["finish", "finish", "lose", "lose", "suspend"]))
    def a_claimed_run_ends(self, data, how):
        effect_id = data.draw(st.sampled_from(self._at_work()), label="run")
        end = {"finish": steps.finish, "lose": steps.lose, "suspend": steps.suspend}[how]
        self._do(end(effect_id))

    # The account.

    @property
    def state(self):
        return self.conversation.state

    def _runs(self):
        return [effect for effect in outstanding(self.state) if isinstance(effect, RunTool)]

    def _at_work(self):
        return [run.effect_id for run in self._runs() if run.effect_id in self.claimed]

    def _standing(self, at):
        return [grant for grant in self.given.values() if grant.ends_at is None or at < grant.ends_at]

    def _do(self, step):
        before = len(self.conversation.log)
        try:
            self.conversation.do(step)
        except HoldfastError:
            assert len(self.conversation.log) == before
        for event in self.conversation.log[before:]:
            getattr(self, f"_{event.kind}", lambda _event: None)(event)
        self._the_state_tells_what_stands()

    def _grant_given(self, event):
        assert event.grant.grant_id not in self.given.keys() | self.revoked
        self.given[event.grant.grant_id] = event.grant

    def _grant_revoked(self, event):
        del self.given[event.grant_id]
        self.revoked.add(event.grant_id)

    def _suspension_settled(self, event):
        if event.decision == "redispatch":
            self.again.add(event.tool_call_id)
        assert (event.by == "grant") == bool(event.grants)
        if event.by == "grant":
            call = self._called(event.tool_call_id)
            self._cover(event.grants, call.tool, call.targets, event.at)

    def _run_scheduled(self, event):
        if event.approval is not Approval.REQUIRED or event.decided_at or event.tool_call_id in self.again:
            assert event.grants == ()
            return
        assert event.grants, "it runs without a decision and without a grant"
        if event.attempt > 1 and self._scheduled(event, event.attempt - 1).grants and not self._covered(event):
            assert self._claimable_never(event)  # its worker is gone, and so are its grants: the claim will refuse it
        else:
            self._cover(event.grants, event.tool, event.targets, event.at)

    def _scheduled(self, event, attempt):
        return next(
            one
            for one in self.conversation.log
            if one.kind == "run_scheduled" and (one.tool_call_id, one.attempt) == (event.tool_call_id, attempt)
        )

    def _covered(self, event):
        targets = (tool_target(event.tool),) if event.targets is None else event.targets
        return covering(self._standing(event.at), targets, at=event.at) is not None

    def _claimable_never(self, event):
        (run,) = [one for one in self._runs() if one.tool_call_id == event.tool_call_id]
        return run.grants_until is not None and run.grants_until <= event.at

    def _called(self, tool_call_id):
        return self.state.calls.of(tool_call_id)

    def _cover(self, grant_ids, tool, targets, at):
        named = [grant for grant in self._standing(at) if grant.grant_id in grant_ids]
        assert [grant.grant_id for grant in named] == sorted(grant_ids, key=list(self.given).index), "one does not stand"
        wanted = (tool_target(tool),) if targets is None else targets
        assert covering(named, wanted, at=at) is not None, "they do not cover all that it touches"

    def _claimed_by_what_stands(self, request):
        """Nothing is claimed by a grant that was revoked before, or has ended."""
        if request.grants:
            call = self._called(request.tool_call_id)
            assert not self.revoked & set(request.grants), "it was claimed by a grant that was revoked"
            self._cover(request.grants, call.tool, call.targets, self.conversation.now)

    def _the_state_tells_what_stands(self):
        state = self.state
        assert len(state.grants) <= MOST_GRANTS
        assert [grant for grant in state.grants if grant in self._standing(state.updated_at)] == self._standing(
            state.updated_at
        )
        assert {grant.grant_id for grant in state.grants} <= self.given.keys()
        assert state.grants_epoch == len(self.revoked)
        for call in state.calls.awaiting():
            assert call.status is CallStatus.AWAITING
            if call.suspension.kind is SuspensionKind.APPROVAL:
                wanted = (tool_target(call.tool),) if call.targets is None else call.targets
                assert covering(state.grants, wanted, at=self.conversation.now) is None, "it waits for what was granted"

    def teardown(self):
        if hasattr(self, "conversation"):
            log = [type(event).model_validate_json(event.model_dump_json()) for event in self.conversation.log]
            again = functools.reduce(evolve, log, State(conversation_id=self.state.conversation_id))
            assert again == self.state == State.model_validate_json(self.state.model_dump_json())
            assert outstanding(again) == outstanding(self.state)
        super().teardown()


def test_what_runs_without_a_decision_does_so_by_grants_that_stand(conversations):
    run_state_machine_as_test(
        lambda: Granting(conversations),
        settings=settings(max_examples=200, stateful_step_count=40, deadline=None, database=None),
    )
