"""The change of Holdfast's release within a running cluster."""

import logging

import ray
from ray.exceptions import RayError

from holdfast.actors.actor_settings import ActorSettings
from holdfast.actors.ray_launcher import find, named

from .releases import older

logger = logging.getLogger("holdfast.registry")


def end_other_releases(settings: ActorSettings, *, roll_back: bool = False) -> None:
    """End a store's sweepers and actors of other releases, and have the workers of those releases end after their work.

    Processes of a newer release, which may have taken office meanwhile, are left alone unless `roll_back` is true. Actors may
    die at any moment, and their conversations are revived in this release. A run is the app's work, so it is finished.
    """
    others = [
        name
        for name in named(settings.family)
        if not name.startswith(settings.prefix) and (roll_back or not older(settings.release, release_of(settings, name)))
    ]
    for name in sorted(others, key=lambda name: not name.endswith("sweeper")):  # the sweeper first: it would refill the pool
        logger.info("%s is of another release, and ends", name)
        try:
            handle = find(name)
            if handle is not None and ":worker:" in name:
                handle.retire.remote()
            elif handle is not None:
                ray.kill(handle)
        except (RayError, ValueError, AttributeError) as error:  # it has ended meanwhile, or its release lacks `retire`
            logger.warning("%s is left alone: %s", name, error)


def release_of(settings: ActorSettings, name: str) -> str:
    """The release in the name of a store's actor or worker; older names, which lack the cluster, begin with it."""
    first, second, *_ = [*name.removeprefix(settings.family).split(":"), "", ""]
    return first if second in ("actor", "worker", "sweeper") else second
