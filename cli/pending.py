"""`holdfast pending`: the pending calls, and the command that resolves each. It needs Redis, or a server, alone."""

import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from holdfast.client.filters import CALLS, EVENTS
from holdfast.client.list_events import AsyncListEvent, ListEvent, ListEventKind
from holdfast.client.results import AsyncPendingCall, Page
from holdfast.conversation import Principal, SettledBy
from holdfast.errors import InvalidInput

from .display import clean, console, is_whole, is_whole_json, shorten, span, to_json, write_table
from .hints import KINDS, MOST_COMMENTS, asked_by, below, granted, lines_of, more, next_step, notice, standing
from .options import PAGE, AsJson, Where, chosen, options_of, wanted
from .session import Reached, within

WATCHED_AT_ONCE = 200
SHORTEST, LONGEST = 20, 80
"""The fewest and the most characters of the arguments that are shown."""
PROMPT_LENGTH = 300

ALL_TAKE = (
    "Each takes --cancel REASON: the call is dropped, and its turn goes on. `holdfast show` says what a certain call takes."
)


ROLE = {"role": Annotated[list[str] | None, typer.Option(help="With --approver: a role of that principal; again for more.")]}


def run(
    where: Where,
    conversation: Annotated[str | None, typer.Argument(help="Only this conversation's calls.")] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Then print new, noted and settled calls as they come, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
    **filters: Annotated[Any, PAGE, options_of(CALLS), ROLE],
) -> None:
    """List pending calls, oldest first, each with the command that resolves it.

    Long arguments are cut; `holdfast show` has all of them, and the conversation. A command that lets a call run is printed
    only if the whole call is shown. With `--watch --json` each line is one event, as `client.events()` gives it.
    """
    given = chosen(filters)
    if watch:
        refuse(
            chosen({"conversation": conversation}) | given,
            "it does not go with --watch, which shows all",
            [one.name for one in EVENTS],
        )
        with contextlib.suppress(KeyboardInterrupt):
            within(where, partial(_watch, as_json=as_json, **given))
        return
    if "role" in given and "approver" not in given:
        raise InvalidInput("--role", "it needs --approver", "add --approver NAME, or leave it out")
    if conversation is not None:
        refuse(given, "it is for the list over all conversations")
    within(where, partial(_list, conversation=conversation, given=given, as_json=as_json))


def refuse(given: Iterable[str], why: str, taken: Sequence[str] = ()) -> None:
    """Refuse given options, except `taken` ones, that do not go with the rest of the command."""
    for name in given:
        if name not in taken:
            raise InvalidInput(f"--{name.replace('_', '-')}" if name != "conversation" else name, why, "leave one of them out")


async def _watch(on: Reached, *, as_json: bool, **given: Any) -> None:
    async for event in on.client.events(**given):
        if as_json:
            _write(event)
        elif event.kind is ListEventKind.NOTED and event.call is not None:
            lines = lines_of(event.call, await on.now(), comments=1)
            said = "; ".join(shorten(one, PROMPT_LENGTH) for one in lines) or "it is given back, or shown again"
            console().print(clean(f"noted: {event.call.suspension_id} of {event.conversation_id}: {said}"), soft_wrap=True)
        elif event.call is not None:
            draw([event.call], await on.now(), on.where)
        elif event.kind is ListEventKind.SETTLED:
            who = event.data["principal"]["id"] if event.data.get("principal") else "no person"
            by = granted(event.data.get("grants") or ()) if event.data["by"] == SettledBy.GRANT else event.data["by"]
            by = by or "something that cannot be read"
            said = f"settled: {event.data['suspension_id']} of {event.conversation_id} by {by} ({who})"
            console().print(clean(said), style="green", soft_wrap=True)
        if event.kind in {ListEventKind.FOLLOWING, ListEventKind.MISSED}:
            await _watch_from_here(on, as_json=as_json, **given)
        sys.stdout.flush()


async def _watch_from_here(on: Reached, *, as_json: bool, **given: Any) -> None:
    after: str | None = None
    while True:
        page = await on.client.pending(limit=WATCHED_AT_ONCE, after=after, **given)
        if as_json:
            for call in page.items:
                data = call.to_dict()
                _write(ListEvent(ListEventKind.PENDING, call.created_at, call.conversation_id, call.agent, data=data))
        elif page.items:
            draw(page.items, await on.now(), on.where)
        if (after := page.next) is None:
            return


def _write(event: AsyncListEvent) -> None:
    names = ("kind", "at", "conversation_id", "agent", "seq", "data", "cursor")
    sys.stdout.write(to_json({name: getattr(event, name) for name in names}) + "\n")


async def _list(on: Reached, conversation: str | None, given: Mapping[str, Any], *, as_json: bool) -> None:
    if conversation is not None:
        page = Page[AsyncPendingCall](items=await on.client.conversation(conversation).pending())
    else:
        filters = wanted(CALLS, {name: value for name, value in given.items() if name != "role"})
        if "approver" in given:
            filters["approver"] = Principal(given["approver"], roles=tuple(given.get("role", ())))
        page = await on.client.pending(**filters)
    pauses = await standing(on.client)
    if as_json:
        items = [call.to_dict() for call in page.items]
        said = {"items": items, "next": page.next, "paused": [asdict(one) for one in pauses]}
        sys.stdout.write(to_json(said, indent=2) + "\n")
        return
    now = await on.now()
    sys.stdout.write(notice(pauses, now))
    draw(page.items, now, on.where)
    if page.next is not None:
        sys.stdout.write(more("pending", given, page.next, on.where))


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
