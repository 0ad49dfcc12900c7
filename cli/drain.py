"""`holdfast drain`: give a worker, a node or a release no new work, and wait for the work that it has."""

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import ConfigurationError

from .display import clean, many, span, tell, to_json, write_table
from .errors import ExitCode
from .operated import Operated, operated
from .options import AsJson, Where

if TYPE_CHECKING:
    from holdfast.registry.draining import Target
    from holdfast.registry.inventory import Process, Work

LOOK_EVERY_S = 1.0
LONGEST_WAIT_S = 7 * 86_400.0
NODE = 12
"""The shown characters of a node's id, which are enough to name it."""


def run(
    where: Where,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER|NODE|RELEASE",
            help="A worker as it is listed, a node's id or address, or a release.",
            show_default=False,
        ),
    ] = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Place new work on a drained node again.")] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="Wait until it is empty, for at most this long.", min=0)
    ] = 0.0,
    as_json: AsJson = False,
) -> int:
    """Drain a worker, a node or a release of Holdfast: its runs finish, and it gets no new work. Without a target, list all.

    A drained worker gets a successor elsewhere, and ends when its runs are done. The workers and conversations of a drained
    node leave it, each once it rests, and no new actor of Holdfast is placed there while another node lives, until `--undo`;
    other work on the cluster is not touched. The drain continues after this command has ended.

    Exit code: 0 if no actor is left there, 5 if one still is.
    """
    if target is None and (undo or wait_s):
        raise ConfigurationError("target", "none is named", "name what to drain; `holdfast drain` alone lists it")
    if not wait_s <= LONGEST_WAIT_S:  # NaN is refused too
        raise ConfigurationError("wait", f"{wait_s:g} s cannot be waited", f"use at most {LONGEST_WAIT_S:g}")
    return asyncio.run(_drain(where, target, undo=undo, wait_s=wait_s, as_json=as_json))


async def _drain(where: Where, named: str | None, *, undo: bool, wait_s: float, as_json: bool) -> int:
    async with operated(where) as found:
        from holdfast.actors.placement import living_nodes  # noqa: PLC0415 - Ray is joined by now
        from holdfast.registry import draining, inventory  # noqa: PLC0415 - as above

        running = await asyncio.to_thread(inventory.processes, found.settings)
        nodes, withheld = await asyncio.to_thread(living_nodes), await found.store.withheld()
        if named is None:
            work = await inventory.work_of(process for process in running if process.worker)
            listed = _listed(running, work, nodes, withheld)
            _say(listed) if as_json else _draw(listed, await found.store.now())
            return ExitCode.DONE
        wanted = draining.target(named, running, nodes, withheld)
        if undo:
            lifted = await draining.undo(found.store, wanted)
            text = "takes new work again" if lifted else "was not drained; nothing was done"
            _say({"node": wanted.name, "lifted": lifted}) if as_json else _say(f"Node {wanted.name} {text}.")
            return ExitCode.DONE
        first = await draining.drain(found.store, await found.making(), wanted)
        if not as_json:
            _say(
                f"{wanted.kind.capitalize()} {wanted.name} {'is drained from now on' if first else 'is being drained already'}."
            )
        rest = await _emptied(found, wanted, wait_s)
        if as_json:
            _say({"kind": wanted.kind, "name": wanted.name, "began": first, "left": [process.name for process in rest]})
        else:
            _say(f"{len(rest)} of its actors are still there." if rest else "Nothing of Holdfast is left there.")
        return ExitCode.AWAITING if rest else ExitCode.DONE


async def _emptied(found: Operated, wanted: "Target", wait_s: float) -> "list[Process]":
    """The actors that are left once none is, or the time is up; changes are reported on stderr."""
    from holdfast.registry import draining, inventory  # noqa: PLC0415 - as above

    loop = asyncio.get_running_loop()
    give_up = loop.time() + wait_s
    before = ""
    while True:
        rest = await draining.left(found.settings, wanted)
        if not rest or loop.time() >= give_up:
            return rest
        work = await inventory.work_of(process for process in rest if process.worker)
        runs, calls = sum(one.runs for one in work.values()), sum(one.model_calls for one in work.values())
        now = f"{many(len(rest), 'actor')} left; {many(runs, 'run')} and {many(calls, 'model call')} are under way"
        if now != before:
            before = now
            tell(f"{now}\n")
        await asyncio.sleep(min(LOOK_EVERY_S, max(give_up - loop.time(), 0)))


def _say(value: Any) -> None:
    sys.stdout.write((clean(value) if isinstance(value, str) else to_json(value, indent=2)) + "\n")
    sys.stdout.flush()


def _listed(
    running: "list[Process]", works: "dict[str, Work]", nodes: Mapping[str, str], withheld: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """The workers and nodes of a store as plain JSON values; `withheld` gives the time of each drained node's drain."""
    workers = []
    for process in running:
        if process.worker:
            work, place = works[process.name], {"node": process.node or None, "address": nodes.get(process.node)}
            counts = {name: getattr(work, name) if work.known else None for name in ("runs", "model_calls", "leaving")}
            named = {"worker": process.short, "name": process.name}
            workers.append(named | place | {"release": process.release, "app": work.app or None} | counts)
    places = []
    for node, address in sorted(nodes.items()):
        here = [process.worker for process in running if process.node == node]
        counts = {"workers": sum(here), "actors": len(here) - sum(here)}
        places.append({"node": node, "address": address, "drained_since": withheld.get(node)} | counts)
    return {"workers": workers, "nodes": places}


def _draw(listed: dict[str, list[dict[str, Any]]], now: int) -> None:
    rows = []
    for one in listed["workers"]:
        state = "leaving" if one["leaving"] else "at work" if one["runs"] or one["model_calls"] else "idle"
        told = ("?", "?", "?") if one["runs"] is None else (str(one["runs"]), str(one["model_calls"]), state)
        rows.append((one["worker"], (one["node"] or "?")[:NODE], one["release"], clean(one["app"] or "?"), *told))
    write_table(("WORKER", "NODE", "RELEASE", "APP", "RUNS", "MODEL CALLS", "STATE"), rows)
    sys.stdout.write("\n")
    places = []
    for one in listed["nodes"]:
        drained = "no" if one["drained_since"] is None else f"for {span(now - one['drained_since'])}"
        places.append((one["node"][:NODE], one["address"], str(one["workers"]), str(one["actors"]), drained))
    write_table(("NODE", "ADDRESS", "WORKERS", "ACTORS", "DRAINED"), places)
    sys.stdout.write("\n")
