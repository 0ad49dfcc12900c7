"""The workers and actors of one store on Ray, as a `Watchdog` sees them."""

import asyncio
from collections.abc import Sequence

import ray
from ray.exceptions import RayError

from holdfast.actors import ActorSettings, find, named

from .watchdog import Gone


class RayProcesses:
    """See `Processes`."""

    def __init__(self, settings: ActorSettings) -> None:
        self._family = settings.family

    async def names(self) -> Sequence[str]:
        """See `Processes.names`."""
        names = await asyncio.to_thread(named, self._family)
        return [name for name in names if ":worker:" in name or self.hosts(name)]

    def hosts(self, name: str) -> bool:
        """See `Processes.hosts`."""
        return ":actor:" in name

    async def answer(self, name: str) -> None:
        """See `Processes.answer`."""
        try:
            handle = await asyncio.to_thread(find, name)
            if handle is None:
                raise Gone(name)
            await (handle.ping.remote() if self.hosts(name) else handle.process.remote())
        except RayError as error:
            raise Gone(name) from error

    async def end(self, name: str) -> None:
        """See `Processes.end`."""
        handle = await asyncio.to_thread(find, name)
        if handle is not None:
            ray.kill(handle, no_restart=self.hosts(name))
