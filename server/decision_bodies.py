"""The bodies that say decisions: one about a pending call, one about a call of a conversation, and several at once."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, RootModel

from holdfast.conversation import Answer, Approve, Cancel, Decision, Deny, Fail, Level, Redispatch, Review, Scope
from holdfast.conversation.batches import MOST

from .bodies import Body, Key

MOST_EACH = 100
"""How many decisions one request may bring that are judged each by itself; every one counts as a request of its caller."""
Reason: TypeAlias = Annotated[str, Field(description="Why; the log keeps it, and the model reads it of `deny` and `cancel`.")]


class ScopeBody(Body):
    """What may run without asking from now on, beyond the call that is approved."""

    kind: str = Field(description="The kind of targets: `tool`, `path`, `domain`, `command` or one of your own.")
    pattern: str = Field(description="A glob over their values: `src/**`.")
    level: Literal["read", "write", "execute", "admin"] = Field(description="Up to which level; each includes those before it.")
    ends_s: float | None = Field(default=None, description="After how many seconds it ends; by default with the conversation.")
    everything: bool = Field(default=False, description="Whether the pattern may cover every value of its kind.")

    def given(self) -> Scope:
        """The scope.

        Raises:
            InvalidDecision: A field cannot be used.
        """
        return Scope(self.kind, self.pattern, level=Level(self.level), ends_s=self.ends_s, everything=self.everything)


class _Approve(Body):
    decision: Literal["approve"]
    arguments: dict[str, Any] | None = None
    reason: Reason = ""
    scope: ScopeBody | None = Field(
        default=None, description="Lets more than this call run without asking; it does not go with edited arguments."
    )

    def decided(self) -> Decision:
        """The decision.

        Raises:
            InvalidDecision: The scope cannot be used.
        """
        return Approve(self.arguments, reason=self.reason, scope=None if self.scope is None else self.scope.given())


class _Deny(Body):
    decision: Literal["deny"]
    reason: Reason = ""

    def decided(self) -> Decision:
        """The decision."""
        return Deny(self.reason)


class _Answer(Body):
    decision: Literal["answer"]
    value: Any
    reason: Reason = ""

    def decided(self) -> Decision:
        """The decision."""
        return Answer(self.value, reason=self.reason)


class _Fail(Body):
    decision: Literal["fail"]
    error: str
    reason: Reason = ""

    def decided(self) -> Decision:
        """The decision."""
        return Fail(self.error, reason=self.reason)


class _Redispatch(Body):
    decision: Literal["redispatch"]
    reason: Reason = ""

    def decided(self) -> Decision:
        """The decision."""
        return Redispatch(reason=self.reason)


class _Cancel(Body):
    decision: Literal["cancel"]
    reason: Reason = ""

    def decided(self) -> Decision:
        """The decision."""
        return Cancel(self.reason)


class _Review(Body):
    decision: Literal["review"]
    verdict: Literal["allow", "block", "review"] = Field(description="`review`: the agent is to revise it, and may ask again.")
    notes: str = Field(default="", description="What the agent reads beside the verdict.")

    def decided(self) -> Decision:
        """The decision."""
        return Review(self.verdict, self.notes)


class _Place(Body):
    conversation_id: str | None = Field(
        default=None,
        description="The conversation of the suspension, as the list of pending calls names it. Without it, a suspension is "
        "found only while it is open, and a repetition of a recorded decision is refused as stale.",
    )
    tool_call_id: str | None = Field(
        default=None, description="The call of the suspension. Given beside the conversation, nothing has to be looked up."
    )


class _OfSuspension(_Place):
    decision_id: Key = None


class ApproveBody(_Approve, _OfSuspension):
    """The call may run, with its own arguments or with edited ones."""


class DenyBody(_Deny, _OfSuspension):
    """The call must not run, or the person will not answer."""


class AnswerBody(_Answer, _OfSuspension):
    """The call's result; `false`, `0`, `""` and `null` are answers like any other."""


class FailBody(_Fail, _OfSuspension):
    """The client could not produce a result, or a lost run counts as failed."""


class RedispatchBody(_Redispatch, _OfSuspension):
    """A lost run is to run again."""


class CancelBody(_Cancel, _OfSuspension):
    """The call is not to happen any more, and its turn goes on without it."""


class ReviewBody(_Review, _OfSuspension):
    """A verdict on what a tool's body asks to have reviewed."""


class ResolveBody(
    RootModel[
        Annotated[
            ApproveBody | DenyBody | AnswerBody | FailBody | RedispatchBody | CancelBody | ReviewBody,
            Field(discriminator="decision"),
        ]
    ]
):
    """A decision about a pending call, by its kind."""

    @property
    def decision_id(self) -> str | None:
        """The idempotency key."""
        return self.root.decision_id


class _OfCall(Body):
    decision_id: Key = None
    tool_call_id: str = Field(description="The call.")
    suspension_id: str | None = Field(
        default=None, description="Binds the decision to what was shown; needed once the call has been suspended twice."
    )


class ApproveCallBody(_Approve, _OfCall):
    """The call may run, with its own arguments or with edited ones."""


class DenyCallBody(_Deny, _OfCall):
    """The call must not run, or the person will not answer."""


class AnswerCallBody(_Answer, _OfCall):
    """The call's result; `false`, `0`, `""` and `null` are answers like any other."""


class FailCallBody(_Fail, _OfCall):
    """The client could not produce a result, or a lost run counts as failed."""


class RedispatchCallBody(_Redispatch, _OfCall):
    """A lost run is to run again."""


class CancelCallBody(_Cancel, _OfCall):
    """The call is not to happen any more, and its turn goes on without it."""


class ReviewCallBody(_Review, _OfCall):
    """A verdict on what a tool's body asks to have reviewed."""


class ResolveCallBody(
    RootModel[
        Annotated[
            ApproveCallBody
            | DenyCallBody
            | AnswerCallBody
            | FailCallBody
            | RedispatchCallBody
            | CancelCallBody
            | ReviewCallBody,
            Field(discriminator="decision"),
        ]
    ]
):
    """A decision about a call of a conversation, by its kind."""

    @property
    def decision_id(self) -> str | None:
        """The idempotency key."""
        return self.root.decision_id


class _OfSeveral(_Place):
    suspension_id: str = Field(max_length=1000, description="Binds the decision to what was shown.")


class ApproveItem(_Approve, _OfSeveral):
    """The call may run, with its own arguments or with edited ones."""


class DenyItem(_Deny, _OfSeveral):
    """The call must not run, or the person will not answer."""


class AnswerItem(_Answer, _OfSeveral):
    """The call's result; `false`, `0`, `""` and `null` are answers like any other."""


class FailItem(_Fail, _OfSeveral):
    """The client could not produce a result, or a lost run counts as failed."""


class RedispatchItem(_Redispatch, _OfSeveral):
    """A lost run is to run again."""


class CancelItem(_Cancel, _OfSeveral):
    """The call is not to happen any more, and its turn goes on without it."""


class ReviewItem(_Review, _OfSeveral):
    """A verdict on what a tool's body asks to have reviewed."""


class DecisionItem(
    RootModel[
        Annotated[
            ApproveItem | DenyItem | AnswerItem | FailItem | RedispatchItem | CancelItem | ReviewItem,
            Field(discriminator="decision"),
        ]
    ]
):
    """One of several decisions, by its kind."""


class ResolveManyBody(Body):
    """Decisions about pending calls of one conversation, each by its suspension alone: all are taken, or none."""

    decisions: list[DecisionItem] = Field(min_length=1, max_length=MOST)
    decision_id: Key = None


class ResolveEachBody(Body):
    """Decisions about pending calls of whatever conversations, each taken or refused by itself."""

    decisions: list[DecisionItem] = Field(min_length=1, max_length=MOST_EACH)
    decision_id: Key = None
