"""Rows of lists: suspended calls, put together from log entries, and rows that say why something cannot be read.

A list never fails for one row: an unreadable call or conversation (corrupt, newer, nested too deeply, gone) is a row with a
`problem`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from holdfast.conversation import Event, Question
from holdfast.conversation.records.calls import ClaimView, CommentView, Cut, PendingView, VoteView
from holdfast.conversation.records.event_base import Note
from holdfast.conversation.records.events import (
    CallAssigned,
    CallClaimed,
    CallCommented,
    CallEscalated,
    CallGivenBack,
    CallSnoozed,
    CallSuspended,
    ConversationStarted,
    GivenRevoked,
    MessageAccepted,
    ModelAnswered,
    SuspensionSettled,
    VoteCast,
)
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.approvers import gave
from holdfast.conversation.terms.decisions import DecisionKind, SuspensionKind, accepted
from holdfast.conversation.terms.delegation import Ancestor
from holdfast.conversation.terms.spec import ToolSpec
from holdfast.conversation.text import jsontext
from holdfast.errors import CipherMissing, CorruptStore, NewerRecord, StoreError

from .lists import ConversationRow
from .pages import PendingPlace

SHORT_BYTES = 4 * 1024
"""The most bytes of a field that stays whole."""
BEGINNING, NOTE = 500, 200
"""How many characters are shown of a field, and of each vote and comment, that is too long."""


@dataclass(slots=True)
class Shortening:
    """The shortening of one row, if wanted; `cut` has the shortened fields."""

    wanted: bool
    cut: dict[str, Cut] = field(default_factory=dict)

    def text(self, name: str, text: str | None) -> str | None:
        """The text of a field; None if it is too long or absent."""
        if text is None or self._fits(size_bytes := jsontext.size_bytes(text)):
            return text
        self.cut[name] = Cut(size_bytes=size_bytes, begins=text[:BEGINNING])
        return None

    def notes(self, votes: tuple[VoteView, ...], comments: tuple[CommentView, ...]) -> dict[str, Any]:
        """Votes and comments; if together they are too long, each is cut."""
        if not self._fits(sum(jsontext.size_bytes(f"{one.reason}{one.value}") for one in votes)):
            votes = tuple(one.model_copy(update={"reason": _cut(one.reason), "value": None}) for one in votes)
        if not self._fits(sum(jsontext.size_bytes(one.text) for one in comments)):
            comments = tuple(one.model_copy(update={"text": _cut(one.text)}) for one in comments)
        return {"votes": votes, "comments": comments}

    def _fits(self, size_bytes: int) -> bool:
        return not self.wanted or size_bytes <= SHORT_BYTES


def _cut(text: str) -> str:
    return text if len(text) <= NOTE else f"{text[:NOTE]}…"


Entry: TypeAlias = Event | StoreError | None
"""The entry at a place in a log: an event, the error that explains why it is unreadable, or None."""

PROBLEM_LENGTH = 300


def pending_view(
    place: PendingPlace,
    agent: str | StoreError,
    entry: Entry,
    source: Entry,
    *,
    message: Entry = None,
    notes: Sequence[Entry] = (),
    path: tuple[Ancestor, ...] = (),
    short: bool = False,
) -> PendingView:
    """The view of a suspension, from its log entry and the entry with its arguments (`source`).

    `message` is the entry of the turn's message; `notes` are those of votes, assignments and comments, in the log's order;
    `path` are the conversations above. `short` makes it a row of a list.
    """
    problems = []
    if isinstance(agent, StoreError):
        problems.append(str(agent))
        agent = ""
    if not isinstance(entry, CallSuspended):
        problems.insert(0, _missing(place.seq, entry, "call_suspended"))
        return unreadable_call(place, "; ".join(problems), agent)
    row = Shortening(short)

    def loaded(text: str | None, what: str) -> Any:
        try:
            return None if text is None else jsontext.loads(text)
        except jsontext.NotJson as error:
            problems.append(f"{what} cannot be shown ({error})")
            return None

    found = None
    if isinstance(source, StoreError) or source is None:
        problems.append(f"its arguments: {_missing(entry.arguments_at, source, 'model_answered')}")
    else:
        found = loaded(row.text("arguments", arguments_text(source, entry.tool_call_id)), "its arguments")
    arguments = found if isinstance(found, dict) else {}
    schema = loaded(row.text("response_schema", entry.response_schema), "its response schema")
    asked: tuple[Question, ...] | None = None
    if entry.questions and "arguments" in row.cut:
        row.cut["questions"] = row.cut["arguments"]
    elif entry.questions and not problems:
        try:
            asked = questions.parse(arguments)
            schema = questions.schema_of(asked)
        except questions.NotQuestions as error:
            problems.append(f"its questions cannot be shown ({error})")
    payload = loaded(row.text("payload", entry.payload), "what is to be reviewed")
    said = with_notes(notes)
    by_rule = entry.suspension_kind is SuspensionKind.APPROVAL  # an event of another kind may name the rule that allowed it
    return PendingView(
        conversation_id=place.conversation_id,
        agent=agent,
        tool_call_id=entry.tool_call_id,
        suspension_id=entry.suspension_id,
        tool=entry.tool,
        arguments=arguments,
        executor=entry.executor,
        kind=entry.suspension_kind,
        prompt=row.text("prompt", entry.prompt),
        response_schema=schema if isinstance(schema, dict | bool) else None,
        created_at=entry.at,
        problem=shown("; ".join(problems)) if problems else None,
        batch_id=entry.batch_id,
        title=entry.title,
        action=entry.action,
        report_md=row.text("report_md", entry.report_md),
        payload=payload,
        rule=entry.rule if by_rule else "",
        rule_reason=entry.rule_reason if by_rule else "",
        targets=entry.targets,
        requester=message.principal if isinstance(message, MessageAccepted) else None,
        **(
            {"approvers": entry.approvers, "expires_at": entry.expires_at, "attempt": entry.claims, "decisions": _taken(entry)}
            | said
            | row.notes(said["votes"], said["comments"])
        ),
        questions=asked,
        path=path,
        cut=row.cut,
    )


def _taken(entry: CallSuspended) -> tuple[str, ...]:
    """The possible decisions: an approval's choices by name, else kinds of decisions."""
    if entry.suspension_kind is SuspensionKind.APPROVAL:
        choices = entry.decisions or ToolSpec.model_fields["decisions"].default
        return (*choices, DecisionKind.CANCEL)
    return accepted(entry.suspension_kind, (), with_schema=entry.response_schema is not None)


def unreadable_call(place: PendingPlace, problem: str, agent: str = "") -> PendingView:
    """The row of an unreadable suspension, from its place."""
    return PendingView(
        conversation_id=place.conversation_id,
        suspension_id=place.suspension_id,
        created_at=place.created_at,
        agent=agent,
        problem=shown(problem),
    )


def unreadable_member(member: str, what: str) -> str:
    """The problem of an index member that Holdfast never wrote."""
    return f"an index of {what} holds {member!r:.80}, which Holdfast never wrote: holdfast reindex removes it"


def unreadable_row(conversation_id: str, created_at: int, problem: str) -> ConversationRow:
    """The row of an unreadable conversation, from its place in the list."""
    return ConversationRow(conversation_id, "", None, created_at, 0, 0, shown(problem))


def shown(problem: str) -> str:
    """A problem as one bounded line."""
    line = " ".join(jsontext.clean(problem).split())
    return line if len(line) <= PROBLEM_LENGTH else f"{line[: PROBLEM_LENGTH - 1]}…"


@contextmanager
def naming(conversation_id: str) -> Iterator[None]:
    """Add the conversation's id to `CorruptStore` and `NewerRecord` errors that lack it."""
    name = f"conversation {conversation_id!r}"
    try:
        yield
    except CorruptStore as error:
        if repr(conversation_id) in error.what:
            raise
        raise CorruptStore(f"{name}: {error.what}") from error
    except NewerRecord as error:
        if name in error.record:
            raise
        raise NewerRecord(f"{error.record} of {name}", error.found, error.known) from error


def arguments_text(source: Event | None, tool_call_id: str) -> str:
    """The JSON text of a call's arguments, from the event at its `arguments_at`."""
    match source:
        case ModelAnswered():
            text = next((call.arguments for call in source.calls if call.tool_call_id == tool_call_id), "")
        case SuspensionSettled(body=str() as text) | CallSuspended(own_arguments=str() as text):
            pass
        case _:
            text = ""
    return text if text.strip() else "{}"


def arguments_in(source: Event | None, tool_call_id: str) -> dict[str, Any]:
    """A call's arguments as an object, from the event at its `arguments_at`; `NotJson` if not strict JSON within bounds."""
    value = jsontext.loads(arguments_text(source, tool_call_id))
    return value if isinstance(value, dict) else {}


def _missing(seq: int, entry: Entry, expected: str) -> str:
    if entry is None:
        return f"the log has no entry {seq}"
    if isinstance(entry, CipherMissing):
        return str(entry)
    if isinstance(entry, StoreError):
        return f"the log's entry {seq} cannot be read ({entry})"
    return f"the log's entry {seq} is {entry.kind}, not {expected}"


def path_of(begun: Sequence[Entry]) -> tuple[Ancestor, ...]:
    """The conversations above one, from the first entry of its log, if that was read; none if it cannot be read."""
    parents = [one.parent for one in begun if isinstance(one, ConversationStarted) and one.parent is not None]
    return parents[0].path if parents else ()


def earlier_notes(last: Entry, suspension_id: str) -> tuple[int, ...]:
    """The places of the notes on a suspension before its last note."""
    if isinstance(last, GivenRevoked):
        return next((vote.noted for vote in last.votes if vote.suspension_id == suspension_id), ())
    return last.noted if isinstance(last, VoteCast | Note | CallEscalated | CallGivenBack) else ()


def with_notes(notes: Sequence[Entry]) -> dict[str, Any]:
    """The fields of a `PendingView` made from notes, in the log's order; unreadable notes are left out."""
    escalated = [place for place, one in enumerate(notes) if isinstance(one, CallEscalated)]
    since = escalated[-1] if escalated else 0
    votes = tuple(
        VoteView(by=one.principal, at=one.at, decision=one.decision, value=_value(one), reason=one.reason)
        for place, one in enumerate(notes[since:], since)
        if isinstance(one, VoteCast) and not any(_withdraws(later, one) for later in notes[place:])
    )
    comments = tuple(CommentView(by=one.principal, at=one.at, text=one.text) for one in notes if isinstance(one, CallCommented))
    assigned = [one.to for one in notes[since:] if isinstance(one, CallAssigned)]
    latest = {one.principal.mark: one for one in notes if isinstance(one, CallSnoozed) and one.principal is not None}
    snoozed = {by: one.until for by, one in latest.items() if one.until > one.at}
    said: dict[str, Any] = {
        "votes": votes,
        "comments": comments,
        "assigned": assigned[-1] if assigned else "",
        "snoozed": snoozed,
    }
    last = notes[since] if escalated else None
    if isinstance(last, CallEscalated):
        said |= {"approvers": last.approvers, "expires_at": last.expires_at, "escalated_at": last.at}
    claims = [one for one in notes if isinstance(one, CallClaimed | CallGivenBack)]
    if claims:
        said |= {"claimed": _claim(claims[-1]), "attempt": claims[-1].attempt, "expires_at": claims[-1].expires_at}
    if said.get("claimed") is not None:
        said["decisions"] = (DecisionKind.CANCEL,)
    return said


def _claim(last: CallClaimed | CallGivenBack) -> ClaimView | None:
    return ClaimView(client_id=last.client_id, by=last.principal, at=last.at) if isinstance(last, CallClaimed) else None


def _withdraws(later: Entry, vote: VoteCast) -> bool:
    return isinstance(later, GivenRevoked) and gave(vote.principal.id, vote.principal.proof, later.by, later.proof)


def _value(vote: VoteCast) -> Any:
    try:
        return None if vote.body is None else jsontext.loads(vote.body)
    except jsontext.NotJson:
        return None
