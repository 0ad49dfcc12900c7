"""One conversation as the store in memory keeps it."""

from dataclasses import dataclass, field

from holdfast.conversation import State, Status
from holdfast.conversation.log.index import PendingEntry, has_given

from . import pages
from .conversations import Blame
from .runs import Late, Run


@dataclass(slots=True)
class Kept:
    """The log, snapshot, index entries, lease and other records of one conversation. Times in ms UTC."""

    token: str = ""
    epoch: int = 0
    actor: str = ""
    lease: int = 0
    append_id: str = ""
    at: int = 0
    log: list[bytes] = field(default_factory=list)
    snapshot: bytes = b""
    folded: int = 0
    after: State | None = None
    pending: dict[str, PendingEntry] = field(default_factory=dict)
    blame: Blame = field(default_factory=Blame)
    struck_by: frozenset[str] = frozenset()
    quarantine: tuple[bytes, int] | None = None
    known: dict[str, bytes] = field(default_factory=dict)
    passing: dict[str, bytes] = field(default_factory=dict)
    passing_until: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    late: dict[str, Late] = field(default_factory=dict)
    abandoned: dict[str, Run] = field(default_factory=dict)
    postponed: int = 0
    looked_at: int = 0
    paused: bool = False
    charged_to: str = ""
    expires: int | None = None

    @property
    def listed(self) -> State | None:
        """The state behind its row in lists; None before the start."""
        return self.after if self.after is not None and self.after.seq else None

    def members(self, index: str, conversation_id: str, other: str | None) -> list[str]:
        """Its members of an index of lists, of all or of one kind of suspension or status."""
        if self.listed is None:
            return []
        if index == "pending":  # each append's delta opens and closes suspensions, as in Redis
            return [pages.pending_member(conversation_id, one) for one in self.pending.values() if other in (None, one.kind)]
        wanted = has_given(self.listed) if index == "given" else other in (None, self.status)
        return [pages.conversation_member(self.listed.created_at, conversation_id)] if wanted else []

    @property
    def busy(self) -> bool:
        """Whether any effect is outstanding."""
        return self.after is not None and self.after.busy

    @property
    def tail_bytes(self) -> int:
        """The size of the log after the last snapshot."""
        return sum(map(len, self.log[self.folded :]))

    @property
    def status(self) -> Status:
        """The status shown in lists."""
        if self.quarantine is not None:
            return Status.QUARANTINED
        return self.after.status if self.after is not None else Status.ABSENT

    @property
    def attention(self) -> int | None:
        """When (ms UTC) the conversation needs attention; None: not at all."""
        if self.quarantine is not None:
            return None
        moments = [self.lease if self.token else self.looked_at] if self.busy and not self.paused else []
        due = self.after.due_at if self.after is not None else None
        if due is not None:
            moments.append(due)
        return max(min(moments), self.postponed) if moments else None
