"""What permission rules say of a call, as the machine knows it: their judgement is made where the app's code is."""

from enum import StrEnum

from holdfast.conversation.record import Record

from .approvers import ApproverTerms


class RuleEffect(StrEnum):
    """What is to become of a call."""

    ALLOW = "allow"  # it goes on without asking
    ASK = "ask"  # a person approves it first
    DENY = "deny"  # it does not run


class RuleVerdict(Record):
    """A verdict of permission rules on one call.

    Attributes:
        effect: What is to become of the call.
        rule: The name of the rule that says so; empty where no single rule does.
        reason: Why, in the rule's words.
        approvers: Who may approve the call, where somebody is asked; None where the call's own terms are not changed.
        lapsed: The grants that end, since their givers may not decide the call any more.
    """

    effect: RuleEffect
    rule: str = ""
    reason: str = ""
    approvers: ApproverTerms | None = None
    lapsed: tuple[str, ...] = ()

    @property
    def denial(self) -> str:
        """The error text that the model reads of a denied call."""
        by = f"by the rule {self.rule!r}" if self.rule else "by the permission rules"
        reason = f": {self.reason.rstrip(' .')}" if self.reason else ""
        return f"denied {by}{reason}; it did not run"
