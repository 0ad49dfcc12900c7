"""Delegation: what one conversation asks of another, its child, and what the child knows of those above it."""

from typing import Final

from holdfast.conversation.record import Record

from .principal import Principal

MOST_DEPTH: Final = 8
"""How many levels of conversations may stand below one that was started by nobody else."""
USUAL_DEPTH: Final = 3


class Delegation(Record):
    """What a call that was delegated asks: of which agent, with how many levels and conversations allowed below its child.

    The context of the child is in the `model_answered` at `answered_at`, if the tool's `context` made one.
    """

    agent: str
    depth: int
    descendants: int
    answered_at: int


class Ancestor(Record):
    """A conversation above another one, and its agent."""

    conversation_id: str
    agent: str


class Parent(Record):
    """The wait that a conversation was started for, and what bounds the conversation.

    `path` are those above it, the root first and its parent last. Below it `depth` levels and `descendants` conversations are
    allowed. At `must_end_by` (ms UTC), the deadline of the wait, nothing below it may be decided any more. `editors` changed
    the task of a level above (without their roles): like the sender of its first message, they have asked for it.
    """

    suspension_id: str
    path: tuple[Ancestor, ...]
    depth: int
    descendants: int
    must_end_by: int
    editors: tuple[Principal, ...] = ()

    @property
    def conversation_id(self) -> str:
        """The parent."""
        return self.path[-1].conversation_id
