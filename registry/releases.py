"""The release of Holdfast that serves a store (the newest that has connected, unless it was rolled back), and its change."""

import logging

import ray
from packaging.version import InvalidVersion, Version
from ray.exceptions import RayError

from holdfast.actors.actor_settings import ActorSettings
from holdfast.actors.build import build_of
from holdfast.actors.ray_launcher import find, named
from holdfast.errors import ConfigurationError, OlderRelease, OtherBuild
from holdfast.persistence import Directory

logger = logging.getLogger("holdfast.registry")


async def take_office(store: Directory, release: str, *, roll_back: bool = False, other_builds: bool = True) -> None:
    """Note that this release serves the store from now on.

    Releases are ordered by PEP 440, without the local part, which tells apart builds of one version and ciphers of one build.
    `other_builds` allows to replace another build of this version, or this build with another cipher; `roll_back` allows to
    replace a newer release. After an error nothing is changed.
    """
    while (serving := await store.serving()) != release:
        if serving is not None and not other_builds and _public(serving) == _public(release):
            raise _other_cipher(release, serving) if build_of(serving) == build_of(release) else OtherBuild(release, serving)
        if serving is not None and older(release, serving):
            if not roll_back:
                raise OlderRelease(release, serving)
            logger.warning("release %s takes the place of %s, which is newer, because of --roll-back", release, serving)
        if await store.serve(release, before=serving):
            return


def _other_cipher(release: str, serving: str) -> ConfigurationError:
    problem = f"{serving} serves the store, and this is {release}: its actors use another cipher than this process, or none"
    fix = "set HOLDFAST_CIPHER to theirs, or change all of them to the cipher of this process: holdfast up"
    return ConfigurationError("cipher", problem, fix)


def _public(release: str) -> str:
    return release.partition("+")[0]


def older(release: str, serving: str) -> bool:
    """Whether a release is older than the serving one. A text that is no version counts as older than every version."""
    try:
        newest = Version(Version(serving).public)
    except InvalidVersion:
        return False
    try:
        return Version(Version(release).public) < newest
    except InvalidVersion:
        return True


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
