"""What the models' answers used: tokens, cost and time, as their events say; of one conversation, or of a page of them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import Field

from holdfast.conversation import Event
from holdfast.conversation.records import events
from holdfast.errors import ConversationNotFound, StoreError, StoreUnavailable
from holdfast.metrics import OTHER
from holdfast.persistence import Store
from holdfast.persistence.pages import check_limit

from . import filters
from .results import Result

READ_AT_ONCE = 500
"""How many entries of a log are read at once."""
USD_DIGITS = 9
MOST_ENTRIES = 50_000
"""After so many entries of logs a page of conversations ends."""
_FAILED = events.SummaryFailure
UNANSWERED = (_FAILED.NO_ANSWER, _FAILED.OVERFLOW, _FAILED.UNUSABLE, _FAILED.NOT_ASKED)
"""Why summaries failed that were not paid for, as far as is known."""
MOST_ROWS = 200
"""The most rows of a report; further names, which a model may make up, share the row `other`."""
_N = TypeVar("_N", int, float)


class UsageBy(StrEnum):
    """What the rows of a usage are about."""

    MODEL = "model"  # the model that answered
    TOOL = "tool"  # the tool that an answer asked for; an answer without calls has the row ""
    AGENT = "agent"  # the agent of the conversation


_EACH = "None unless it is known for each"


class Usage(Result):
    """What answers of models used together."""

    model_calls: int = Field(default=0, description="How many answers there are, summaries included.")
    input_tokens: int | None = Field(
        default=None, description="The tokens of all requests together; None unless the provider counted them for each."
    )
    output_tokens: int | None = Field(
        default=None, description="The tokens of all answers together; None unless the provider counted them for each."
    )
    cached_tokens: int = Field(
        default=0, description="How many tokens of the requests a provider's cache had, as far as providers said so."
    )
    reasoning_tokens: int = Field(
        default=0, description="How many tokens of the answers are thinking, as far as providers said so."
    )
    cost_usd: float | None = Field(
        default=None, description=f"What the answers cost in US dollars, by litellm's prices; {_EACH}."
    )
    model_ms: int | None = Field(
        default=None, description=f"The milliseconds of all model calls together, retries included; {_EACH}."
    )

    @classmethod
    def of(cls, answer: events.ModelAnswered | events.Compacted | events.SummaryFailed) -> "Usage":
        """What one answer used; nothing if there was none."""
        if isinstance(answer, events.SummaryFailed) and answer.reason in UNANSWERED and answer.input_tokens is None:
            return cls()
        names = cls.model_fields.keys() - {"model_calls", "model_ms"}
        return cls(model_calls=1, model_ms=answer.duration_ms, **{name: getattr(answer, name) for name in names})

    def __add__(self, other: "Usage") -> "Usage":
        """What both used together."""
        if not (self.model_calls and other.model_calls):
            return self if self.model_calls else other
        summed: dict[str, Any] = {name: _sum(getattr(self, name), getattr(other, name)) for name in Usage.model_fields}
        return Usage(**summed)


class UsageRow(Result):
    """What answers used, and the tool calls that they asked for."""

    name: str = Field(description="The model, tool or agent; empty if it is unknown, or for answers without calls.")
    usage: Usage = Field(default_factory=Usage, description="What the answers used.")
    tool_calls: int = Field(default=0, description="How many tool calls they asked for; of a tool, how many of its own.")
    tool_errors: int = Field(default=0, description="How many of these calls have an error as their result.")

    def __add__(self, other: "UsageRow") -> "UsageRow":
        """Both rows as one, of this name."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in ("usage", "tool_calls", "tool_errors")}
        return UsageRow(name=self.name, **counts)


class UsageReport(Result):
    """What a conversation used, or a page of conversations."""

    by: UsageBy = Field(description="What the rows are about.")
    rows: list[UsageRow] = Field(
        description="A row for each model, tool or agent, by name; after 200 names the row `other`. An answer that asked for "
        "several tools counts in the row of each."
    )
    total: Usage = Field(description="What all answers used; each counts once.")
    turns: int = Field(default=0, description="How many turns began.")
    conversations: int = Field(default=0, description="How many conversations were read.")
    unreadable: list[str] = Field(
        default_factory=list, description="The ids of conversations that cannot be read, and are not counted."
    )
    next: str | None = Field(default=None, description="Pass it as `after` for the conversations that follow; None at the end.")


class _Log:
    """The rows of one conversation, fed with the events of its log in their order.

    A row is named by a model, tool or agent, or, where an answer is that of an agent's first model, by the spec of its turn.
    """

    def __init__(self, by: UsageBy) -> None:
        self.rows: dict[tuple[str, str], UsageRow] = {}
        self.total = Usage()
        self.turns = 0
        self._by = by
        self._agent = self._digest = ""
        self._asked: dict[str, tuple[str, str]] = {}

    def add(self, event: Event) -> None:
        """Count an event."""
        match event:
            case events.ConversationStarted():
                self._agent = event.agent
            case events.TurnStarted():
                self.turns, self._digest = self.turns + 1, event.spec_digest
            case events.CompactionStarted():
                self._digest = event.spec_digest
            case events.ModelAnswered():
                self._answered(event)
            case events.Compacted() | events.SummaryFailed():
                self._summarised(event)
            case events.CallResolved() if not event.ok and event.tool_call_id in self._asked:
                self._count(self._asked[event.tool_call_id], tool_errors=1)
            case _:
                pass

    def _answered(self, answer: events.ModelAnswered) -> None:
        used = Usage.of(answer)
        self.total += used
        if self._by is UsageBy.TOOL:
            self._asked = {call.tool_call_id: (call.name, "") for call in answer.calls}
            for row in set(self._asked.values()) or {("", "")}:
                self._count(row, usage=used)
        else:
            model = (answer.model, "" if answer.model else self._digest)
            row = model if self._by is UsageBy.MODEL else (self._agent, "")
            self._asked = dict.fromkeys((call.tool_call_id for call in answer.calls), row)
            self._count(row, usage=used)
        for row in self._asked.values():
            self._count(row, tool_calls=1)

    def _summarised(self, event: events.Compacted | events.SummaryFailed) -> None:
        used = Usage.of(event)
        self.total += used
        model = (event.model, "" if event.model else self._digest)
        row = {UsageBy.TOOL: ("", ""), UsageBy.MODEL: model, UsageBy.AGENT: (self._agent, "")}[self._by]
        if used.model_calls:
            self._count(row, usage=used)

    def _count(self, row: tuple[str, str], **counts: Any) -> None:
        row = row if row in self.rows or len(self.rows) < MOST_ROWS else (OTHER, "")
        added = UsageRow(name=row[0], **counts)
        self.rows[row] = self.rows[row] + added if row in self.rows else added


class _Tally:
    """The rows of a report, log by log."""

    def __init__(self, store: Store, by: UsageBy) -> None:
        self._store = store
        self._by = by
        self._rows: dict[str, UsageRow] = {}
        self._models: dict[str, str] = {}
        self._total = Usage()
        self._turns = self._conversations = 0
        self.entries = 0
        """How many entries were read."""

    async def read(self, conversation_id: str) -> None:
        """Count a whole conversation, or nothing of it if it cannot be read."""
        log, seq = _Log(self._by), 0
        while page := await self._store.read(conversation_id, after=seq, limit=READ_AT_ONCE):
            seq, self.entries = page[-1][0], self.entries + len(page)
            for _, event in page:
                log.add(event)
        if not seq:
            await self._store.load(conversation_id)  # which says whether there is a conversation at all
        named = [(name or await self._model(digest), row) for (name, digest), row in log.rows.items()]
        for name, row in named:
            self._add(name, row)
        self._total += log.total
        self._turns, self._conversations = self._turns + log.turns, self._conversations + 1

    async def _model(self, digest: str) -> str:
        """The first model of a stored spec; empty if there is none."""
        if digest not in self._models:
            spec = await self._store.spec(digest) if digest else None
            self._models[digest] = "" if spec is None else spec.model
        return self._models[digest]

    def _add(self, name: str, row: UsageRow) -> None:
        name = name if name in self._rows or len(self._rows) < MOST_ROWS else OTHER
        self._rows[name] = self._rows.get(name, UsageRow(name=name)) + row

    def report(self, unreadable: Iterable[str] = (), after: str | None = None) -> UsageReport:
        """The report of what was read."""
        return UsageReport(
            by=self._by,
            rows=[self._rows[name] for name in sorted(self._rows)],
            total=self._total,
            turns=self._turns,
            conversations=self._conversations,
            unreadable=list(unreadable),
            next=after,
        )


async def usage_of(store: Store, conversation_id: str, by: UsageBy) -> UsageReport:
    """See `Conversation.usage`."""
    tally = _Tally(store, by)
    await tally.read(conversation_id)
    return tally.report()


async def usage_page(store: Store, by: UsageBy, *, limit: int, after: str | None, **where: Any) -> UsageReport:
    """See `Client.usage`. Each conversation is read whole; a long one ends the page."""
    check_limit(limit)
    tally, unreadable = _Tally(store, by), list[str]()
    for _ in range(limit):
        page = await filters.filtered(store.conversations, filters.USED, limit=1, after=after, **where)
        after = page.next
        for row in page.items:
            try:
                await tally.read(row.conversation_id)
            except StoreUnavailable:
                raise
            except (ConversationNotFound, StoreError):  # erased meanwhile, or unreadable: the others are counted
                unreadable.append(row.conversation_id)
        if after is None or tally.entries >= MOST_ENTRIES:
            break
    return tally.report(unreadable, after)


def _sum(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return None
    return one + other if isinstance(one, int) and isinstance(other, int) else round(one + other, USD_DIGITS)
