"""The round of a turn: the calls of the model's last answer, by id and by status, and what is due among them."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, overload

from immutables import Map
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .calls import Call, CallStatus, Suspension


class WaitsFor(StrEnum):
    """Whom a conversation waits for, of those outside."""

    PEOPLE = "people"  # at least one call awaits a person or a client
    MACHINES = "machines"  # calls await other conversations, and nobody has to do anything


class Deadline(NamedTuple):
    """The moment (milliseconds UTC) at which something is due for the call at a place in the round."""

    due_at: int
    place: int


class Deadlines(NamedTuple):
    """A leftist heap (Crane, 1972): joining two heaps takes logarithmic time and changes neither.

    A deadline that is over before its time stays until it is the earliest; then the round that holds the heap removes it.
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
            if heap is not None and heap.first.due_at <= now:
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


class Round(Sequence[Call]):
    """Calls in the model's order, which can be looked up by id and by status.

    A changed round shares its unchanged calls with the round before it, which stays as it was: a step among ten thousand calls
    costs about as much as a step among ten. A round is stored as the list of its calls.
    """

    __slots__ = (
        *("_awaiting", "_calls", "_deadlines", "_held", "_machines", "_places", "_running", "_suspended", "_suspensions"),
        "_voted",
    )

    _calls: Map[int, Call]
    _places: Map[str, int]
    _running: Map[int, None]
    _awaiting: Map[int, None]
    _held: Map[int, None]
    _suspensions: Map[str, int]
    _suspended: int
    _machines: int
    _voted: int
    _deadlines: Deadlines | None

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        self._calls, self._places, self._running, self._awaiting = Map(), Map(), Map(), Map()
        self._held, self._suspensions = Map(), Map()
        self._suspended, self._machines, self._voted, self._deadlines = 0, 0, 0, None
        for call in calls:
            if call.tool_call_id in self._places:
                raise ValueError(f"the call {call.tool_call_id!r} stands there twice")
            self._put(call)

    def with_call(self, call: Call) -> Self:
        """The round with this call in place of the call of the same id, or at the end if there is none."""
        changed = object.__new__(type(self))
        for name in self.__slots__:
            setattr(changed, name, getattr(self, name))
        changed._put(call)
        return changed

    def of(self, tool_call_id: str) -> Call | None:
        """The call of that id; None if the round has none."""
        place = self._places.get(tool_call_id)
        return None if place is None else self._calls[place]

    def open_suspension(self, suspension_id: str) -> tuple[Call, Suspension] | None:
        """The open suspension of that id and its call; None if it is not open."""
        place = self._suspensions.get(suspension_id)
        call = None if place is None else self._calls[place]
        return None if call is None or call.suspension is None else (call, call.suspension)

    @property
    def any_running(self) -> bool:
        """Whether the run of any call is outstanding."""
        return len(self._running) > 0

    @property
    def any_awaiting(self) -> bool:
        """Whether any call waits for a decision from outside."""
        return len(self._awaiting) > 0

    @property
    def any_open(self) -> bool:
        """Whether the turn still waits for any call."""
        return self.any_running or self.any_awaiting or len(self._held) > 0

    @property
    def any_machine(self) -> bool:
        """Whether any open suspension waits for a machine."""
        return self._machines > 0

    @property
    def suspended_count(self) -> int:
        """How many calls have an open suspension that waits for people."""
        return self._suspended - self._machines

    @property
    def waits_for(self) -> WaitsFor | None:
        """Whom the open suspensions wait for: people if any of them does; None if none is open."""
        if not self._suspended:
            return None
        return WaitsFor.PEOPLE if self.suspended_count else WaitsFor.MACHINES

    @property
    def any_voted(self) -> bool:
        """Whether any open suspension has a vote."""
        return self._voted > 0

    @property
    def due_at(self) -> int | None:
        """When something is due for a call (`Call.due_at`), in milliseconds UTC; None if no call waits for a time."""
        return None if self._deadlines is None else self._deadlines.first.due_at

    def running(self) -> tuple[Call, ...]:
        """The calls whose runs are outstanding."""
        return self._at(self._running)

    def awaiting(self) -> tuple[Call, ...]:
        """The calls that wait for a decision from outside."""
        return self._at(self._awaiting)

    def held(self) -> tuple[Call, ...]:
        """The calls that wait for their turn among the others."""
        return self._at(self._held)

    def open(self) -> tuple[Call, ...]:
        """The calls that the turn still waits for."""
        return self._at({*self._running, *self._awaiting, *self._held})

    def due(self, now: int) -> tuple[Call, ...]:
        """The calls for which something is due at `now` (ms UTC)."""
        if self._deadlines is None:
            return ()
        return self._at({found.place for found in self._deadlines.until(now) if self._stands(found)})

    def run(self, effect_id: str) -> Call | None:
        """The call whose outstanding run has that id."""
        call = self.of(effect_id.rpartition("#")[0])
        return call if call is not None and call.status is CallStatus.RUNNING and call.effect_id == effect_id else None

    def _at(self, places: Iterable[int]) -> tuple[Call, ...]:
        return tuple(self._calls[place] for place in sorted(places))

    def _put(self, call: Call) -> None:
        """Add or replace a call in this object itself, which is allowed only until the object is handed out."""
        place = self._places.get(call.tool_call_id)
        before = None if place is None else self._calls[place]
        if place is None:
            place = len(self._calls)
            self._places = self._places.set(call.tool_call_id, place)
        self._calls = self._calls.set(place, call)
        self._running = _with_place(self._running, place, inside=call.status is CallStatus.RUNNING)
        self._awaiting = _with_place(self._awaiting, place, inside=call.status is CallStatus.AWAITING)
        self._held = _with_place(self._held, place, inside=call.status is CallStatus.HELD)
        suspended = None if before is None else before.suspension
        if call.suspension != suspended:
            self._suspended += (call.suspension is not None) - (suspended is not None)
            if suspended is not None and self._suspensions.get(suspended.suspension_id) == place:
                self._suspensions = self._suspensions.delete(suspended.suspension_id)
            if call.suspension is not None:
                self._suspensions = self._suspensions.set(call.suspension.suspension_id, place)
            self._machines += _is_of_machine(call.suspension) - _is_of_machine(suspended)
            self._voted += _is_voted(call.suspension) - _is_voted(suspended)
        due_at = call.due_at
        if due_at is not None and (before is None or before.due_at != due_at):
            deadline = Deadline(due_at, place)
            self._deadlines = Deadlines(deadline) if self._deadlines is None else self._deadlines.with_deadline(deadline)
        while self._deadlines is not None and not self._stands(self._deadlines.first):
            self._deadlines = self._deadlines.without_first()

    def _stands(self, deadline: Deadline) -> bool:
        return self._calls[deadline.place].due_at == deadline.due_at

    # -- a sequence, and a value ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return (self._calls[place] for place in range(len(self._calls)))

    @overload
    def __getitem__(self, index: int) -> Call: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Call]: ...

    def __getitem__(self, index: int | slice) -> Call | Sequence[Call]:
        places = range(len(self._calls))[index]
        return self._calls[places] if isinstance(places, int) else tuple(self._calls[place] for place in places)

    def __eq__(self, other: object) -> bool:
        return self._calls == other._calls if isinstance(other, Round) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Round({list(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Call, ...]]]:
        return type(self), (tuple(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema of a round, which is read from and written as the list of its calls."""
        calls = handler.generate_schema(tuple[Call, ...])
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), core_schema.no_info_after_validator_function(cls, calls)],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(tuple, return_schema=calls),
        )


def _is_voted(suspension: Suspension | None) -> bool:
    return suspension is not None and len(suspension.votes) > 0


def _is_of_machine(suspension: Suspension | None) -> bool:
    return suspension is not None and suspension.source != ""


def _with_place(places: Map[int, None], place: int, *, inside: bool) -> Map[int, None]:
    if inside:
        return places if place in places else places.set(place, None)
    return places.delete(place) if place in places else places


NO_CALLS: Final = Round()
"""The empty round: that of a turn before its first answer, and of a conversation between its turns."""
