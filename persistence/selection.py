"""Which open suspensions a page shows: the indexes that find them, and what is still to be asked of each row."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.conversation import Principal, SuspensionKind
from holdfast.conversation.records.calls import PendingView

from . import pages
from .keys import index_name


@dataclass(frozen=True, slots=True)
class Selection:
    """The suspensions wanted; None: of any. `since` and `until` (ms UTC) are the latest beginning and the latest deadline."""

    agent: str | None = None
    kind: SuspensionKind | None = None
    tool: str | None = None
    approver: Principal | None = None
    since: int | None = None
    until: int | None = None

    @property
    def needs_further(self) -> bool:
        """Whether an index by tool, decider or deadline would find them sooner."""
        return (self.tool, self.approver, self.until) != (None, None, None)

    def indexes(self, *, further: bool) -> tuple[Sequence[str], str, frozenset[str]]:
        """The indexes that hold all wanted suspensions, the text before which they stand, and the fields that need no look.

        With an index by deadline they come in its order, else by age. `further`: indexes by tool, decider and deadline count.
        """
        older = "" if self.since is None else f"{self.since + 1:015d}"
        if further and self.until is not None:
            return [f"pending:{pages.BY_DEADLINE}"], f"{self.until + 1:015d}", frozenset({"until"})
        if further and self.approver is not None:
            names = ("", f"id:{self.approver.id}", *(f"role:{role}" for role in self.approver.roles))
            return [f"pending:{pages.BY_DECIDER}{name}" for name in names], older, frozenset()
        if further and self.tool is not None:
            return [f"pending:{pages.BY_TOOL}{self.tool}"], older, frozenset({"tool"})
        return [index_name("pending", self.agent, self.kind)], older, frozenset({"agent", "kind"})

    def keeps(self, row: PendingView, sure: frozenset[str]) -> bool:
        """Whether a row is wanted, as far as it can be read; the fields in `sure` are not looked at.

        Whether the approver may decide is for the caller to ask: here it only narrows the search.
        """
        for name in ("agent", "kind", "tool"):
            if name not in sure and getattr(self, name) not in (None, getattr(row, name)):
                return False
        if self.since is not None and not 0 < row.created_at <= self.since:  # 0: it cannot be read
            return False
        return "until" in sure or self.until is None or (row.expires_at is not None and row.expires_at <= self.until)
