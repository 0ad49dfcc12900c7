"""`holdfast keys`: make, list and revoke the API keys of the HTTP server. It needs Redis alone."""

import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.client.access import ApiKey, Quotas, Used, amounts_of, quotas_of
from holdfast.conversation import Proof
from holdfast.errors import InvalidInput

from .display import Said, clean, console, span, table, to_json
from .errors import ExitCode
from .grants import all_given, ended, of_giver
from .options import AsJson, seconds_of
from .session import Session

QUOTAS: Mapping[str, Any] = {
    "starts_per_day": Annotated[
        int | None, typer.Option(help="How many messages it may send in a day, first ones included: each starts a turn.")
    ],
    "conversations_per_day": Annotated[int | None, typer.Option(help="How many conversations it may start in a day.")],
    "tokens_per_day": Annotated[
        int | None, typer.Option(help="How many tokens its conversations may use in a day, before it may send no more.")
    ],
    "cost_usd_per_day": Annotated[
        float | None,
        typer.Option("--cost-per-day", help="The US dollars that they may cost in a day, before it may send no more."),
    ],
}
"""The quotas of a key, by the names that `quotas_of` takes."""


async def create(
    on: Session,
    *,
    name: Annotated[str, typer.Option(help="Who holds it: what is done with it is recorded under this name.")],
    scope: Annotated[
        list[str], typer.Option(help="What it allows: read, start, unattended, decide, client or admin; again for more.")
    ],
    agent: Annotated[
        list[str] | None, typer.Option(help="An agent whose conversations it may touch; again for more; all without one.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="A role of the holder; again for more.")] = None,
    expires: Annotated[str | None, typer.Option(help="After how long it is refused: 30d, 12h, 15m.", metavar="TIME")] = None,
    **quotas: Annotated[Any, QUOTAS],
) -> Said:
    """Make an API key. It is printed once, and never again: only the SHA-256 of its secret is stored."""
    expires_s = None if expires is None else seconds_of(expires, "expires")
    most = quotas_of(**quotas)
    key, text = await on.client.access.create_key(
        name, scope, agents=agent or None, roles=role or (), expires_s=expires_s, quotas=most
    )
    note = f"this is the only time that key {key.key_id} of {key.name} is shown"
    return Said(_shown(key) | {"key": text}, [text], note, indent=None)


async def list_keys(on: Session, *, as_json: AsJson = False) -> None:
    """List the API keys: whose they are, what they allow and have used, and roughly when each was last used."""
    access, now = on.client.access, round(time.time() * 1000)
    keys, unreadable = await access.listed()
    limited = [key for key in keys if key.quotas != Quotas()]
    used = dict(zip(limited, await access.used([key.key_id for key in limited]), strict=True)) if limited else {}
    if as_json:
        bad = {"unreadable": [one._asdict() for one in unreadable]} if unreadable else {}
        sys.stdout.write(to_json({"items": [_shown(key, used.get(key)) for key in keys], **bad}, indent=2) + "\n")
        return
    for one in unreadable:
        note = f"note: key {one.key_id} cannot be read, and lets nobody in ({one.why}); `holdfast keys revoke` removes it"
        sys.stderr.write(clean(note) + "\n")
    if not keys:
        sys.stdout.write("There is no API key that can be read.\n" if unreadable else "There is no API key.\n")
        return
    shown = table("ID", "NAME", "SCOPES", "AGENTS", "ROLES", "MADE", "EXPIRES", "USED", "QUOTAS")
    for key in keys:
        agents = "all" if key.agents is None else " ".join(key.agents)
        ends = "never" if key.expires_at is None else "expired" if key.expires_at <= now else f"in {span(key.expires_at - now)}"
        at = "never" if key.used_at is None else f"{span(now - key.used_at)} ago"
        whose = (key.key_id, key.name, " ".join(key.scopes), agents, " ".join(key.roles))
        shown.add_row(*map(clean, (*whose, f"{span(now - key.created_at)} ago", ends, at, _quotas(key, used.get(key)))))
    console().print(shown)


async def revoke(
    on: Session,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as the list shows it.")],
    *,
    with_effects: Annotated[
        bool, typer.Option("--with-effects", help="End the grants and votes that its holder has given, too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Revoke an API key: servers refuse it within five seconds, and its event streams end within fifteen.

    This lists what its holder has given by an API key: grants that stand, and votes on calls that wait. Such a grant allows
    nothing any more, unless another key of that name may decide; the votes still count. --with-effects ends both.
    """
    access, client = on.client.access, on.client
    key = next((one for one in (await access.listed()).keys if one.key_id == key_id), None)
    if not await access.revoke_key(key_id):
        raise InvalidInput("id", f"there is no API key {key_id!r:.60}", "take the id from: holdfast keys list")
    (sys.stderr if as_json else sys.stdout).write(clean(f"Revoked {key_id}.") + "\n")
    if key is None:
        return ExitCode.DONE
    found = [one async for one in all_given(client, key.name, Proof.KEY)]
    if others := [one.key_id for one in await access.keys() if one.name == key.name]:
        note = f"note: {key.name} also holds {', '.join(others)}, and what is listed may be given by that"
        sys.stderr.write(clean(note) + "\n")
    failed = {}
    for one in found if with_effects else ():
        reason = f"its API key {key_id} was revoked"
        failed[one.conversation_id] = await ended(client, one, key.name, reason, Proof.KEY)
    if not found and not as_json:
        return ExitCode.DONE
    return of_giver(found, failed, await access.now(), ended=with_effects).write(as_json=as_json)


COMMANDS = {"create": create, "list": list_keys, "revoke": revoke}


def _shown(key: ApiKey, used: Used | None = None) -> dict[str, object]:
    amounts = {} if used is None else {"used": amounts_of(key.quotas, used), "used_until": used.until or None}
    return key.model_dump(mode="json", exclude={"digest"}) | amounts


def _quotas(key: ApiKey, used: Used | None) -> str:
    if used is None:
        return ""
    amounts, most = amounts_of(key.quotas, used), key.quotas.model_dump()
    return ", ".join(f"{name.removesuffix('_per_day')} {amount:g} of {most[name]:g}" for name, amount in amounts.items())
