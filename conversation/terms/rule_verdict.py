"""The verdict of permission rules on a call. Workers, which have the app's code, make it."""

from enum import StrEnum

from holdfast.conversation.record import Record

from .approvers import ApproverTerms
from .stages import OnTimeout


class RuleEffect(StrEnum):
    """The effect of a rule on a call."""

    ALLOW = "allow"  # it goes on without asking
    ASK = "ask"  # a person approves it first
    DENY = "deny"  # it does not run


class RuleVerdict(Record):
    """A verdict of permission rules on one call.

    Attributes:
        effect: The effect on the call.
        rule: The name of the rule that says so; empty if no single rule does.
        reason: The rule's reason, in its words.
        approvers: Who may approve the call, if somebody is asked; None: the call's own terms are unchanged.
        lapsed: The grants that end, since their givers may no longer decide the call.
        on_timeout: What follows if nobody decides in time; None: what the call's tool says.
    """

    effect: RuleEffect
    rule: str = ""
    reason: str = ""
    approvers: ApproverTerms | None = None
    lapsed: tuple[str, ...] = ()
    on_timeout: OnTimeout | None = None

    @property
    def denial(self) -> str:
        """The error text that the model reads about a denied call."""
        return f"{self.denied_by}; it did not run"

    @property
    def denied_by(self) -> str:
        """What denies a call, in words: the rule, with its reason."""
        by = f"by the rule {self.rule!r}" if self.rule else "by the permission rules"
        reason = f": {self.reason.rstrip(' .')}" if self.reason else ""
        return f"denied {by}{reason}"
