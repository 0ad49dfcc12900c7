"""Draw the flow of each guide in docs/guides from the log that its program writes: `python docs/guides.py`.

A guide's program is rehearsed as it stands in the page, with its own script for the model and its own decisions. What is drawn
is what its conversation has logged: an arrow stands there because it happened.
"""  # noqa: INP001 - a script beside the pages whose pictures it draws

import contextlib
import io
import json
import re
import runpy
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from holdfast import Decision, PendingCall, Principal, Receipt, SuspensionKind
from holdfast.events import DecisionKind, Event, SettledBy
from holdfast.testing import BlockingRehearsal, RehearsalResult

FOLDER = Path(__file__).with_name("guides")
BLOCK = re.compile(r"^```(?:python|yaml)\n(# ([\w-]+\.\w+)\n.*?)^```$", re.DOTALL | re.MULTILINE)

WIDTH, ROW, TOP, BOX = 760, 36, 62, 24
LEFT, RIGHT = 278, 482
"""The edges of the middle column: the log."""
INDENT = 14
"""How much further to the right a log is drawn than that of its parent."""
LABEL_LENGTH = 40
INK, PAPER, QUIET = "#222222", "#ffffff", "#f1f3f5"
PEOPLE, WORK = "#a15c00", "#1f5fbf"
_DECIDED = {"suspension_settled", "vote_cast"}
_ENDS = {"turn_completed", "turn_failed"}
_WAITS = {"call_suspended", "vote_cast"}
"""The kinds of events after which the next decision of a person is waited for."""
FEW = 2
"""Of more conversations side by side only the ends are drawn."""
FONT = "font-family='Helvetica, Arial, sans-serif'"


@dataclass(frozen=True)
class Row:
    """An event: its place and kind, what it is about, and to which side an arrow goes, or from which it comes.

    `depth` is how many conversations stand above that of the log. Without a kind, a log begins here; the label says whose.
    """

    seq: int
    kind: str
    label: str = ""
    side: str = "left"
    inwards: bool | None = None
    """Whether somebody tells the log, or it tells somebody; None where it is the log's own affair."""
    depth: int = 0


def pages() -> list[Path]:
    """The guides, in the order of their names."""
    return sorted(FOLDER.glob("*.md"))


def files_of(page: Path) -> dict[str, str]:
    """The files that a guide has its reader write, by name, in its order."""
    return {name: source for source, name in BLOCK.findall(page.read_text(encoding="utf-8"))}


def program_of(page: Path) -> dict[str, Any]:
    """The names that a guide's program defines."""
    files = files_of(page)
    with tempfile.TemporaryDirectory() as folder:
        for name, source in files.items():
            Path(folder, name).write_text(source, encoding="utf-8")
        return runpy.run_path(str(Path(folder, next(name for name in files if name.endswith(".py")))))


def rehearsed(program: dict[str, Any], *, lose: dict[str, int] | None = None) -> RehearsalResult[Receipt]:
    """A guide's conversation without a stack: its texts are sent in turn, and what grants stand is revoked between them.

    `SENDER` sends them, where the program has one, and `decide` decides whatever waits: as each of `PEOPLE` in turn, where it
    has them. Before that, `STEERED` is sent, and joins the turn. Then `PASSES_S` seconds pass, if the program says so. A run
    that was lost is left to a person. The texts are for the app's first agent. `lose` is how many first runs of a tool are
    lost.
    """
    app, decide, people = program["app"], program["decide"], program.get("PEOPLE")

    def decided(waiting: PendingCall[Receipt], *who: Principal) -> Decision | None:
        return None if waiting.kind is SuspensionKind.LOST else decide(waiting, *who)

    with (
        contextlib.redirect_stdout(io.StringIO()),
        BlockingRehearsal(
            app.agents[0],
            model=program["MODEL"],
            decide=None if people else decided,
            app=app,
            lose=lose,
            attended=program.get("ATTENDED", True),
        ) as conversation,
    ):
        sending = conversation.acting_as(program["SENDER"]) if "SENDER" in program else conversation
        for text in program["ASKED"]:
            for grant in conversation.grants():
                conversation.revoke(grant.grant_id)
            sending.send(text)
            for joining in program.get("STEERED", ()):
                sending.send(joining, when="steer")
            for who in people or ():
                mine = conversation.acting_as(who)
                for waiting in mine.result().pending:
                    if (decision := decided(waiting, who)) is not None:
                        mine.resolve(waiting, decision)
        return conversation.advance(program["PASSES_S"]) if "PASSES_S" in program else conversation.result()


def drawn(page: Path) -> list[Row]:
    """What is drawn of a guide's conversation."""
    return list(rows(rehearsed(program_of(page))))


def rows(done: RehearsalResult[Receipt], depth: int = 0) -> Iterator[Row]:
    """What is drawn, in the order of the log; how a conversation and its turns begin is not.

    The logs of those to which it delegates calls stand before the first of their answers.
    """
    below: list[RehearsalResult[Receipt]] = []
    children = {child.state.conversation_id: child for child in done.children}
    for row in _rows(done.events):
        if isinstance(row, Row):
            if row.kind == "call_resolved":
                for child in below:
                    yield from _log(child, depth + 1, whole=len(below) <= FEW)
                below.clear()
            yield replace(row, depth=depth)
        else:
            below.append(children[row])


def _log(child: RehearsalResult[Receipt], depth: int, *, whole: bool) -> Iterator[Row]:
    found = [row for row in rows(child, depth) if whole or row.kind in _ENDS]
    if whole:
        yield Row(0, "", f"the log of {child.state.agent}", depth=depth)
    for row in found:
        if row.depth == depth and row.kind == "message_accepted":
            task = next(event.body.text for event in child.events if event.seq == row.seq)
            yield replace(row, label=f"task: {task}", side="right")
        elif row.depth == depth and row.kind in _ENDS:
            yield replace(row, label=f"tells: {child.reply or child.error}", side="right", inwards=False)
        else:
            yield row


def _rows(events: list[Event]) -> Iterator[Row | str]:
    """What is drawn of one log, and the id of each conversation that it has started."""
    asked: dict[str, str] = {}
    questions: dict[str, str] = {}
    alone = {
        event.body.suspension_id
        for event in events
        if event.kind == "suspension_settled" and event.body.by is SettledBy.UNATTENDED
    }
    for event in events:
        body, seq = event.body, event.seq or 0
        match event.kind:
            case "message_accepted":
                yield Row(seq, event.kind, f"{_name(body.principal) or 'user'}: {body.text}", inwards=True)
            case "model_answered":
                for call in body.calls:
                    arguments = json.loads(call.arguments)
                    asked[call.tool_call_id] = _call(call.name, arguments)
                    questions[call.tool_call_id] = " ".join(one["text"] for one in arguments.get("questions", ()))
                said = f"calls {', '.join(asked[call.tool_call_id] for call in body.calls)}" if body.calls else body.content
                yield Row(seq, event.kind, f"{body.model or 'model'}: {said}", "right", inwards=True)
            case "input_joined" | "compacted":
                yield _read(seq, event.kind, body)
            case "run_scheduled":
                by = "by the grant: " if body.grants else "by a rule: " if body.rule and not body.decided_at else ""
                yield Row(seq, event.kind, f"{by}{asked[body.tool_call_id]}", "right", inwards=False)
            case "call_suspended" if body.delegation is not None:
                yield Row(seq, event.kind, f"asks {body.delegation.agent}", "right", inwards=False)
                yield body.source
            case "call_suspended":
                question = body.prompt or body.title or questions.get(body.tool_call_id) or asked[body.tool_call_id]
                yield Row(seq, event.kind, f"asks: {question}", inwards=None if body.suspension_id in alone else False)
            case "call_reminded" | "call_escalated":
                yield _asked_again(seq, event.kind, body)
            case "vote_cast":
                agreed = f"{body.decision.value}, {body.votes} of {body.needed}"
                yield Row(seq, event.kind, _said(_name(body.principal), agreed, body.reason), inwards=True)
            case "suspension_settled" if body.by is not SettledBy.SOURCE:
                yield _settled(seq, event.kind, body)
            case "call_resolved":
                yield _resolved(seq, event.kind, body)
            case "grant_given" | "grant_revoked" | "stop_reached" | "turn_completed" | "turn_failed":
                yield _ended_or_granted(seq, event.kind, body)


def _ended_or_granted(seq: int, kind: str, body: Any) -> Row:
    match kind:
        case "grant_given":
            return Row(seq, kind, f"{body.grant.kind} {body.grant.pattern}, {body.grant.level.value}")
        case "grant_revoked":
            return Row(seq, kind, f"revoke: {body.reason}" if body.reason else "revoke", inwards=True)
        case "stop_reached":
            return Row(seq, kind, f"asks for last words: {body.reason.value}", "right", inwards=False)
        case "turn_failed":
            return Row(seq, kind, body.error)
        case _:
            return Row(seq, kind, "the reply is there", inwards=False)


def _call(tool: str, arguments: dict[str, Any]) -> str:
    """A call in a few letters: its tool and what it is about."""
    said = [f"{len(value)} {name}" if isinstance(value, list) else _short(str(value), 24) for name, value in arguments.items()]
    return f"{tool}({', '.join(value for value in said if value != '...')})"


def _name(principal: Principal | None) -> str:
    return principal.id if principal is not None else ""


def _said(*parts: str) -> str:
    """What stands there of these, one after the other."""
    return ": ".join(part for part in parts if part)


def _read(seq: int, kind: str, body: Any) -> Row:
    if kind == "compacted":
        return Row(seq, kind, f"notes in place of {body.messages} messages", "right", inwards=True)
    return Row(seq, kind, "the model reads it, too", "right", inwards=False)


def _asked_again(seq: int, kind: str, body: Any) -> Row:
    if kind == "call_reminded":
        return Row(seq, kind, "it still waits", inwards=False)
    who = ", ".join(name for group in body.approvers.who for name in group)
    return Row(seq, kind, f"asks {who} from now on", inwards=False)


def _settled(seq: int, kind: str, body: Any) -> Row:
    if body.decision is None:
        return Row(seq, kind, "covered by the grant" if body.by is SettledBy.GRANT else f"by {body.by.value}")
    said = json.loads(body.body) if body.body is not None else ""
    if body.decision is DecisionKind.REVIEW:
        said = ", ".join(word for word in (said["verdict"], said["notes"]) if word)
    elif isinstance(said, dict):
        said = ", ".join(f"{name} {' and '.join(value) if isinstance(value, list) else value}" for name, value in said.items())
    agreed = f", {body.votes} of {body.needed}" if body.needed else ""
    nobody = {SettledBy.UNATTENDED: "unattended", SettledBy.EXPIRY: "by default"}.get(body.by)
    label = _said(nobody or _name(body.principal), f"{body.decision.value}{agreed}", said or body.reason)
    return Row(seq, kind, label, inwards=None if nobody else True)


def _resolved(seq: int, kind: str, body: Any) -> Row:
    if body.by is SettledBy.RULE:
        return Row(seq, kind, f"denied by {body.rule}", "right")
    said = json.loads(body.content)
    if body.by in (SettledBy.RUN, SettledBy.SOURCE):
        return Row(seq, kind, str(said["result"] if body.ok else said["error"]), "right", inwards=True)
    return Row(seq, kind, "a result that the model reads" if body.ok else "an error that the model reads", "right")


def drawing(title: str, found: list[Row], owed: dict[int, str]) -> str:
    """The rows as an SVG document on white, from top to bottom; and, by place, which notification targets are owed a notice."""
    body, y, waits = list[str](), TOP, False
    for row in found:
        if row.inwards and row.kind in _DECIDED and waits:
            body += _rest(y)
            y, waits = y + ROW, False
        body += _drawn(row, y)
        if row.seq in owed and not row.depth:
            body.append(_text(WIDTH - 20, y + 16, f"owed to {owed[row.seq]}", INK, "end"))
        y, waits = y + ROW, waits or row.kind in _WAITS
    names = (
        _text(20, 36, "people", PEOPLE, bold=True),
        _text(WIDTH // 2, 36, "the conversation's log", INK, "middle", bold=True),
        _text(WIDTH - 20, 36, "model and tools", WORK, "end", bold=True),
    )
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {y}' width='{WIDTH}' height='{y}' {FONT}>",
            f"<title>{escape(title)}</title>",
            f"<rect width='{WIDTH}' height='{y}' fill='{PAPER}'/>",
            *names,
            *body,
            "</svg>\n",
        ]
    )


def _rest(y: int) -> list[str]:
    """The time in which a conversation waits."""
    said = "nothing runs: what waits is in Redis, and any process may be killed"
    return [
        f"<rect x='20' y='{y - 2}' width='{WIDTH - 40}' height='{BOX + 4}' fill='{QUIET}' rx='6'/>",
        _text(WIDTH // 2, y + 16, said, INK, "middle"),
    ]


def _drawn(row: Row, y: int) -> list[str]:
    middle, left = y + BOX // 2, LEFT + INDENT * row.depth
    if not row.kind:
        return [_text(left, y + 20, row.label, INK, bold=True)]
    label, colour = _short(row.label, LABEL_LENGTH), PEOPLE if row.side == "left" else WORK
    outer, inner = (20, left) if row.side == "left" else (WIDTH - 20, RIGHT)
    found = [
        f"<rect x='{left}' y='{y}' width='{RIGHT - left}' height='{BOX}' rx='6' fill='{PAPER}' stroke='{INK}'/>",
        _text(left + 10, y + 16, f"{row.seq}", INK, bold=True),
        _text(left + 36, y + 16, row.kind, INK),
    ]
    if label:
        anchor = "start" if row.side == "left" else "end"
        found.append(_text(outer, middle - 5 if row.inwards is not None else middle + 4, label, colour, anchor))
    if row.inwards is not None:
        start, end = (outer, inner) if row.inwards else (inner, outer)
        back = 8 if end > start else -8
        line = f"x1='{start}' y1='{middle}' x2='{end - back // 2}' y2='{middle}'"
        found.append(f"<line {line} stroke='{colour}' stroke-width='1.5'/>")
        found.append(f"<path d='M{end} {middle} l{-back} -4 v8 z' fill='{colour}'/>")
    return found


def _text(x: int, y: int, text: str, colour: str, anchor: str = "start", *, bold: bool = False) -> str:
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x}' y='{y}' font-size='12' text-anchor='{anchor}' fill='{colour}'{weight}>{escape(text)}</text>"


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def render(page: Path) -> str:
    """The picture of a guide's flow."""
    title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    done = rehearsed(program_of(page))
    owed = {notice.seq: target for target, notices in done.notices.items() for notice in notices}
    return drawing(title, list(rows(done)), owed)


if __name__ == "__main__":
    for one in pages():
        one.with_suffix(".svg").write_text(render(one), encoding="utf-8")
