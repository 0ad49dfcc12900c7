"""The deadlines of a turn's suspensions, the earliest first: an immutable heap."""

from collections.abc import Iterator
from typing import NamedTuple


class Deadline(NamedTuple):
    """When the suspension of the call at a place runs out (milliseconds UTC)."""

    expires_at: int
    place: int


class Deadlines(NamedTuple):
    """A leftist heap (Crane, 1972): joining two costs the logarithm of their size and leaves both as they are.

    A deadline that is settled stays inside until it is the first; whoever holds the heap says which those are.
    """

    first: Deadline
    depth: int = 1  # of the right side, which is never deeper than the left
    left: "Deadlines | None" = None
    right: "Deadlines | None" = None

    def with_deadline(self, deadline: Deadline) -> "Deadlines":
        """The heap with one more."""
        return _joined(self, type(self)(deadline))

    def without_first(self) -> "Deadlines | None":
        """The heap without its earliest."""
        if self.left is None or self.right is None:
            return self.left or self.right
        return _joined(self.left, self.right)

    def until(self, now: int) -> Iterator[Deadline]:
        """Those that have passed, in no order."""
        waiting: list[Deadlines | None] = [self]
        while waiting:
            heap = waiting.pop()
            if heap is not None and heap.first.expires_at <= now:
                yield heap.first
                waiting += (heap.left, heap.right)


def _joined(one: Deadlines, other: Deadlines) -> Deadlines:
    if other.first < one.first:
        one, other = other, one
    right = other if one.right is None else _joined(one.right, other)
    left = one.left
    if left is None or left.depth < right.depth:
        left, right_side = right, left
    else:
        right_side = right
    return Deadlines(one.first, 1 + (right_side.depth if right_side is not None else 0), left, right_side)
