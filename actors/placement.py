"""Where Ray makes new actors: on each node in turn, and not on a node that is drained, as long as there is another.

Ray itself places actors without resources at random, whatever the scheduling strategy (`SPREAD`, a soft node affinity,
`NodeLabelSchedulingStrategy`: measured with Ray 2.60): of two workers on two nodes, both stand on one half of the time. A
selector of the label that Ray gives every node is heeded, and gives way where that node is gone. For draining too: Ray's own
`DrainNode` would end the node for everybody on the cluster, and cannot be taken back.
"""

import asyncio
import zlib
from collections.abc import Collection
from typing import Any

import ray

from holdfast.persistence import EVERYWHERE

NODE_LABEL = "ray.io/node-id"
"""A label with which Ray itself marks every node."""
DIGITS = "0123456789"


def in_turn(turn: int, avoid: Collection[str] = ()) -> dict[str, Any]:
    """The Ray options for making an actor on the node whose turn it is, of the living ones that are not to be avoided.

    Turns that follow each other are those of different nodes. Where that node dies, Ray makes the actor on any other, on one
    to be avoided only where no other node lives.
    """
    nodes = sorted(living_nodes().keys() - set(avoid))
    elsewhere = beside(avoid)
    if len(nodes) < 2:  # noqa: PLR2004 - one node has every turn
        return elsewhere
    fallbacks = [{"label_selector": elsewhere["label_selector"]}] if elsewhere else []
    return {
        "label_selector": {NODE_LABEL: nodes[turn % len(nodes)]},
        "fallback_strategy": [*fallbacks, {"label_selector": {}}],
    }


def turn_of(base: str) -> int:
    """The turn of a worker, by the name of its slot: the slots of an app's code follow each other."""
    slots = base.rstrip(DIGITS)
    return zlib.crc32(slots.encode()) + int(base[len(slots) :] or 0)


def beside(avoid: Collection[str]) -> dict[str, Any]:
    """The Ray options for making an actor on another node than these; on one of these only where no other node lives."""
    nodes = sorted(set(avoid) - {EVERYWHERE})
    if not nodes:
        return {}
    return {
        "label_selector": {NODE_LABEL: f"!in({','.join(nodes)})"},
        "fallback_strategy": [{"label_selector": {}}],
    }


async def drained(withheld: Collection[str]) -> bool:
    """Whether the node that this process runs on is drained, and another node lives where the work can go on."""
    if not withheld or not ray.is_initialized() or ray.get_runtime_context().get_node_id() not in withheld:
        return False
    return any(node not in withheld for node in await asyncio.to_thread(living_nodes))


def living_nodes() -> dict[str, str]:
    """The ids of the cluster's nodes that live, each with its address."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
