"""The change from one release of Holdfast to another within a cluster that goes on."""

import logging

import ray

from holdfast.actors import ActorSettings, find, named

logger = logging.getLogger("holdfast.registry")


def end_other_releases(settings: ActorSettings) -> None:
    """End a store's sweeper and actors of other releases, and have their workers end once nothing runs there any more.

    Actors may die at any moment: what they hosted is revived here. A run is the app's work, and is seen through.

    Raises:
        ClusterUnavailable: This process is in no cluster (any more).
    """
    others = [name for name in named(settings.family) if not name.startswith(settings.prefix)]
    for name in sorted(others, key=lambda name: not name.endswith("sweeper")):  # who would fill the pool again goes first
        handle = find(name)
        if handle is None:
            continue
        logger.info("%s is of another release, and ends", name)
        if ":worker:" in name:
            handle.retire.remote()
        else:
            ray.kill(handle)
