"""The answers of an actor that is asked to host a conversation, or to have a command judged."""

from dataclasses import dataclass
from typing import TypeAlias

from holdfast.conversation import Reply
from holdfast.errors import HoldfastError
from holdfast.persistence import Owner


@dataclass(frozen=True, slots=True)
class Hosted:
    """The actor hosts the conversation now; `first` is its answer to the command sent along, if any."""

    first: "AnswerToAsk | None" = None


@dataclass(frozen=True, slots=True)
class NotHosted:
    """The actor does not host the conversation; the registry looks for its owner again."""


@dataclass(frozen=True, slots=True)
class Occupied:
    """The actor hosts another conversation that does not rest, or is about to end."""


@dataclass(frozen=True, slots=True)
class OwnedElsewhere:
    """Another activation owns the conversation."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class Replied:
    """The command was judged, and its events are durable."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Failed:
    """The takeover or the command was refused, or its outcome is unknown."""

    error: HoldfastError


AnswerToActivate: TypeAlias = Hosted | Occupied | OwnedElsewhere | Failed
AnswerToAsk: TypeAlias = Replied | Failed | NotHosted
