"""Delivery of a command: find or revive the host and hand the command over, again with the same ids until it is answered."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from holdfast.actors import AnswerToAsk, Failed, NotHosted, Replied
from holdfast.backoff import Backoff
from holdfast.conversation import Command, Reply
from holdfast.errors import HoldfastError, Overloaded, Quarantined, StoreError, StoreUnavailable
from holdfast.log_context import about

from .actors import ActorDied, ActorUnavailable
from .first_command import FirstCommand, undecided

if TYPE_CHECKING:
    from .registry import Registry

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5

logger = logging.getLogger("holdfast.registry")


@dataclass(frozen=True, slots=True)
class Delivered:
    """The command was judged, and what it led to is durable."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was judged and refused."""

    error: HoldfastError


@dataclass(frozen=True, slots=True)
class Unsent:
    """No actor has judged the command, nor will one: it has no effect."""

    error: HoldfastError | TimeoutError


@dataclass(frozen=True, slots=True)
class Unknown:
    """An actor has had the command and may have judged it, or may still judge it. The same ids make a repetition safe."""

    error: HoldfastError | TimeoutError


DeliveryResult: TypeAlias = Delivered | Refused | Unsent | Unknown


class Delivery:
    """One command on its way to the actor that hosts its conversation; `handed` keeps book of whether an actor has had it.

    Args:
        conversation_id: The conversation.
        command: The command, whose ids make a repetition safe.
        timeout_s: How long the delivery may take from now on.
        create: Whether the conversation may begin with the command.
        proves: Whether this process has verified whose command it is, so that it is signed on the way.
        waits_for_store: Whether a store that is away is tried again, for as long as there is time.

    Attributes:
        until: When the delivery's time is up, in the loop's time.
        handed: Whether an actor may have judged the command.
        proves: As above.
    """

    def __init__(
        self,
        conversation_id: str,
        command: Command,
        *,
        timeout_s: float,
        create: bool = False,
        proves: bool = False,
        waits_for_store: bool = True,
    ) -> None:
        self.conversation_id = conversation_id
        self.command = command
        self.until = _now() + timeout_s
        self.handed = False
        self.proves = proves
        self._create = create
        self._waits_for_store = waits_for_store

    @property
    def left_s(self) -> float:
        """The time that is left, in seconds; 0 once the time is up."""
        return max(self.until - _now(), 0.0)

    def given_up(self, error: HoldfastError | TimeoutError) -> Unsent | Unknown:
        """The result of a command that is not tried again because of this error: `handed` says which."""
        return Unknown(error) if self.handed else Unsent(error)

    async def through(self, registry: "Registry") -> DeliveryResult:
        """The result of the command, handed over through this registry as often as needed until the time is up."""
        with about(conversation=self.conversation_id):
            return await self._through(registry)

    async def _through(self, registry: "Registry") -> DeliveryResult:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        away: StoreUnavailable | None = None
        while True:
            try:
                answer = await self._answer(registry)
            except ActorDied:
                continue
            except TimeoutError as error:
                return self.given_up(error if away is None else TimeoutError(str(away)))
            except Quarantined as error:
                return Unsent(error)
            except StoreUnavailable as error:
                answer = Failed(error)
            except HoldfastError as error:
                return self.given_up(error)
            match answer:
                case Replied(reply):
                    return Delivered(reply)
                case Failed(StoreUnavailable() as away):
                    if not self._waits_for_store or self.left_s <= backoff.pause_s:
                        return self.given_up(away)
                case Failed(refusal):
                    return Refused(refusal)
                case NotHosted():
                    pass
            await backoff.sleep()

    async def _answer(self, registry: "Registry") -> AnswerToAsk:
        """The answer of the actor that hosts the conversation now. `handed` is right also when this raises or is cancelled.

        Raises:
            ActorDied: The host died.
            Quarantined: The conversation is in quarantine, and the command was never judged.
            TimeoutError: The time is up.
            Overloaded: The host has too many commands waiting and has not judged this one, or no actor came free.
            HoldfastError: No host was found, and none could be made.
        """
        if not self.left_s:
            raise TimeoutError
        first = FirstCommand(self.command, self.handed)
        try:
            name, actor = await registry.ensure_started(
                self.conversation_id, timeout_s=self.left_s, create=self._create, first=first
            )
        except Quarantined:
            async with asyncio.timeout_at(self.until):
                before = await registry.answered_before(self.conversation_id, self.command)
            if before is None:
                raise
            return before
        finally:
            had_it = self.handed = first.handed
        answer = first.answer
        try:
            if answer is None:
                self.handed = True
                # Not `wait_for`: before Python 3.12 it swallows a caller's deadline that falls together with the answer.
                async with asyncio.timeout(max(min(self.left_s, registry.patience_s), 0.001)):
                    answer = await actor.ask(self.conversation_id, self.command)
        except ActorDied:
            registry.died(self.conversation_id, name)
            raise
        except ActorUnavailable as error:  # which is no proof of death
            logger.debug("%s: %s", name, error)
            return NotHosted()
        except TimeoutError:  # the actor may hang: the store decides whether another takes over, and ids make that safe
            with contextlib.suppress(StoreError):  # without the note, the same actor is asked again; the result is `Unknown`
                await registry.not_hosted(self.conversation_id, name, until=self.until)
            return NotHosted()
        if undecided(answer):
            self.handed = had_it
        match answer:
            case NotHosted():
                await registry.not_hosted(self.conversation_id, name, until=self.until)
            case Failed(Overloaded() as overloaded):
                raise overloaded
            case _:
                pass
        return answer


def _now() -> float:
    return asyncio.get_running_loop().time()
