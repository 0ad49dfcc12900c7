"""Where Ray makes new actors: not on a node that is drained, as long as there is another.

Ray's own `DrainNode` would end the node for everybody on the cluster, and cannot be taken back. A selector of the label that
Ray gives every node says the same for the actors of one store. (`NodeLabelSchedulingStrategy` is not heeded for actors without
resources: measured with Ray 2.60.)
"""

import asyncio
from collections.abc import Collection
from typing import Any

import ray

from holdfast.persistence import EVERYWHERE

NODE_LABEL = "ray.io/node-id"
"""A label with which Ray itself marks every node."""


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
