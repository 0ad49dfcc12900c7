"""Declarations of what follows when nobody decides a call in time: `on_timeout=` and `reminders_s=`."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.conversation.terms.approvers import Approvers, approvers_of, terms_of
from holdfast.conversation.terms.decisions import Answer, Deny
from holdfast.conversation.terms.spec import Executor, Limits, ToolSpec
from holdfast.conversation.terms.stages import (
    LONGEST_S,
    MOST_BYTES,
    MOST_REMINDERS,
    MOST_STAGES,
    Default,
    Escalate,
    OnTimeout,
    Stage,
)
from holdfast.conversation.text import jsontext, schema
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import ConfigurationError

ERROR = "error"
_FIX = 'give "error", Deny(reason), Answer(value) or Escalate(to, for_s=..., then=...)'

Declared: TypeAlias = str | Deny | Answer | Escalate


def on_timeout_of(declared: object, reminders_s: object, field: str) -> OnTimeout:
    """The checked form of `on_timeout=` and `reminders_s=`.

    Raises:
        ConfigurationError: One of them cannot be used; `field` is the declaration's.
    """
    name, stages = f"{field}.on_timeout", list[Stage]()
    while isinstance(declared, Escalate):
        if len(stages) == MOST_STAGES:
            raise ConfigurationError(name, f"it has more than {MOST_STAGES} stages", "let fewer people decide in turn")
        stages.append(Stage(approvers=terms_of(declared.to, f"{name}.to"), for_s=_seconds(f"{name}.for_s", declared.for_s)))
        declared = declared.then
    return OnTimeout(stages=tuple(stages), default=_default(name, declared), reminders_s=_reminders(field, reminders_s))


def check_answer(terms: OnTimeout, field: str, text: JsonText | None) -> None:
    """Refuse a default answer that breaks the schema (JSON text; None: anything fits)."""
    if terms.default is not None and terms.default.kind == "answer":
        problem = schema.problem(text, jsontext.loads(terms.default.value))
        if problem is not None:
            raise ConfigurationError(f"{field}.on_timeout", f"its answer does not fit the schema: {problem}", "correct it")


def check_reminders(terms: OnTimeout, field: str, lasts_s: float | None) -> None:
    """Refuse a reminder that no stage is long enough for; the first one lasts `lasts_s` (None: unknown)."""
    longest = max((lasts_s or LONGEST_S, *(stage.for_s for stage in terms.stages)))
    for seconds in terms.reminders_s:
        if seconds >= longest:
            problem = f"a call waits for {longest:g} s, so nobody is reminded {seconds:g} s before the end"
            raise ConfigurationError(f"{field}.reminders_s", problem, "give fewer seconds, or a longer stage")


def check_within(spec: ToolSpec, limits: Limits) -> None:
    """Refuse a tool's reminder for which no stage is long enough in an agent with these limits."""
    asked = spec.answer_timeout_s or limits.answer_timeout_s
    check_reminders(
        spec.on_timeout, f"tool {spec.name!r}", asked if spec.executor is Executor.HUMAN else approval_s(spec, limits)
    )


def approval_s(spec: ToolSpec, limits: Limits) -> float:
    """How long an approval of a tool's call may take, in seconds."""
    return spec.approval_timeout_s or limits.approval_timeout_s


def of_data(given: object, field: str) -> object:
    """`on_timeout` of a rules file: `error`, or an object with `deny`, `answer` or `escalate`."""
    if not isinstance(given, Mapping):
        return given
    if len(given) != 1 or not {*given} <= {"deny", "answer", "escalate"}:
        raise ConfigurationError(field, f"{list(map(str, given))!r:.60} is not what can follow", "use deny, answer or escalate")
    ((kind, said),) = given.items()
    if kind != "escalate":
        return Deny(said) if kind == "deny" else Answer(said)
    if not isinstance(said, Mapping) or not {"to", "for_s"} <= {*said} <= {"to", "for_s", "then"}:
        raise ConfigurationError(f"{field}.escalate", "it is no escalation", "give to, for_s and perhaps then")
    to = said["to"]
    if isinstance(to, Mapping):
        try:
            to = approvers_of(to, "")
        except ConfigurationError as error:
            raise ConfigurationError(f"{field}.escalate.to", error.problem, error.fix) from None
    return Escalate(to, for_s=said["for_s"], then=of_data(said.get("then", ERROR), f"{field}.escalate.then"))


def to_data(declared: object) -> Any:
    """The form of a rules file, as `of_data` reads it."""
    match declared:
        case Escalate(to, for_s, then):
            who = approvers_of(to, "to") if not isinstance(to, Approvers) else to
            rest = {} if then == ERROR else {"then": to_data(then)}
            return {"escalate": {"to": who.to_data(), "for_s": for_s, **rest}}
        case Deny(reason):
            return {"deny": reason}
        case Answer(value):
            return {"answer": value}
    return declared


def _default(field: str, declared: object) -> Default | None:
    if declared == ERROR:
        return None
    if isinstance(declared, Answer):
        kind, value = "answer", declared.value
    elif isinstance(declared, Deny) and isinstance(declared.reason, str):
        kind, value = "deny", declared.reason
    else:
        problem = f"{type(declared).__name__} does not follow when nobody decides"
        raise ConfigurationError(field, problem, _FIX)
    try:
        text = jsontext.dumps(value)
    except jsontext.NotJson as error:
        raise ConfigurationError(field, f"it is not JSON ({error})", "give what JSON can carry") from error
    if jsontext.size_bytes(text) > MOST_BYTES:
        raise ConfigurationError(field, f"it has more than {MOST_BYTES} bytes", "shorten it")
    return Default.model_validate({"kind": kind, "value": text})


def _reminders(field: str, given: object) -> tuple[float, ...]:
    name = f"{field}.reminders_s"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigurationError(name, f"{given!r:.40} is no list", "give seconds before the end: reminders_s=[3600]")
    if len(given) > MOST_REMINDERS:
        raise ConfigurationError(name, f"there are {len(given)}", f"give {MOST_REMINDERS} at most")
    return tuple(sorted({_seconds(name, one) for one in given}, reverse=True))


def _seconds(field: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= LONGEST_S:
        raise ConfigurationError(field, f"{given!r:.40} is no time", f"give seconds above 0, at most {LONGEST_S}")
    return float(given)
