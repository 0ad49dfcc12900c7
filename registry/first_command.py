"""A command that travels with the takeover of its conversation."""

from dataclasses import dataclass

from holdfast.actors import AnswerToAsk, Failed, NotHosted
from holdfast.conversation import Command
from holdfast.errors import Overloaded


@dataclass(slots=True)
class FirstCommand:
    """A command for a conversation that may have to be taken over: the actor that takes over judges it in the same call.

    Attributes:
        command: The command, whose ids make a repetition safe.
        handed: Whether an actor may have judged it.
        answer: The actor's answer to it; None where no takeover was needed, or none brought an answer.
    """

    command: Command
    handed: bool = False
    answer: AnswerToAsk | None = None


def undecided(answer: AnswerToAsk | None) -> bool:
    """Whether an actor that gave this answer has not judged the command, nor will."""
    match answer:
        case None | NotHosted() | Failed(Overloaded()):
            return True
        case _:
            return False
