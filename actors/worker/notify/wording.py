"""A notice in words: one line, and the lines below it. What agents, tools and people wrote is cut and stays on its line."""

from collections.abc import Iterator
from datetime import UTC, datetime

from holdfast.agent.notice import Notice
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.conversation.text import jsontext
from holdfast.visible import without_hidden

LONGEST = 500
"""How many characters are shown of what an agent, a tool or a person wrote."""
_WAITS = {
    SuspensionKind.APPROVAL: "an approval",
    SuspensionKind.ELICITATION: "an answer",
    SuspensionKind.REVIEW: "a review",
    SuspensionKind.CLIENT_EXEC: "a client's result",
    SuspensionKind.LOST: "a word on a lost run",
    SuspensionKind.LIMIT: "leave to go on",
}
_LATEST = 253_402_300_799_000


def headline(notice: Notice) -> str:
    """What happened, in one line."""
    call = notice.call
    tool = "a call" if call is None or not call.tool else one_line(call.tool)
    if call is not None and call.kind is SuspensionKind.LIMIT:
        tool = "a turn at its limit"
    waits = "a decision" if call is None or call.kind is None else _WAITS.get(call.kind, "a decision")
    match notice.kind:
        case NoticeKind.SUSPENDED | NoticeKind.LOST_RUN:
            said = f"{tool} waits for {waits}"
        case NoticeKind.REMINDED:
            said = f"{tool} still waits for {waits}"
        case NoticeKind.ESCALATED:
            said = f"{tool} waits for {waits} of others now"
        case NoticeKind.SETTLED:
            said = f"{tool} is settled"
        case NoticeKind.EXPIRED:
            said = f"{tool} was not decided in time"
        case NoticeKind.QUARANTINED:
            said = "the conversation is quarantined"
        case NoticeKind.TURN_COMPLETED:
            said = "a turn is completed"
        case NoticeKind.TURN_FAILED:
            said = "a turn has failed"
        case NoticeKind.ENDED:
            said = "the conversation has ended"
    return f"{notice.agent}: {said}"


def lines(notice: Notice, *, content: bool) -> Iterator[tuple[str, str]]:
    """The details, each with its label; with `content`, what agents, tools and people wrote."""
    yield "Conversation", notice.conversation_id
    call = notice.call
    if call is not None:
        yield "Call", call.suspension_id
        if call.expires_at is not None and notice.by is None:
            yield "Until", moment(call.expires_at)
    if notice.by is not None:
        yield "Settled by", notice.by if notice.decision is None else notice.decision
    if notice.principal is not None:
        yield "By", one_line(notice.principal.id)
    if not content:
        return
    written = [("Reason", notice.reason), ("Reply", notice.reply), ("Error", notice.error)]
    if call is not None:
        arguments = jsontext.dumps(call.arguments) if call.arguments else None
        written = [("About", call.title), ("Prompt", call.prompt), ("Arguments", arguments), *written]
    yield from ((label, one_line(text)) for label, text in written if text)


def one_line(text: str) -> str:
    """A text in one line, without what nobody sees, cut to `LONGEST` characters."""
    seen = without_hidden(" ".join(jsontext.clean(text[: 4 * LONGEST]).split()), lambda _: "\ufffd")
    return seen if len(seen) <= LONGEST else f"{seen[: LONGEST - 1]}…"


def moment(at: int) -> str:
    """A time in ms UTC, as ISO 8601 writes it."""
    return (
        datetime.fromtimestamp(min(max(at, 0), _LATEST) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
