"""A tool call as the model proposes it."""

from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.rule_verdict import RuleVerdict
from holdfast.conversation.text.jsontext import JsonText


class ProposedCall(Record):
    """A tool call as the model wrote it, with what the app's code says about it.

    `problem` says why the call's arguments cannot be used; `prompt` is the tool's prompt, rendered for this call; `ruled` is
    the verdict of permission rules, if there are any. `targets` are what it touches; None: its tool does not say, empty:
    unknown, so no grant covers the call. `approvers` are those that its tool names; None: anybody. `ruling` is the app's
    decision about the call if it would ask a person in an unattended conversation. `context` is what a delegating tool makes of
    the conversation's context for its child; None: the child has the same.
    """

    tool_call_id: str
    name: str
    arguments: str
    problem: str | None = None
    prompt: str | None = None
    ruled: RuleVerdict | None = None
    targets: tuple[CallTarget, ...] | None = None
    approvers: ApproverTerms | None = None
    ruling: DecisionRecord | None = None
    context: JsonText | None = None
