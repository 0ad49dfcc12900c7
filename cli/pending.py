"""`holdfast pending`: the pending calls, and the command that resolves each. It needs Redis, or a server, alone."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.client.list_events import AsyncListEvent, ListEvent, ListEventKind
from holdfast.client.results import AsyncPendingCall, Page
from holdfast.conversation import Principal, SettledBy, SuspensionKind
from holdfast.errors import InvalidInput

from .deciding import MOST_COMMENTS, lines_of
from .display import clean, console, is_whole, is_whole_json, lines, shorten, span, table, to_json
from .hints import asked_by, command, granted, next_step
from .options import AsJson, Where
from .pauses import notice, standing
from .session import Reached, reached

LIMIT = 50
WATCHED_AT_ONCE = 200
SHORTEST, LONGEST = 20, 80
"""How many characters of the arguments are shown at least and at most."""
PROMPT_LENGTH = 300

ELSEWISE = {
    SuspensionKind.APPROVAL: "An approval takes --approve, --approve --arguments JSON (edited), or --deny REASON.",
    SuspensionKind.ELICITATION: "A question takes --answer JSON (text in double quotes), --ask (one by one), or --deny REASON.",
    SuspensionKind.CLIENT_EXEC: "A client's call takes --answer JSON, or --fail ERROR.",
    SuspensionKind.LOST: "A lost run takes --redispatch (run it again), --answer JSON (what it returned), or --fail ERROR.",
    SuspensionKind.REVIEW: "A review takes --review allow, block or review (revise and ask again), with --notes TEXT.",
}
ALL_TAKE = (
    "Each takes --cancel REASON: the call is dropped, and its turn goes on. `holdfast show` says what a certain call takes."
)


def run(
    where: Where,
    conversation: Annotated[str | None, typer.Argument(help="Only this conversation's calls.")] = None,
    *,
    limit: Annotated[int | None, typer.Option(help=f"How many are listed at most; {LIMIT} if left out.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's calls.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only this kind: approval, elicitation, client_exec, lost or review.")
    ] = None,
    approver: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this principal may decide, with the roles of --role.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="With --approver: a role of theirs; repeat it for several.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on with what comes, is noted and is settled, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List pending calls, oldest first, each with the command that resolves it.

    Long arguments are cut; `holdfast show` has all of them, and the conversation. A command that lets a call run is printed
    only where the whole call is shown. With `--watch --json` each line is one event, as `client.events()` gives it.
    """
    if watch:
        given = {"limit": limit, "after": after, "approver": approver, "conversation": conversation}
        refuse(given, "it does not go with --watch, which shows all")
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_watch(where, agent=agent, kind=kind, as_json=as_json))
        return
    if role and approver is None:
        raise InvalidInput("--role", "it is a role of nobody", "add --approver NAME, or leave it out")
    who = None if approver is None else Principal(approver, roles=tuple(role or ()))
    asyncio.run(_pending(where, conversation, limit=limit, after=after, agent=agent, kind=kind, who=who, as_json=as_json))


async def _watch(where: Where, *, agent: str | None, kind: str | None, as_json: bool) -> None:
    """Show what waits, and then what comes and what is settled."""
    async with reached(where) as opened:
        async for event in opened.client.events(agent=agent, kind=kind):
            if as_json:
                _write(event)
            elif event.kind is ListEventKind.NOTED and event.call is not None:
                said = "; ".join(shorten(one, PROMPT_LENGTH) for one in lines_of(event.call, comments=1)) or "it is given back"
                console().print(clean(f"noted: {event.call.suspension_id} of {event.conversation_id}: {said}"), soft_wrap=True)
            elif event.call is not None:
                draw([event.call], await opened.now(), where)
            elif event.kind is ListEventKind.SETTLED:
                who = event.data["principal"]["id"] if event.data.get("principal") else "nobody in particular"
                by = granted(event.data.get("grants") or ()) if event.data["by"] == SettledBy.GRANT else event.data["by"]
                by = by or "something that cannot be read"
                said = f"settled: {event.data['suspension_id']} of {event.conversation_id} by {by} ({who})"
                console().print(clean(said), style="green", soft_wrap=True)
            if event.kind in {ListEventKind.FOLLOWING, ListEventKind.MISSED}:
                await _watch_from_here(opened, where, agent=agent, kind=kind, as_json=as_json)
            sys.stdout.flush()


async def _watch_from_here(opened: Reached, where: Where, *, agent: str | None, kind: str | None, as_json: bool) -> None:
    """Show all that waits now."""
    after: str | None = None
    while True:
        page = await opened.client.pending(limit=WATCHED_AT_ONCE, after=after, agent=agent, kind=kind)
        if as_json:
            for call in page.items:
                data = call.to_dict()
                _write(ListEvent(ListEventKind.PENDING, call.created_at, call.conversation_id, call.agent, data=data))
        elif page.items:
            draw(page.items, await opened.now(), where)
        if (after := page.next) is None:
            return


def _write(event: AsyncListEvent) -> None:
    names = ("kind", "at", "conversation_id", "agent", "seq", "data", "cursor")
    sys.stdout.write(to_json({name: getattr(event, name) for name in names}) + "\n")


async def _pending(
    where: Where,
    conversation: str | None,
    *,
    limit: int | None,
    after: str | None,
    agent: str | None,
    kind: str | None,
    who: Principal | None,
    as_json: bool,
) -> None:
    async with reached(where) as opened:
        if conversation is None:
            most = LIMIT if limit is None else limit
            page = await opened.client.pending(limit=most, after=after, agent=agent, kind=kind, approver=who)
        else:
            filters = {"limit": limit, "after": after, "agent": agent, "kind": kind, "approver": who}
            page = await _of(opened, conversation, filters)
        pauses = await standing(opened.client)
        if as_json:
            items = [call.to_dict() for call in page.items]
            said = {"items": items, "next": page.next, "paused": [asdict(one) for one in pauses]}
            sys.stdout.write(to_json(said, indent=2) + "\n")
            return
        now = await opened.now()
    sys.stdout.write(notice(pauses, now))
    draw(page.items, now, where)
    if page.next is not None:
        given = {"--limit": limit, "--agent": agent, "--kind": kind, "--after": page.next}
        words = [str(word) for option, value in given.items() if value is not None for word in (option, value)]
        if who is not None:
            words += ["--approver", who.id, *(word for role in who.roles for word in ("--role", role))]
        sys.stdout.write(f"\nThere are more: {command(['pending', *words], where)}\n")


async def _of(opened: Reached, conversation: str, filters: Mapping[str, object]) -> Page[AsyncPendingCall]:
    refuse(filters, "it is for the list over all conversations")
    return Page(await opened.client.conversation(conversation).pending())


def refuse(options: Mapping[str, object], why: str) -> None:
    """Refuse options that do not go with the rest of the command.

    Raises:
        InvalidInput: One of them is given.
    """
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(f"--{name}" if name != "conversation" else name, why, "leave one of them out")


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
    drawn = table(*columns, "ARGUMENTS")
    arguments = [_arguments(call) for call in calls]
    for row, text in zip(cells, arguments, strict=True):
        drawn.add_row(*row, shorten(clean(text), room))
    header, *rows = lines(screen, drawn)
    screen.print(header, soft_wrap=True)
    for call, line, text in zip(calls, rows, arguments, strict=True):
        screen.print(line, soft_wrap=True)
        if call.problem is not None:
            screen.print(f"  it cannot be read: {clean(call.problem)}", style="red", soft_wrap=True)
        prompt = call.cut["prompt"].begins if "prompt" in call.cut else call.prompt
        asked = [said for said in (call.title, prompt, call.action if call.action != "review" else None) if said]
        asked += [question.text for question in call.questions or ()]
        for said in asked:
            screen.print(f"  it asks: {shorten(clean(said), PROMPT_LENGTH)}", soft_wrap=True)
        if said := asked_by(call):
            screen.print(f"  {said}", soft_wrap=True)
        for said in lines_of(call, comments=MOST_COMMENTS):
            screen.print(f"  {shorten(said, PROMPT_LENGTH)}", soft_wrap=True)
        whole = is_whole_json(text, room) and all(is_whole(said, PROMPT_LENGTH) for said in asked)
        whole = whole and not call.report_md and call.payload is None
        if (step := next_step(call, where, whole=whole)) is not None:
            screen.print(f"  {step}", style="cyan", soft_wrap=True)
    screen.print()
    for kind, elsewise in ELSEWISE.items():
        if any(call.kind is kind for call in calls):
            screen.print(elsewise, style="dim", soft_wrap=True)
    screen.print(ALL_TAKE, style="dim", soft_wrap=True)


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
