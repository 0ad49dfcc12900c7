"""Recorded histories: what one conversation left behind in Redis, step by step, as a record version wrote it.

A history is `tests/histories/v<version>.jsonl`. Its first line is the header: the version, the app record, the agent spec and
the vocabulary, which is what could be said in that version. Each line after it is a step: the entries that it added to the log,
the fields of the other keys that it changed (bytes in base64), what was asked and answered, and where the conversation stood.
Every step is a place to go on from: what lies in Redis there is all that the steps up to it have written.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic_core import to_jsonable_python

from holdfast.conversation import AgentSpec, Principal, RunFinished, RunRuled, RunSuspended, State, outstanding
from holdfast.conversation.record import Record
from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.rounds import Round
from holdfast.persistence import AppRecord

FOLDER = Path(__file__).parents[1] / "histories"
CONVERSATION = "c-recorded"
STORED = (*EVENTS, State, IdempotencyRecord, AgentSpec, AppRecord, RunFinished, RunRuled, RunSuspended)
"""What the codec turns into bytes; other records stand inside of these."""


CALLED = {
    "IdempotencyRecord": "Known",
    "Ended": "ConversationEnded",
    "DecisionRecord": "Ruling",
    "RuleVerdict": "Ruled",
    "RuleEffect": "Effect",
}
"""What the histories call records whose classes have another name by now; no record holds its own."""


def name_of(kind: type) -> str:
    """What the histories call a class."""
    return CALLED.get(kind.__name__, kind.__name__)


@dataclass
class Kept:
    """What a store holds of the conversation."""

    log: list[bytes] = field(default_factory=list)
    head: dict[str, bytes] = field(default_factory=dict)
    known: dict[str, bytes] = field(default_factory=dict)
    runs: dict[str, bytes] = field(default_factory=dict)

    def since(self, before: "Kept") -> dict[str, Any]:
        """What has changed, as it stands in a line."""
        return {
            "log": [text_of(entry) for entry in self.log[len(before.log) :]],
            "head": _changes(before.head, self.head),
            "known": _changes(before.known, self.known),
            "runs": _changes(before.runs, self.runs),
        }

    def after(self, line: Mapping[str, Any]) -> "Kept":
        """What it holds once a step has written, too."""
        return Kept(
            [*self.log, *map(bytes_of, line["log"])],
            _changed(self.head, line["head"]),
            _changed(self.known, line["known"]),
            _changed(self.runs, line["runs"]),
        )


@dataclass(frozen=True)
class Step:
    """One step: what it wrote, where that led, and everything that lies in the store after it."""

    version: int
    number: int
    line: Mapping[str, Any]
    kept: Kept

    def __str__(self) -> str:
        return f"v{self.version}, {self.number}: {self.line['step']}"


@dataclass(frozen=True)
class History:
    """What one record version wrote."""

    version: int
    app: bytes
    spec: bytes
    vocabulary: Mapping[str, Any]
    steps: tuple[Step, ...]
    later_specs: tuple[bytes, ...] = ()

    @property
    def kept(self) -> Kept:
        """What lies in the store at the end."""
        return self.steps[-1].kept

    @property
    def snapshots(self) -> Iterator[tuple[int, bytes]]:
        """Each snapshot, with the number of log entries that were there when it was written."""
        for step in self.steps:
            if "snapshot" in step.line["head"]:
                yield len(step.kept.log), step.kept.head["snapshot"]

    @property
    def outcomes(self) -> Iterator[bytes]:
        """Each outcome of a run that waited beside the log."""
        for step in self.steps:
            for record in filter(None, step.line["runs"].values()):
                if bytes_of(record).startswith(b"D|"):
                    yield bytes_of(record).split(b"|", 2)[2]

    @property
    def shown(self) -> dict[str, Any]:
        """By suspension id: what was shown of it."""
        return {view["suspension_id"]: view for step in self.steps for view in step.line["shown"]}


def path_of(version: int) -> Path:
    """Where the history of a version lies."""
    return FOLDER / f"v{version}.jsonl"


@cache
def history(version: int) -> History:
    """The history of a version."""
    header, *lines = map(json.loads, path_of(version).read_text(encoding="utf-8").splitlines())
    kept, steps = Kept(), []
    for number, line in enumerate(lines, 1):
        kept = kept.after(line)
        steps.append(Step(version, number, line, kept))
    later = tuple(map(bytes_of, header.get("later_specs", ())))
    stored = bytes_of(header["app"]), bytes_of(header["spec"])
    return History(header["version"], *stored, header["vocabulary"], tuple(steps), later)


def stands(state: State) -> dict[str, Any]:
    """Where a conversation stands, as plain JSON that a person can check."""
    return {
        "seq": state.seq,
        "status": str(state.status),
        "turn": None if state.turn is None else state.turn.turn_id,
        "queue": [one.seq for one in state.queue],
        "calls": {call.tool_call_id: f"{call.tool} {call.status} {call.attempt}" for call in state.calls},
        "pending": {one.suspension_id: str(one.kind) for call in state.calls if (one := call.suspension) and not one.source},
        "outstanding": [effect.effect_id for effect in outstanding(state)],
        "due_at": state.due_at,
        "last": None if state.last is None else f"{state.last.turn_id} {state.last.outcome}",
    }


def vocabulary() -> dict[str, Any]:
    """All that can be said in records: of each record the fields, with their defaults, and of each enumeration the members.

    Defaults belong to it: a field that has its default is left out of the bytes.
    """
    records: dict[str, dict[str, Any]] = {}
    enums: dict[str, list[str]] = {}
    waiting: list[Any] = list(STORED)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Record) and name_of(kind) not in records:
            fields = {name: one for name, one in kind.model_fields.items() if name not in STAMPS.get(kind, ())}
            records[name_of(kind)] = {name: _default(one) for name, one in sorted(fields.items()) if not _fixed(one)}
            enums |= {f"{name_of(kind)}.{name}": sorted(choices) for name, one in fields.items() if (choices := _choices(one))}
            waiting += [one.annotation for one in fields.values()]
        elif kind is Round:
            waiting.append(Call)
        elif isinstance(kind, type) and issubclass(kind, Enum):
            enums[name_of(kind)] = sorted(str(member.value) for member in kind)
        else:
            waiting += get_args(kind)
    return {"records": dict(sorted(records.items())), "enums": dict(sorted(enums.items()))}


STAMPS = dict.fromkeys((RunFinished, RunRuled, RunSuspended), ("now", "spec", "known", "trace", "read", "salt"))
"""Fields that are filled in where a record is used, and never stored."""


def said(*records: Record) -> dict[str, Any]:
    """As `vocabulary`, what of it these records say: the fields that differ from their default, the members that occur."""
    fields: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {}
    waiting: list[Any] = list(records)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Record):
            of_kind = fields.setdefault(name_of(type(value)), set())
            for name, one in type(value).model_fields.items():
                found = getattr(value, name)
                waiting.append(found)
                if _choices(one):
                    members.setdefault(f"{name_of(type(value))}.{name}", set()).add(found)
                if one.is_required() or found != one.get_default(call_default_factory=True):
                    of_kind.add(name)
        elif isinstance(value, Enum):
            members.setdefault(name_of(type(value)), set()).add(str(value.value))
        elif isinstance(value, tuple | Round):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, Principal):
            waiting.append(value.proof)
    return {"records": fields, "enums": members}


def words(spoken: Mapping[str, Any]) -> set[str]:
    """A vocabulary as single words."""
    fields = {f"{record}.{name}" for record, names in spoken["records"].items() for name in names}
    return fields | {f"{enum}: {member}" for enum, members in spoken["enums"].items() for member in members}


def text_of(data: bytes) -> str:
    """Bytes as they stand in a history."""
    return base64.b64encode(data).decode()


def bytes_of(text: str) -> bytes:
    """The bytes of `text_of`."""
    return base64.b64decode(text, validate=True)


def _default(one: Any) -> Any:
    return (
        "required"
        if one.is_required()
        else {"default": to_jsonable_python(one.get_default(call_default_factory=True), fallback=list)}
    )


def _choices(one: Any) -> tuple[str, ...]:
    """The values of a field that has a few, written out."""
    choices = get_args(one.annotation) if get_origin(one.annotation) is Literal else ()
    return choices if len(choices) > 1 else ()


def _fixed(one: Any) -> bool:
    """Whether a field says the same in every record."""
    return get_origin(one.annotation) is Literal and not _choices(one)


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str | None]:
    changed = {name: text_of(value) for name, value in after.items() if before.get(name) != value}
    return dict(sorted(changed.items())) | dict.fromkeys(sorted(before.keys() - after.keys()))


def _changed(before: Mapping[str, bytes], changes: Mapping[str, str | None]) -> dict[str, bytes]:
    left = {name: value for name, value in before.items() if name not in changes}
    return left | {name: bytes_of(text) for name, text in changes.items() if text is not None}
