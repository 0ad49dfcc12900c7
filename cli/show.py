"""`holdfast show`: one conversation and its pending calls; approvals, questions and clients' calls have frames of their own."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.client import AsyncClient, ContextView, Pause, StaleCall, Usage
from holdfast.client.last_words import last_words
from holdfast.client.log_pages import END
from holdfast.client.results import AsyncPendingCall, ConversationState, LateResult, RunningCall
from holdfast.conversation import Grant, Status, SuspensionKind
from holdfast.conversation.terms.delegation import Ancestor
from holdfast.conversation.terms.parts import in_words
from holdfast.conversation.window import Rule
from holdfast.errors import HoldfastError

from . import grants
from .display import Said, clean, clean_block, console, many, shorten, span, to_json
from .hints import KINDS, asked_by, command, granted, lines_of, paused, resolving, standing, touching
from .options import ConversationId, Where
from .questions import drawn
from .session import Reached
from .usage import used_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

TEXT_LENGTH = 4_000
SAID = 300
"""The most characters of what was said last in a conversation above."""
REVIEWED_LENGTH = 40_000
"""The most characters that are shown of a prompt, of a report, and of reviewed data. A call with longer ones gets no command
that lets it go on."""
_INDENT = "    "
_GAP = re.compile(r"\n(?:[ \t]*\n){4,}")
_Last = Annotated[int | None, typer.Option(min=1, max=1000, metavar="N", help="Only the last N messages.")]
_Context = Annotated[bool, typer.Option("--context", help="Show what the model is sent, and what is left out.")]
_STYLES = {"user": "bold green", "assistant": "bold blue", "tool": "dim"}


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown parts of a conversation; `paused` is the pause of its new work, `now` the present for ages (ms UTC).

    `above` are the conversations above it, if its calls wait, each with what was said there last. `used` is what the models'
    answers of the last turn used, which may go on.
    """

    conversation_id: str
    state: ConversationState[Any]
    messages: list[dict[str, Any]]
    now: int
    paused: Pause | None = None
    grants: list[Grant] = field(default_factory=list)
    above: list[tuple[Ancestor, str]] = field(default_factory=list)
    context: ContextView | None = None
    used: Usage | None = None


async def run(on: Reached, conversation: ConversationId, last: _Last = None, *, context: _Context = False) -> Said:
    """Show a conversation: its messages, its status and its pending calls."""
    found = on.client.conversation(conversation)
    state = await found.state()
    whole = [await _whole(on.client, call) for call in state.pending]
    state = state.model_copy(update={"pending": whole})
    pauses = [pause for pause in await standing(on.client) if pause.agent in (None, state.agent)]
    latest = None if last is None else await found.messages_page(limit=last, before=END)
    messages, now = await found.messages() if latest is None else latest.items, await on.now()
    pause, above = pauses[0] if pauses else None, await _above(on.client, whole)
    sent = await found.context() if context else None
    turns = (await found.turns_page(limit=1, before=END)).items
    used = turns[0].usage if turns else None
    shown = Shown(conversation, state, messages, now, pause, await found.grants(), above, sent, used)
    return Said(_as_dict(shown), partial(_draw, shown, on.where))


async def _whole(client: AsyncClient, call: AsyncPendingCall) -> AsyncPendingCall:
    """The whole call; the list's version if it was settled meanwhile."""
    if not call.cut:
        return call
    with contextlib.suppress(StaleCall):
        return await client.pending_call(call.suspension_id, conversation_id=call.conversation_id)
    return call


async def _above(client: AsyncClient, calls: Sequence[AsyncPendingCall]) -> list[tuple[Ancestor, str]]:
    said = []
    for one in calls[0].path if calls else ():
        try:
            said.append((one, await last_words(client.conversation(one.conversation_id))))
        except HoldfastError as error:
            said.append((one, f"(it cannot be read: {error})"))
    return said


def _as_dict(shown: Shown) -> dict[str, Any]:
    state = shown.state
    return {
        "conversation_id": shown.conversation_id,
        **{name: getattr(state, name) for name in ("agent", "app", "created_at", "updated_at", "attended")},
        **{name: getattr(state, name) for name in ("status", "turn_id", "seq", "reply", "value", "error", "failed", "stopped")},
        "detail": state.detail,
        "used": None if shown.used is None else shown.used.model_dump(mode="json"),
        "running": [call.model_dump() for call in state.running],
        "problem": state.problem,
        "paused": asdict(shown.paused) if shown.paused is not None else None,
        "waits": [one.model_dump() for one in state.waits],
        "above": [{**one.model_dump(), "said": said} for one, said in shown.above],
        "late": [{"effect_id": one.effect_id, "at": one.at, "content": _late(one)} for one in state.late],
        "pending": [call.to_dict() for call in state.pending],
        "grants": [grant.model_dump(mode="json") for grant in shown.grants],
        "messages": shown.messages,
        **({"context": shown.context.model_dump(mode="json")} if shown.context is not None else {}),
    }


def _draw(shown: Shown, where: Where) -> None:
    screen = console()
    for message in shown.messages if shown.context is None else shown.context.messages:
        _draw_message(screen, message)
    for line in _sent(shown.context) if shown.context is not None else ():
        screen.print(line, soft_wrap=True)
    state = shown.state
    age, change = span(shown.now - state.created_at), span(shown.now - state.updated_at)
    alone = "" if state.attended else ", nobody attends it"
    more = f" (agent {clean(state.agent)} of {clean(state.app)}, started {age} ago, last change {change} ago{alone})"
    screen.print(f"{clean(shown.conversation_id)}: {state.status}{more}", style="bold", soft_wrap=True)
    if shown.used is not None and shown.used.model_calls:
        screen.print(f"The last turn used {used_in_words(shown.used)}", soft_wrap=True)
    for line in _reasons(shown, where):
        screen.print(line, soft_wrap=True)
    for one, said in shown.above:
        screen.print(
            f"Above it, {clean(one.conversation_id)} ({clean(one.agent)}): {shorten(clean(said), SAID)}", soft_wrap=True
        )
    for call in state.pending:
        screen.print()
        _draw_call(screen, call, shown.now, where)


def _sent(context: ContextView) -> list[str]:
    of = f" of {context.budget}" if context.budget is not None else ""
    more = "" if context.fits else ": more than there may be, and the next model call fails"
    more = ", the oldest of which are summarised first" if context.compacts else more
    begins = f"; the first {context.cached} messages as in the request before" if context.cached else ""
    lines = [f"The model is sent {many(len(context.messages), 'message')}, about {context.tokens}{of} tokens{more}{begins}"]
    for one in context.left_out:
        what = f"the result of {clean(one.tool_call_id)}" if one.tool_call_id else f"messages {one.first + 1} to {one.last + 1}"
        what = f"all but a preview of {what}" if one.rule is Rule.PREVIEW else what
        lines.append(f"Left out: {what}, about {many(one.tokens, 'token')} ({one.rule})")
    return lines


def _reasons(shown: Shown, where: Where) -> list[str]:
    state = shown.state
    reasons = []
    if state.status is Status.FAILED and state.error is not None:
        reason = f" ({state.failed})" if state.failed is not None else ""
        reasons.append(f"The last turn failed{reason}: {clean(state.error)}")
    if state.status is Status.IDLE and state.stopped is not None:
        stopped = f"turn was stopped: {clean(state.detail)}" if state.detail else f"reply was cut off: {state.stopped}"
        reasons.append(f"The last {stopped}")
    if state.status is Status.QUARANTINED:
        reasons.append(f"It is in quarantine: {clean(state.error or '')}")
        reasons.append(f"Correct the cause, then run: {clean(command(['retry', shown.conversation_id], where))}")
    if shown.paused is not None and state.status is not Status.ENDED:
        reasons.append(f"{paused(shown.paused, shown.now)}.")
    if state.problem is not None and state.status not in (Status.IDLE, Status.ENDED):
        reasons.append(f"It waits because no worker can run its app: {clean(state.problem)}")
        reasons.append(f"Correct the app, then run: {clean(command(['up', '--app', state.app], where))}")
    reasons.extend(f"Runs without asking by {grants.described(grant, shown.now)}" for grant in shown.grants)
    if state.pending:
        reasons.append(f"It waits for {many(len(state.pending), 'decision')}:")
    reasons.extend(
        f"Came late and changed nothing: {clean(late.effect_id)} ended {span(shown.now - late.at)} ago with {_late(late)}"
        for late in state.late
    )
    reasons.extend(_running(call, shown.now) for call in state.running)
    reasons.extend(
        f"{clean(one.tool)} waits for {clean(one.conversation_id)}, {span(one.expires_at - shown.now)} left"
        for one in state.waits
    )
    if state.waits:
        reasons.append(f"All below it: {clean(command(['tree', shown.conversation_id], where))}")
    return reasons


def _running(call: RunningCall, now: int) -> str:
    again = f", attempt {call.attempt}" if call.attempt > 1 else ""
    again += f", by {granted(call.grants)}" if call.grants else ""
    text = f"Running for {span(now - call.since)}: {clean(call.tool)} ({clean(call.tool_call_id)}{again})"
    text = f"{text} {clean(call.arguments)}"
    return text if call.progress is None else f"{text}\n{_INDENT}{_progress(call.progress, now)}"


def _progress(progress: Mapping[str, Any], now: int) -> str:
    parts = [str(progress[name]) for name in ("status", "message") if progress.get(name)]
    if progress.get("loaded") is not None:
        of = f" of {progress['total']:.15g}" if progress.get("total") is not None else ""
        parts.append(f"{progress['loaded']:.15g}{of}")
    if progress.get("value") is not None:
        parts.append(to_json(progress["value"]))
    return f"reported {span(now - progress['at'])} ago: {shorten(clean(' '.join(parts)), 200)}"


def _late(late: LateResult) -> str:
    if late.problem is not None:
        return f"an outcome that cannot be read ({clean(late.problem)})"
    return shorten(clean(late.content or ""), 200)


def _draw_message(screen: "Console", message: dict[str, Any]) -> None:
    role = str(message["role"])
    role = "holdfast" if "misfit" in message else role
    head = f"tool {clean(message['name'])} ({clean(message['tool_call_id'])})" if role == "tool" else clean(role)
    screen.print(head, style=_STYLES.get(role, ""), soft_wrap=True)
    content = message.get("content")
    if content:
        screen.print(_indented(in_words(content)), soft_wrap=True)
    for call in message.get("tool_calls") or ():
        asked = call["function"]
        text = f"calls {clean(asked['name'])} ({clean(call['id'])}) {asked['arguments']}"
        screen.print(_indented(text), style="yellow", soft_wrap=True)
    screen.print()


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in _cut(text, TEXT_LENGTH).split("\n"))


def _cut(text: str, length: int) -> str:
    """The text as a block of at most that many characters, with a note if it is cut."""
    shown = clean_block(text)
    if len(shown) <= length:
        return shown
    return f"{shorten(shown, length)}\n({len(text)} characters; --json has all of them)"


def _draw_call(screen: "Console", call: AsyncPendingCall, now: int, where: Where) -> None:
    from rich import box  # noqa: PLC0415 - `--json` does without
    from rich.panel import Panel  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    kind = KINDS[call.kind]
    ends = call.expires_at
    left = "its end is not known" if ends is None else f"{span(ends - now)} left" if ends > now else "due"
    panel = Panel(
        _body(call, now),
        title=Text(f"{kind.title}: {clean(call.tool) or 'unknown'}"),  # a string would be read as markup
        subtitle=Text(f"{clean(call.tool_call_id or call.suspension_id)}, {left}"),
        title_align="left",
        subtitle_align="left",
        border_style=kind.color,
        expand=False,
        box=getattr(box, kind.frame),
    )
    screen.print(panel)
    texts = (call.prompt or "", call.report_md or "", "" if call.payload is None else to_json(call.payload, indent=2))
    whole = all(len(clean_block(text)) <= REVIEWED_LENGTH for text in texts)
    for line in resolving(call, where, whole=whole):
        screen.print(f"  {line}", style=kind.color, soft_wrap=True)


def _quoted(text: str) -> str:
    """A tool's own words, marked line by line so that they cannot pose as this command's; long gaps become a note."""
    lines = _GAP.sub(lambda gap: f"\n({gap[0].count(chr(10)) - 1} empty lines)\n", _cut(text, REVIEWED_LENGTH)).split("\n")
    return "\n".join(f"│ {line}" for line in lines)


def _body(call: AsyncPendingCall, now: int) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - as above

    parts = []
    if call.problem is not None:
        parts.append(f"It cannot be read: {clean(call.problem)}")
    if call.prompt:
        parts.append(_quoted(call.prompt))
    asks = KINDS[call.kind].asks.format(tool=clean(call.tool), action=clean(call.action or ""))
    by = asked_by(call) if call.kind is SuspensionKind.APPROVAL else ""
    parts.append(asks + (f" (It is {by})" if by else ""))
    if call.kind is SuspensionKind.REVIEW and call.title:
        parts.insert(0, clean(call.title))
    if call.report_md:
        parts.append(f"Its report:\n{_quoted(call.report_md)}")
    if call.payload is not None:
        parts.append(f"What it is about:\n{_cut(to_json(call.payload, indent=2), REVIEWED_LENGTH)}")
    parts += [touching(call), "\n".join(lines_of(call, now))]
    if call.questions is not None:
        parts += [drawn(question, number) for number, question in enumerate(call.questions, 1)]
    elif call.problem is None:
        called = "It was called with:\n" if call.kind is SuspensionKind.REVIEW else ""
        parts.append(called + clean_block(to_json(call.arguments, indent=2)))
    if call.response_schema is not None and call.questions is None:
        parts.append(f"The answer must fit:\n{clean_block(to_json(call.response_schema, indent=2))}")
    return Text("\n\n".join(filter(None, parts)), overflow="fold")
