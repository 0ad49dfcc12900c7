"""The change from one release of Holdfast to another within a cluster that goes on."""

import logging

import ray
from ray.exceptions import RayError

from holdfast.actors import ActorSettings, find, named

from .releases import older

logger = logging.getLogger("holdfast.registry")


def end_other_releases(settings: ActorSettings, *, roll_back: bool = False) -> None:
    """End a store's sweeper and actors of other releases, and have their workers end once nothing runs there any more.

    Those of a newer release, which may have come since this one took office, are left alone, unless it is to be rolled back.
    Actors may die at any moment: what they hosted is revived here. A run is the app's work, and is seen through.

    Raises:
        ClusterUnavailable: This process is in no cluster (any more).
    """
    others = [
        name
        for name in named(settings.family)
        if not name.startswith(settings.prefix) and (roll_back or not older(settings.release, release_of(settings, name)))
    ]
    for name in sorted(others, key=lambda name: not name.endswith("sweeper")):  # who would fill the pool again goes first
        logger.info("%s is of another release, and ends", name)
        try:
            handle = find(name)
            if handle is not None and ":worker:" in name:
                handle.retire.remote()
            elif handle is not None:
                ray.kill(handle)
        except (RayError, ValueError, AttributeError) as error:  # it has ended meanwhile, or is too old to be told
            logger.warning("%s is left alone: %s", name, error)


def release_of(settings: ActorSettings, name: str) -> str:
    """The release in the name of a store's actor; before names told the cluster, it stood in its place."""
    first, second, *_ = [*name.removeprefix(settings.family).split(":"), "", ""]
    return first if second in ("actor", "worker", "sweeper") else second
