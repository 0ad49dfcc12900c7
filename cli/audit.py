"""`holdfast audit`: the chain of a conversation's messages and decisions, checked, as a table or as lines for an archive."""

import sys
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from holdfast.client import AuditEntry, AuditReport
from holdfast.errors import InvalidInput

from .display import Said, clean, console, shorten, to_json, write_table
from .errors import ExitCode
from .options import AsJson, ConversationId
from .session import Reached

_DIGITS = 12
"""The digits of a digest that a table shows."""


async def run(
    on: Reached,
    conversation: ConversationId,
    *,
    receipts: Annotated[
        list[str] | None, typer.Option("--receipt", metavar="HEAD", help="A receipt's audit_head that must be in the chain.")
    ] = None,
    as_lines: Annotated[bool, typer.Option("--jsonl", help="Print JSON lines for an archive.")] = False,
    after: Annotated[int | None, typer.Option(metavar="SEQ", help="With --jsonl: only entries after this seq.")] = None,
    as_json: AsJson = False,
) -> int:
    """Check the chain of a conversation's messages and decisions: who sent or decided what, when, on what, and why.

    The exit code is 1 if the chain is broken: something in the log was changed, or a receipt is not in the chain.
    """
    if as_lines and as_json:
        raise InvalidInput("--jsonl", "it does not go with --json", "leave one of them out")
    if after is not None and not as_lines:
        raise InvalidInput("--after", "it is for an export", "add --jsonl, or leave it out")
    found = on.client.conversation(conversation)
    if as_lines:
        line: dict[str, Any] = {}
        async for line in found.audit_lines(after=after or 0, receipts=receipts or ()):
            sys.stdout.write(to_json(line) + "\n")
        return ExitCode.DONE if line.get("intact") else ExitCode.FAILED
    report = await found.audit(receipts=receipts or ())
    code = ExitCode.DONE if report.intact else ExitCode.FAILED
    return Said(report.to_dict(), partial(_draw, report), code=code).write(as_json=as_json)


def _draw(report: AuditReport) -> None:
    if report.entries:
        rows = [[*map(clean, _row(entry))] for entry in report.entries]
        write_table(("SEQ", "WHEN", "WHAT", "CALL", "WHO", "WHY", "HEAD"), rows)
    screen = console()
    for one in report.breaks:
        place = "" if one.seq is None else f" at {one.seq}"
        screen.print(clean(f"Broken{place}: {one.problem}."), soft_wrap=True)
    said = f"{len(report.entries)} entries, head {report.head or 'none'}" if report.entries else "Nothing was decided yet"
    verdict = "the chain is intact" if report.intact else "the chain is BROKEN"
    screen.print(clean(f"{said}: {verdict}."), soft_wrap=True)


def _row(entry: AuditEntry) -> tuple[str, ...]:
    who = entry.principal_id and f"{entry.principal_id} ({', '.join((entry.proof, *entry.roles))})"
    call = f"{entry.tool} {entry.tool_call_id}".strip()
    head = entry.head[:_DIGITS] if entry.problem is None else "BROKEN"
    return (str(entry.seq), _when(entry.at), _what(entry), call, who or "-", shorten(entry.reason, 60), head or "-")


def _when(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # a time in a log that was tampered with may be invalid
        return str(at)


def _what(entry: AuditEntry) -> str:
    match entry.kind:
        case "suspension_settled":
            return entry.settled_by
        case "call_resolved":
            return f"denied by rule {entry.subject}"
        case "message_accepted":
            return "message"
        case "":
            return "unreadable"
        case _:
            return f"{entry.kind.replace('_', ' ')} {entry.subject}".strip()
