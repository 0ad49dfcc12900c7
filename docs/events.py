"""Write docs/events.md from the events' own classes: `python docs/events.py`.

The fields, their types and their defaults are read from the source of the classes, what a field means from the `Attributes:` of
the class's docstring, and what a member of an enumeration means from the comment behind it.
"""  # noqa: INP001 - a script beside the pages it writes

import ast
import inspect
import re
from enum import StrEnum
from pathlib import Path

from holdfast.conversation.record import Record
from holdfast.conversation.records.event_base import FailureReason, StopReason, SummaryFailure
from holdfast.conversation.records.events import EVENTS, RequestedCall, SettledBy
from holdfast.conversation.records.live import LIVE_EVENTS
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord, SuspensionKind
from holdfast.conversation.terms.grants import CallTarget, Grant, Level
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.spec import Approval, Executor, OnLost

PAGE = Path(__file__).with_name("events.md")
ENUMERATIONS: tuple[type[StrEnum], ...] = (
    SuspensionKind,
    SettledBy,
    DecisionKind,
    StopReason,
    FailureReason,
    SummaryFailure,
    Executor,
    Approval,
    OnLost,
    Level,
    Proof,
)
ENTRY = re.compile(r"^    (\w+): (.+)$")
TOLD: tuple[type[Record], ...] = (*EVENTS, *LIVE_EVENTS)
"""The classes that have a kind, under which the page names them."""
MEMBER = re.compile(r'= "(\w+)"(?:  # (.+))?$', re.MULTILINE)


def summary(cls: type[Record]) -> str:
    """The first line of a class's docstring."""
    return inspect.getdoc(cls).partition("\n")[0]


def bases(cls: type[Record]) -> list[type[Record]]:
    """The class after those whose fields it has, too."""
    return [base for base in reversed(cls.__mro__) if issubclass(base, Record) and base is not Record]


def meanings(cls: type[Record]) -> dict[str, str]:
    """What each field means, by the docstring's `Attributes:`."""
    found: dict[str, str] = {}
    for base in bases(cls):
        found |= _meanings(base)
    return found


def _meanings(cls: type[Record]) -> dict[str, str]:
    _, _, section = inspect.cleandoc(cls.__doc__).partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        entry = ENTRY.match(line)
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif line.strip():
            found[name] += f" {line.strip()}"
    return found


def fields(cls: type[Record]) -> str:
    """A table of the fields."""
    meant = {name: field.description for name, field in cls.model_fields.items()} | meanings(cls)
    kinds = _annotations(cls)
    lines = ["| field | type | default | what it is |", "| --- | --- | --- | --- |"]
    for name, field in cls.model_fields.items():
        if not (name == "kind" and cls in TOLD):
            default = "required" if field.is_required() else f"`{_value(cls, name)}`"
            lines.append(f"| `{name}` | `{kinds[name]}` | {default} | {meant[name]} |")
    return "\n".join(lines)


def _annotations(cls: type[Record]) -> dict[str, str]:
    """The type of each field as its source says it."""
    nodes = (node for base in bases(cls) for node in ast.parse(inspect.getsource(base)).body[0].body)
    fields = [node for node in nodes if isinstance(node, ast.AnnAssign)]
    return {one.target.id: ast.unparse(one.annotation).replace("|", "\\|").replace("JsonText", "str") for one in fields}


def _value(cls: type[Record], name: str) -> str:
    value = cls.model_fields[name].default
    return repr(value.value if isinstance(value, StrEnum) else value)


def kind_of(cls: type[Record]) -> str:
    """The kind that an event names itself by."""
    return str(cls.model_fields["kind"].default)


def section(cls: type[Record]) -> str:
    """What the page says of one kind of event."""
    return f"### {kind_of(cls)}\n\n`{cls.__name__}`: {summary(cls)}\n\n{fields(cls)}"


def members(cls: type[StrEnum]) -> str:
    """What the page says of one enumeration."""
    meant = dict(MEMBER.findall(inspect.getsource(cls)))
    rows = "\n".join(f"| `{member.value}` | {meant[member.value]} |" for member in cls)
    return f"### {cls.__name__}\n\n{summary(cls)}\n\n| value | meaning |\n| --- | --- |\n{rows}"


def render() -> str:
    """The whole page."""
    recorded = "\n\n".join(section(cls) for cls in EVENTS)
    live = "\n\n".join(section(cls) for cls in LIVE_EVENTS)
    enumerations = "\n\n".join(members(cls) for cls in ENUMERATIONS)
    return f'''<!-- Written by docs/events.py: run it again after a change of the events. -->

# Events

A conversation is a log of events. `AsyncConversation.events(after=seq)` yields them in the log's order and without gaps, then
those that come, and between them live events, which the log does not hold. `events(live=False)` leaves the live ones out.

An `Event` has `kind`, `seq` (its place in the log, None for a live event), `at` (integer milliseconds UTC), `body` and `data`.
The body is a frozen object of the class that belongs to the kind, from `holdfast.events`; a type checker knows its fields. The
data are the same fields as plain JSON values, without `kind` and `at`.

```python
# follow.py
from holdfast import AsyncConversation
from holdfast.events import CallSuspended, RunScheduled, TextDelta, TurnCompleted, TurnFailed


async def follow(conversation: AsyncConversation, after: int = 0) -> int:
    """Print what happens until the turn ends; where to go on from."""
    seq = after
    async for event in conversation.events(after=after):
        seq = event.seq or seq
        match event.body:
            case TextDelta(text=text):
                print(text, end="", flush=True)
            case CallSuspended(tool=tool, prompt=prompt):
                print(f"{{tool}} waits: {{prompt}} {{event.arguments}}")
            case RunScheduled(tool=tool, attempt=attempt):
                print(f"{{tool}} runs, attempt {{attempt}}")
            case TurnCompleted() | TurnFailed():
                break
    return seq
```

`event.arguments` are the arguments of the call that a `call_suspended` is about, as an object. The log holds them once, with
the model's answer or with the decision that edited them, so the body only refers to them.

A new kind of event, and a new field with a default, may come with any release: leave what you do not know alone.

## Recorded events

{recorded}

### RequestedCall

{summary(RequestedCall)}

{fields(RequestedCall)}

### DecisionRecord

{summary(DecisionRecord)} It stands in a `call_held` of a conversation that [nobody attends](questions.md#run-without-people).

{fields(DecisionRecord)}

### CallTarget

{summary(CallTarget)}

{fields(CallTarget)}

### Grant

{summary(Grant)} [Grants](grants.md) says more.

{fields(Grant)}

## Live events

Live events are told while they happen, to those who listen: nothing repeats them, and some may be missing. Of a run's progress
the last report is kept for a day, and stands in `ConversationState.running`.

{live}

## Enumerations

{enumerations}
'''


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
