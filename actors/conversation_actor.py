"""The Ray actor of a conversation: a `Host`, connected to the store on first use. It imports neither litellm nor the app."""

import asyncio
import os
from functools import partial

import ray
from ray.actor import exit_actor

from holdfast.conversation.text import schema
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.errors import HoldfastError
from holdfast.redaction import Redaction
from holdfast.store_clock import steady_ms
from holdfast.work_context import about

from . import logs, wire
from .actor_settings import ActorSettings, short_name
from .answers import Failed, NotHosted
from .host import Host
from .logs import write_lines
from .placement import drained
from .proofs import Proofs
from .ray_launcher import RayLauncher
from .ray_workers import RayWorkers
from .steps import reached_here
from .trace_export import export_spans, flush_spans
from .vault import Vault


class ConversationActor:
    """The Ray actor that hosts one conversation at a time."""

    def __init__(self, settings: ActorSettings, name: str) -> None:
        logs.guard_process(Redaction.of_process(os.environ, urls=[settings.store.redis_url]))
        if ray.is_initialized():  # then this process belongs to this actor alone
            write_lines(short_name(name), settings.log)
            export_spans(short_name(name), settings.traces)
        self._settings = settings
        self._name = name
        self._host: Host | None = None
        self._connecting = asyncio.Lock()

    async def warm(self, *, offer: bool) -> str:
        """Connect to the store and, with `offer`, offer this actor for adoption; the actor's name."""
        host = await self._connected()
        await asyncio.to_thread(schema.problem, "{}", {})  # imports the schema library now, not at the first answer
        if offer:
            await host.offer_blank()
        return self._name

    async def activate(self, asked: bytes) -> bytes:
        """Host a conversation, if the one hosted now rests and can be left; a packed `AnswerToActivate`.

        `asked` is packed: the arguments of `Host.activate`, in order, and the id of the HTTP request that led here, if any.
        """
        conversation_id, seen_token, because, create, first, *request = wire.unpack(asked)
        try:
            host = await self._connected()
        except HoldfastError as error:
            return wire.pack(Failed(error))
        with about(conversation=conversation_id, request="".join(request)):
            return wire.pack(await host.activate(conversation_id, seen_token, because, create=create, first=first))

    async def ask(self, asked: bytes) -> bytes:
        """Have a packed `(conversation_id, command, request id)` judged, if this actor hosts it; a packed `AnswerToAsk`."""
        conversation_id, command, *request = wire.unpack(asked)
        with about(conversation=conversation_id, request="".join(request)):
            return wire.pack(NotHosted() if self._host is None else await self._host.ask(conversation_id, command))

    async def ping(self) -> str | None:
        """The id of the hosted conversation; None if the actor is blank."""
        return self._host.hosted if self._host is not None else None

    async def leave(self) -> None:
        """End this actor: Ray ends an actor only at the end of a call."""
        await flush_spans()
        exit_actor()

    async def pid(self) -> int:
        """The id of this actor's process."""
        return os.getpid()

    async def _connected(self) -> Host:
        async with self._connecting:
            if self._host is None:
                address, counts = self._settings.store, Counts()
                vault = Vault(address)
                store = address.opened(counts=counts)
                await store.open()
                self._host = Host(
                    store,
                    RayWorkers(store, self._settings, RayLauncher(vault)),
                    name=self._name,
                    drained=drained,
                    timing=self._settings.timing,
                    process_limits=self._settings.process_limits,
                    clock=steady_ms,
                    leave=_leave,
                    counts=counts,
                    traces=self._settings.traces,
                    reached=reached_here(),
                    check_proof=Proofs(address, partial(in_daemon, vault.servers_key)).check,
                )
            return self._host


def _leave() -> None:
    ray.get_runtime_context().current_actor.leave.remote()
