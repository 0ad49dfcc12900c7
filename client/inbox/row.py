"""A pending call in a list, most urgent first, and what its form needs to know of it."""

import math
from dataclasses import dataclass
from typing import Any

from holdfast.client import PendingCall
from holdfast.client.agents import ToolRow
from holdfast.conversation.terms.approvers import said

from .text import one_line, summary


def urgency(call: PendingCall[Any]) -> tuple[float, int]:
    """The key that sorts calls: those that expire first, and of these the oldest, come first."""
    return math.inf if call.expires_at is None else call.expires_at, call.created_at


@dataclass(frozen=True, slots=True)
class Row:
    """A call in the list."""

    call: PendingCall[Any]

    @property
    def said(self) -> str:
        """The arguments in a line; of long ones the beginning, with their size."""
        cut = self.call.cut.get("arguments")
        said = summary(self.call.arguments) if cut is None else one_line(f"{cut.size_bytes} bytes: {cut.begins}")
        return self.call.problem or said

    @property
    def noted(self) -> str:
        """The client that runs it, who decides since an escalation, votes, assignee, number of comments; empty without any."""
        terms, comments, claimed = self.call.approvers, len(self.call.comments), self.call.claimed
        found = [f"{claimed.client_id} runs it"] if claimed is not None else []
        found += [f"escalated to {approvers_of(self.call)}"] if self.call.escalated_at is not None else []
        found += [f"{len(self.call.votes)} of {terms.minimum} have agreed"] if self.call.votes and terms is not None else []
        found += [f"{self.call.assigned} is on it"] if self.call.assigned else []
        found += [f"{comments} comment{'' if comments == 1 else 's'}"] if comments else []
        return " · ".join(found)


def approvers_of(call: PendingCall[Any]) -> str:
    """Who may decide a call, in a line; empty if there is no restriction."""
    terms = call.approvers
    return "" if terms is None else said(terms.who, terms.minimum, not_requester=terms.not_requester)


def parameters_of(tool: ToolRow | None) -> Any:
    """The schema of a tool's arguments; True, which accepts anything, if not known."""
    return True if tool is None else tool.parameters
