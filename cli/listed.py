"""Pending calls as lines of a terminal: a line for each, and under it its prompt and the command that resolves it."""

import sys
from collections.abc import Sequence

from holdfast.client.results import AsyncPendingCall

from .display import clean, console, is_whole, is_whole_json, shorten, span, to_json, write_table
from .hints import KINDS, MOST_COMMENTS, asked_by, below, lines_of, next_step
from .options import Where

SHORTEST, LONGEST = 20, 80
"""The fewest and the most characters of the arguments that are shown."""
PROMPT_LENGTH = 300

ALL_TAKE = (
    "Each takes --cancel REASON: the call is dropped, and its turn goes on. `holdfast show` says what a certain call takes."
)


def draw(calls: Sequence[AsyncPendingCall], now: int, where: Where) -> None:
    """Print the table: a line for each call, and under it its prompt and the command that resolves it."""
    if not calls:
        sys.stdout.write("Nothing is pending.\n")
        return
    screen = console()
    columns = ("AGE", "LEFT", "CONVERSATION", "AGENT", "KIND", "TOOL")
    cells = [_cells(call, now) for call in calls]
    taken = sum(max(map(len, column)) + 2 for column in zip(columns, *cells, strict=True))
    room = min(max(screen.width - taken, SHORTEST), LONGEST)
    arguments = [_arguments(call) for call in calls]
    rows = [(*row, shorten(clean(text), room)) for row, text in zip(cells, arguments, strict=True)]
    below = [_below(call, now, is_whole_json(text, room), where) for call, text in zip(calls, arguments, strict=True)]
    write_table((*columns, "ARGUMENTS"), rows, below=below.__getitem__)
    screen.print()
    for kind, drawn in KINDS.items():
        if drawn.takes and any(call.kind is kind for call in calls):
            screen.print(drawn.takes, style="dim", soft_wrap=True)
    screen.print(ALL_TAKE, style="dim", soft_wrap=True)


def _below(call: AsyncPendingCall, now: int, whole: bool, where: Where) -> list[tuple[str, str]]:  # noqa: FBT001 - private
    """The lines under a call, each with its style; `whole` says whether all of its arguments are shown."""
    found = [] if call.problem is None else [(f"it cannot be read: {clean(call.problem)}", "red")]
    prompt = call.cut["prompt"].begins if "prompt" in call.cut else call.prompt
    asked = [said for said in (call.title, prompt, call.action if call.action != "review" else None) if said]
    asked += [question.text for question in call.questions or ()]
    said = [f"it asks: {shorten(clean(one), PROMPT_LENGTH)}" for one in asked]
    said += filter(None, [below(call), asked_by(call)])
    said += [shorten(one, PROMPT_LENGTH) for one in lines_of(call, now, comments=MOST_COMMENTS)]
    found += [(one, "") for one in said]
    whole = whole and all(is_whole(one, PROMPT_LENGTH) for one in asked) and not call.report_md and call.payload is None
    step = next_step(call, where, whole=whole)
    return found if step is None else [*found, (step, "cyan")]


def _arguments(call: AsyncPendingCall) -> str:
    """The arguments as JSON text, or the beginning of long ones."""
    if call.problem is not None:
        return "?"
    return f"{call.cut['arguments'].begins}…" if "arguments" in call.cut else to_json(call.arguments)


def _cells(call: AsyncPendingCall, now: int) -> tuple[str, ...]:
    left = "?" if call.expires_at is None else span(call.expires_at - now) if call.expires_at > now else "due"
    age = span(now - call.created_at) if call.created_at else "?"
    names = (call.conversation_id, call.agent, call.kind or "", call.tool)
    return (age, left, *(clean(name) or "?" for name in names))
