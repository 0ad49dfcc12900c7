"""The problems that need a person, read from Redis: one list for `holdfast problems`, `holdfast doctor` and the pages."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from holdfast.conversation import Proof, Status, SuspensionKind
from holdfast.conversation.log.owed import shown_target
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.persistence import Directory, Lists, OutboxState, Store
from holdfast.registry.cluster import BINDING_STALE_MS
from holdfast.settings import Timing

from .async_client import AsyncClient
from .given import given_page
from .stack_gateway import at_stack

Said: TypeAlias = Callable[[Sequence[str]], str]
"""Writes the words of a command of `holdfast` as a person would type them."""

NAMED = 20
"""How many items of each kind are named; the others are counted."""
OVERDUE_MS = 60_000
"""Milliseconds after its moment from which a deadline is overdue: a sweeper looks twice a second."""
LATE_MS = 3_600_000
"""Milliseconds for which something may be owed before that is a problem."""
REASON_LENGTH = 300
LOOKED_THROUGH = 200
"""The most conversations with grants that are searched for grants whose givers are gone."""


class Kind(StrEnum):
    """The kind of a problem."""

    APP = "app"  # workers cannot import an app: its conversations wait
    LOST_RUN = "lost_run"  # a run was lost, and a person is asked whether it took effect
    QUARANTINE = "quarantine"  # a conversation took down process after process, or cannot be read
    TROUBLE = "trouble"  # a conversation that needs attention cannot be taken up
    HUNG_ACTOR = "hung_actor"  # an actor lives and answers nothing
    GRANT = "grant"  # a grant stands whose giver's API key does not let them decide any more
    UNDELIVERED = (
        "undelivered"  # something that is owed could not be delivered and was set aside, or has been tried for an hour
    )
    OVERDUE = "overdue"  # a deadline or the end of a lease passed, and no sweeper has acted on it


@dataclass(frozen=True, slots=True)
class Which:
    """One item with a problem: its name, its reason, and since when (ms UTC; None: not known)."""

    name: str
    since: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """All problems of one kind: their number (None: cannot be read), some of them by name, and the command that helps.

    `said` begins with their noun in the plural, and is a sentence with one of them, too.
    """

    kind: Kind
    count: int | None
    said: str
    fix: str
    which: Sequence[Which] = ()

    @property
    def since(self) -> int | None:
        """The earliest known moment of the named items, in milliseconds UTC; None if none is known."""
        return min((one.since for one in self.which if one.since is not None), default=None)


async def problems(client: AsyncClient) -> list[Problem]:
    """The problems of a client's namespace; `StoreUnavailable` if Redis does not answer."""
    connection = at_stack(client.gateway)
    timing = connection.stack.settings.timing
    return await connection.read(lambda store: problems_of(store, timing, lambda words: shlex.join(["holdfast", *words])))


async def problems_of(store: Store, timing: Timing, command: Said) -> list[Problem]:
    """The problems of a store; `StoreUnavailable` if Redis does not answer. A kind that cannot be read is itself a problem."""
    looks: dict[Kind, Callable[[], Awaitable[Problem | None]]] = {
        Kind.APP: lambda: _apps(store, command),
        Kind.LOST_RUN: lambda: _lost(store, command),
        Kind.QUARANTINE: lambda: _quarantined(store, command),
        Kind.TROUBLE: lambda: _troubled(store, command),
        Kind.HUNG_ACTOR: lambda: _hung(store, timing, command),
        Kind.GRANT: lambda: _grants(store, command),
        Kind.UNDELIVERED: lambda: _undelivered(store, command),
        Kind.OVERDUE: lambda: _overdue(store, command),
    }
    found = []
    for kind, look in looks.items():
        try:
            problem = await look()
        except StoreUnavailable:
            raise
        except StoreError as error:
            problem = Problem(kind, None, f"it cannot be read: {error}", "correct the key in Redis, and run the command again")
        if problem is not None:
            found.append(problem)
    return found


async def _apps(store: Directory, command: Said) -> Problem | None:
    broken = await store.broken_apps()
    if not broken:
        return None
    fix = f"correct it, then run: {command(['up', '--app', broken[0].app])}"
    which = [Which(one.app, one.since, one.problem[:REASON_LENGTH]) for one in broken[:NAMED]]
    return Problem(Kind.APP, len(broken), "apps that no worker can run: their conversations wait", fix, which)


async def _lost(store: Lists, command: Said) -> Problem | None:
    count = (await store.census(since=0)).lost
    if not count:
        return None
    page = await store.pending(limit=NAMED, kind=SuspensionKind.LOST)
    which = [Which(view.conversation_id, view.created_at or None, view.problem or view.tool) for view in page.items]
    said = "runs without an outcome: a person is asked whether they took effect"
    return Problem(Kind.LOST_RUN, count, said, f"run: {command(['pending', '--kind', 'lost'])}", which)


async def _quarantined(store: Store, command: Said) -> Problem | None:
    page = await store.conversations(limit=NAMED, status=Status.QUARANTINED)
    if not page.items:
        return None
    which = []
    for row in page.items:
        found = await store.quarantine(row.conversation_id) if row.conversation_id else None
        if found is not None:
            which.append(Which(row.conversation_id, found.at, found.reason[:REASON_LENGTH]))
    count = max((await store.census(since=0)).quarantined, len(page.items))
    name = which[0].name if which else "CONVERSATION"
    fix = f"correct the cause, then run: {command(['retry', name])}"
    return Problem(Kind.QUARANTINE, count, "conversations in quarantine: no work runs there", fix, which)


async def _troubled(store: Lists, command: Said) -> Problem | None:
    troubles = await store.troubles()
    if not troubles:
        return None
    which = [Which(one.conversation_id, one.since, one.reason[:REASON_LENGTH]) for one in troubles[:NAMED]]
    fix = f"correct what the reason names; Holdfast then tries again by itself; see: {command(['show', which[0].name])}"
    return Problem(Kind.TROUBLE, len(troubles), "conversations in need of attention that cannot be taken up", fix, which)


async def _hung(store: Directory, timing: Timing, command: Said) -> Problem | None:
    """The silent actors of a living cluster: its sweeper deregisters dead ones."""
    bound = await store.binding()
    silent = await store.live(quiet_ms=timing.stale_ms)
    if not silent or bound is None or bound.age_ms >= BINDING_STALE_MS:
        return None
    which = [
        Which(name, one.since, f"it hosts {one.conversation_id}" if one.conversation_id else "it hosts nothing")
        for name, one in list(silent.items())[:NAMED]
    ]
    fix = f"read Ray's logs of its process; the sweeper ends it by itself, unless it hangs too: {command(['doctor'])}"
    return Problem(Kind.HUNG_ACTOR, len(silent), "actors without an answer in a living cluster", fix, which)


async def _grants(store: Store, command: Said) -> Problem | None:
    """The grants of API key holders who may no longer decide, in the first conversations that have grants."""
    page, keys, now = await asyncio.gather(
        given_page(store, None, Proof.KEY, limit=LOOKED_THROUGH, after=None), store.api_keys(), store.now()
    )
    which, names = [], dict[str, None]()
    for one in page.items:
        holders = {key.name for key in keys.keys if key.may_decide(one.agent, None, now)}
        gone = [grant for grant in one.grants if grant.by is not None and grant.by.id not in holders]
        which += [
            Which(f"{one.conversation_id} {grant.grant_id}", None, f"given by {grant.by.id}") for grant in gone if grant.by
        ]
        names |= {grant.by.id: None for grant in gone if grant.by is not None}
    if not which:
        return None
    fix = f"end what they have given: {command(['grants', '--by', next(iter(names)), '--end'])}"
    said = "grants whose givers may not decide any more (their API keys are gone): calls ask again"
    return Problem(Kind.GRANT, None if page.next is not None else len(which), said, fix, which[:NAMED])


async def _undelivered(store: Store, command: Said) -> Problem | None:
    """What was set aside, and the queues whose oldest has been owed for `LATE_MS`."""
    figures = await store.outbox_figures()
    aside = sum(one.set_aside for one in figures.lanes.values())
    pages = [await store.outbox(state, limit=NAMED) for state in (OutboxState.SET_ASIDE, OutboxState.OWED)]
    rows = [row for page in pages for row in page.items]
    late = [row for row in rows if row.state is OutboxState.SET_ASIDE or row.envelope.at < figures.now - LATE_MS]
    if not late:
        return None
    which = [
        Which(f"{row.conversation_id} {shown_target(row.envelope.target)} {row.envelope.kind}", row.envelope.at, row.reason)
        for row in late[:NAMED]
    ]
    count = aside + sum(row.state is OutboxState.OWED for row in late)
    said = "notices (to targets or to conversations) set aside, or owed for an hour"
    fix = (
        f"correct what the reason names; see {command(['outbox'])}, then run: {command(['outbox', '--retry', 'ID'])} or --drop"
    )
    return Problem(Kind.UNDELIVERED, count, said, fix, which)


async def _overdue(store: Lists, command: Said) -> Problem | None:
    found = await store.overdue(OVERDUE_MS, limit=NAMED)
    if not found.count:
        return None
    which = [Which(name, at) for name, at in found.longest]
    said = "conversations whose deadline passed, or whose actor's lease ended, without a sweeper acting on it"
    return Problem(Kind.OVERDUE, found.count, said, f"start a cluster with a sweeper: {command(['up'])}", which)
