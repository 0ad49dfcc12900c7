"""Conversation actors on Ray (named, detached, each in its own process), and a store's processes for the watchdog."""

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError

from holdfast.actors.actor_settings import RAY_NAMESPACE, ActorSettings
from holdfast.actors.answers import AnswerToActivate, AnswerToAsk
from holdfast.actors.build import this_release
from holdfast.actors.conversation_actor import ConversationActor
from holdfast.actors.placement import in_turn
from holdfast.actors.ray_launcher import find, in_cluster, named
from holdfast.actors.wire import pack, unpack
from holdfast.conversation import Command
from holdfast.daemon import in_daemon
from holdfast.errors import ClusterStopped, OtherBuild
from holdfast.persistence import EVERYWHERE, DirectoryAndRuns, TakeoverReason
from holdfast.work_context import REQUEST

from .pool import ActorDied, ActorUnavailable
from .watchdog import Gone

_RemoteActor = ray.remote(ConversationActor)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RayHandle:
    """See `Handle`."""

    _actor: Any

    async def activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool, first: Command | None = None
    ) -> AnswerToActivate:
        asked = pack((conversation_id, seen_token, because, create, first, REQUEST.get()))
        answer: AnswerToActivate = unpack(await _answered(self._actor.activate.remote(asked)))
        return answer

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        answer: AnswerToAsk = unpack(await _answered(self._actor.ask.remote(pack((conversation_id, command, REQUEST.get())))))
        return answer

    async def pid(self) -> int:
        return await _answered(self._actor.pid.remote())


class RayActors:
    """See `Actors`."""

    def __init__(self, settings: ActorSettings, store: DirectoryAndRuns) -> None:
        self._settings = settings
        self._store = store
        self._turns = itertools.count(uuid.uuid4().int)  # a random start: many processes spawn

    async def find(self, name: str) -> RayHandle | None:
        actor = await in_daemon(find, name)
        return None if actor is None else RayHandle(actor)

    def ours(self, name: str) -> bool:
        return name.startswith(self._settings.prefix)

    def judges(self, name: str) -> bool:
        return self._settings.judges(name)

    async def keeps(self, worker: str, incarnations: Sequence[str]) -> Sequence[bool] | None:
        actor = await in_daemon(find, worker)
        if actor is None:
            abroad = not self.judges(worker)
            return [abroad and await self._store.attested(one.partition(".")[0]) for one in incarnations]
        try:
            if self.ours(worker):
                return await _answered(actor.keeps.remote(list(incarnations)))
            process = await _answered(actor.process.remote())  # the only method that every release answers
            return [one.startswith(f"{process}.") for one in incarnations]
        except ActorDied:
            return [False] * len(incarnations)
        except ActorUnavailable:
            return None

    def new_name(self) -> str:
        return f"{self._settings.prefix}actor:{uuid.uuid4().hex[:12]}"

    async def spawn(self, name: str, *, offer: bool) -> RayHandle:
        in_cluster()
        withheld = await self._store.withheld()
        if EVERYWHERE in withheld:
            raise ClusterStopped(self._settings.store.namespace)
        place = await in_daemon(in_turn, next(self._turns), withheld)
        in_cluster()  # checked again: Ray would silently start a cluster of its own
        actor = _RemoteActor.options(
            name=name, namespace=RAY_NAMESPACE, lifetime="detached", num_cpus=0, max_restarts=0, max_concurrency=1000, **place
        ).remote(self._settings, name)
        try:
            await actor.warm.remote(offer=offer)
        except BaseException as error:  # an actor that does not get ready is killed
            if ray.is_initialized():  # else Ray would start a cluster of its own to search
                ray.kill(actor)
            if isinstance(error, RayError):
                raise (_refusal(error) or ActorUnavailable(str(error))) from error
            raise
        return RayHandle(actor)


def _refusal(error: RayError) -> OtherBuild | None:
    """The `OtherBuild` behind a failed creation, if any; Ray keeps only the text of such an error."""
    return OtherBuild(this_release()) if f"{OtherBuild.__module__}.{OtherBuild.__name__}" in str(error) else None


async def _answered(answer: Awaitable[_T]) -> _T:
    try:
        return await answer
    except ActorDiedError as error:
        raise ActorDied(str(error)) from error
    except RayActorError as error:
        raise ActorUnavailable(str(error)) from error


class RayProcesses:
    """See `Processes`."""

    def __init__(self, settings: ActorSettings) -> None:
        self._family = settings.family

    async def names(self) -> Sequence[str]:
        names = await asyncio.to_thread(named, self._family)
        return [name for name in names if ":worker:" in name or self.hosts(name)]

    def hosts(self, name: str) -> bool:
        return ":actor:" in name

    async def answer(self, name: str) -> None:
        try:
            handle = await asyncio.to_thread(find, name)
            if handle is None:
                raise Gone(name)
            await (handle.ping.remote() if self.hosts(name) else handle.process.remote())
        except RayError as error:
            raise Gone(name) from error

    async def end(self, name: str) -> None:
        handle = await asyncio.to_thread(find, name)
        if handle is not None:
            ray.kill(handle, no_restart=self.hosts(name))
