"""Rows of lists: suspended calls, put together from their places in the log, and rows that say why they cannot be read.

A list never fails for one row: an unreadable call or conversation (corrupt, newer, nested too deeply, gone) is a row with a
`problem`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from holdfast.conversation import Event, Question, State
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import CallSuspended, MessageAccepted, ModelAnswered, SuspensionSettled
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.decisions import DecisionKind, SuspensionKind, accepted
from holdfast.conversation.terms.spec import ToolSpec
from holdfast.conversation.text import jsontext
from holdfast.errors import CipherMissing, CorruptStore, NewerRecord, StoreError

from . import noted
from .lists import ConversationRow
from .pages import PendingPlace
from .shortening import Shortening

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
    short: bool = False,
) -> PendingView:
    """The view of a suspension, from its log entry and the entry with its arguments (`source`).

    `message` is the entry of the turn's message; `notes` are those of votes, assignments and comments, in the log's order.
    `short` makes it a row of a list.
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
    said = noted.shown(notes)
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
        expires_at=entry.expires_at,
        problem=shown("; ".join(problems)) if problems else None,
        batch_id=entry.batch_id,
        decisions=_taken(entry),
        title=entry.title,
        action=entry.action,
        report_md=row.text("report_md", entry.report_md),
        payload=payload,
        rule=entry.rule if by_rule else "",
        rule_reason=entry.rule_reason if by_rule else "",
        targets=entry.targets,
        approvers=entry.approvers,
        requester=message.principal if isinstance(message, MessageAccepted) else None,
        **(said | row.notes(said["votes"], said["comments"])),
        questions=asked,
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


def open_places(state: State, suspension_id: str | None) -> list[PendingPlace]:
    """The places of a state's open suspensions, or of the one of that id, in the model's order of calls."""
    found = [call.suspension for call in state.calls if call.suspension is not None]
    return [
        PendingPlace(state.conversation_id, one.seq, one.suspension_id, one.created_at)
        for one in found
        if suspension_id in (None, one.suspension_id)
    ]


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
        case SuspensionSettled(body=str() as body):
            text = body
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
