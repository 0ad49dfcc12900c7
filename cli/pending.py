"""`holdfast pending`: the pending calls, and the command that resolves each. It needs Redis, or a server, alone."""

import contextlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from holdfast.client.filters import CALLS
from holdfast.client.results import AsyncPendingCall, Page
from holdfast.conversation import Principal
from holdfast.errors import InvalidInput

from . import watching
from .display import to_json
from .hints import more, notice, standing
from .listed import draw
from .options import PAGE, AsJson, Where, chosen, options_of, wanted
from .session import Reached, within

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
    if conversation is not None:
        refuse(given, "it is for the list over all conversations")
        refuse(["watch"] if watch else [], "it is for the list over all conversations; --root C is for one and those below it")
    filters = asked(given)
    if watch:
        refuse(given.keys() & PAGE.keys(), "it does not go with --watch, which shows all")
        with contextlib.suppress(KeyboardInterrupt):
            within(where, partial(watching.run, wanted=filters, as_json=as_json))
        return
    within(where, partial(_list, conversation=conversation, given=given, filters=filters, as_json=as_json))


def refuse(given: Iterable[str], why: str) -> None:
    """Refuse given options, which do not go with the rest of the command."""
    for name in given:
        raise InvalidInput(f"--{name.replace('_', '-')}", why, "leave one of them out")


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `client.pending` for the given options of the list."""
    if "role" in given and "approver" not in given:
        raise InvalidInput("--role", "it needs --approver", "add --approver NAME, or leave it out")
    filters = wanted(CALLS, {name: value for name, value in given.items() if name != "role"})
    if "approver" in given:
        filters["approver"] = Principal(given["approver"], roles=tuple(given.get("role", ())))
    return filters


async def _list(
    on: Reached, conversation: str | None, given: Mapping[str, Any], filters: Mapping[str, Any], *, as_json: bool
) -> None:
    if conversation is not None:
        page = Page[AsyncPendingCall](items=await on.client.conversation(conversation).pending())
    else:
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
