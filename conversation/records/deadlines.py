"""The deadlines of a turn's suspensions, the earliest first: an immutable heap."""

from collections.abc import Iterator
from typing import NamedTuple


class Deadline(NamedTuple):
    """The moment (milliseconds UTC) at which the suspension of the call at a place in the round expires."""

    expires_at: int
    place: int


class Deadlines(NamedTuple):
    """A leftist heap (Crane, 1972): joining two heaps takes logarithmic time and changes neither.

    The deadline of a settled suspension stays until it is the earliest; then the round that holds the heap removes it.
    """

    first: Deadline
    depth: int = 1  # the length of the right spine; the left side is never shallower than the right
    left: "Deadlines | None" = None
    right: "Deadlines | None" = None

    def with_deadline(self, deadline: Deadline) -> "Deadlines":
        """The heap with one more deadline."""
        return _joined(self, type(self)(deadline))

    def without_first(self) -> "Deadlines | None":
        """The heap without its earliest deadline; None if it was the only one."""
        if self.left is None or self.right is None:
            return self.left or self.right
        return _joined(self.left, self.right)

    def until(self, now: int) -> Iterator[Deadline]:
        """The deadlines that have passed at `now` (ms UTC), in no order."""
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
