"""The registry's interface to actors, so that its logic does not know Ray."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.actors.answers import AnswerToActivate, AnswerToAsk
from holdfast.conversation import Command
from holdfast.persistence import TakeoverReason


class ActorDied(Exception):
    """The actor is dead for certain: it will never answer again."""


class ActorUnavailable(Exception):
    """The actor does not answer now, which does not prove its death."""


class Handle(Protocol):
    """One actor's handle. Every call may raise `ActorDied` or `ActorUnavailable`."""

    async def activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool, first: Command | None = None
    ) -> AnswerToActivate:
        """See `Host.activate`."""

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        """See `Host.ask`."""

    async def pid(self) -> int:
        """The id of the actor's process."""


class Actors(Protocol):
    """The actors of one store."""

    async def find(self, name: str) -> Handle | None:
        """The actor of that name; None if there is none."""

    def ours(self, name: str) -> bool:
        """Whether an actor of that name runs this release: releases do not talk to each other."""

    def judges(self, name: str) -> bool:
        """Whether an actor unknown to `find` is dead: true for names made in this cluster, or in one that is gone.

        An actor of another cluster may live there, although this cluster does not know its name.
        """

    async def keeps(self, worker: str, incarnations: Sequence[str]) -> Sequence[bool] | None:
        """Which of these claims the worker is running; None if it does not say so now.

        A worker that is gone for certain runs none; one of another cluster, which cannot be asked, runs what it attests.
        """

    def new_name(self) -> str:
        """A name that no actor has."""

    async def spawn(self, name: str, *, offer: bool) -> Handle:
        """A new actor of that name, connected to the store and, with `offer`, on offer.

        Raises:
            ActorUnavailable: The actor did not start, or cannot reach the store.
            ClusterStopped: Holdfast was stopped on the cluster.
            OtherBuild: The actor's process runs another build of Holdfast.
        """
