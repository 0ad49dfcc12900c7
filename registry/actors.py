"""What the registry needs of actors, so that its logic runs against an interface: find, spawn, ask."""

from typing import Protocol

from holdfast.actors import AnswerToActivate, AnswerToAsk
from holdfast.conversation import Command
from holdfast.persistence import TakeoverReason


class ActorDied(Exception):
    """The actor is proven dead: it will never answer again."""


class ActorUnavailable(Exception):
    """The actor does not answer now; that is no proof of death."""


class Handle(Protocol):
    """One actor, wherever it runs. Every call may raise `ActorDied` or `ActorUnavailable`."""

    async def activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool
    ) -> AnswerToActivate:
        """See `Host.activate`."""
        ...

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        """See `Host.ask`."""
        ...

    async def pid(self) -> int:
        """Its process."""
        ...


class Actors(Protocol):
    """The actors of one store."""

    async def find(self, name: str) -> Handle | None:
        """The actor of that name, None if there is none.

        Raises:
            ClusterUnavailable: Nothing is known of any actor now.
        """
        ...

    def ours(self, name: str) -> bool:
        """Whether the actor of that name, if there is one, runs this release: with another one is not to talk."""
        ...

    def judges(self, name: str) -> bool:
        """Whether the actor of that name is dead if `find` does not know it: it was made in this very cluster.

        An actor of another cluster may live there, whatever this one knows.
        """
        ...

    def new_name(self) -> str:
        """A name that no actor has."""
        ...

    async def spawn(self, name: str, *, offer: bool) -> Handle:
        """A new actor of that name, connected to the store; with `offer`, it is on offer too.

        Raises:
            ActorUnavailable: It did not start, or cannot reach the store.
            ClusterStopped: Holdfast was stopped on the cluster.
        """
        ...
