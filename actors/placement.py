"""Where Ray makes new actors: on each node in turn, but on a drained node only if there is no other.

Ray places actors without resources at random, whatever the scheduling strategy (`SPREAD`, a soft node affinity,
`NodeLabelSchedulingStrategy`: measured with Ray 2.60): two workers on two nodes share a node half of the time. A selector of
the label that Ray gives every node works, and falls back if that node is gone. Draining uses it too: Ray's own `DrainNode`
would end the node for every user of the cluster, irrevocably.
"""

import asyncio
import zlib
from collections.abc import Collection
from typing import Any

import ray

from holdfast.persistence import EVERYWHERE

NODE_LABEL = "ray.io/node-id"
"""The label by which Ray marks every node."""
DIGITS = "0123456789"


def in_turn(turn: int, avoid: Collection[str] = ()) -> dict[str, Any]:
    """Ray options for making an actor on the living node whose turn it is, not counting those to avoid.

    Consecutive turns use different nodes. If that node dies, Ray chooses any other, one to avoid only as the last resort.
    """
    nodes = sorted(living_nodes().keys() - set(avoid))
    elsewhere = beside(avoid)
    if len(nodes) < 2:  # noqa: PLR2004 - one node has every turn
        return elsewhere
    fallbacks = [{"label_selector": elsewhere["label_selector"]}] if elsewhere else []
    return {"label_selector": {NODE_LABEL: nodes[turn % len(nodes)]}, "fallback_strategy": [*fallbacks, {"label_selector": {}}]}


def turn_of(base: str) -> int:
    """The turn of a worker, from the name of its slot: the slots of an app's code have consecutive turns."""
    slots = base.rstrip(DIGITS)
    return zlib.crc32(slots.encode()) + int(base[len(slots) :] or 0)


def beside(avoid: Collection[str]) -> dict[str, Any]:
    """Ray options for making an actor on another node than these; on one of these only if no other node lives."""
    nodes = sorted(set(avoid) - {EVERYWHERE})
    if not nodes:
        return {}
    return {"label_selector": {NODE_LABEL: f"!in({','.join(nodes)})"}, "fallback_strategy": [{"label_selector": {}}]}


async def drained(withheld: Collection[str]) -> bool:
    """Whether this process's node is drained and another living node can take the work."""
    if not withheld or not ray.is_initialized() or ray.get_runtime_context().get_node_id() not in withheld:
        return False
    return any(node not in withheld for node in await asyncio.to_thread(living_nodes))


def living_nodes() -> dict[str, str]:
    """The addresses of the cluster's living nodes, by node id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
