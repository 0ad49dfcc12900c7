"""The exception with which a server tool's body has a person review something before it goes on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pydantic_core

from holdfast.conversation.terms.approvers import Approvers, ApproverTerms, terms_of
from holdfast.conversation.terms.spec import Resume
from holdfast.conversation.terms.stages import LONGEST_S, NOTHING, OnTimeout
from holdfast.conversation.text.jsontext import JsonText, NotJson, dumps
from holdfast.errors import ConfigurationError
from holdfast.visible import without_hidden

from . import checks, timeouts
from .timeouts import Declared

TITLE_LENGTH, ACTION_LENGTH = 200, 40
_RAISED: ContextVar["Noticed | None"] = ContextVar("holdfast_raised", default=None)


@dataclass(frozen=True, slots=True)
class Terms:
    """The checked arguments of a `Suspend`; payload and schema are JSON texts."""

    title: str
    message: str
    report_md: str
    payload: JsonText | None
    action: str
    response_schema: JsonText | None
    resume: Resume
    expires_s: float | None
    approvers: ApproverTerms | None = None
    on_timeout: OnTimeout | None = None


class Suspend(BaseException):
    """Raised in the body of a server tool: the call waits for a person's verdict, and no process waits with it.

    It is no `Exception`, so an `except Exception` lets it pass. The body ends as by any exception, and what it has done stays
    done. By default the person's decision is the call's result, which the agent reads; a `Review` with the verdict `"review"`
    asks the agent to revise it by the notes. With `resume="pass_to_tool"` the body runs again from its start, and reads the
    decision in `ToolContext.decision`. One call may be suspended 8 times.

    Args:
        title: What it is about, in one line of at most 200 characters.
        message: What the person is asked, as text.
        report_md: What the person should read, in markdown.
        payload: What it is about, as data: a JSON value, or a value that pydantic can turn into one.
        action: What is asked for, in one word; lists of pending calls show it.
        response_schema: The JSON Schema of an `Answer`, if one is accepted besides a `Review`.
        resume: `use_as_result`, or `pass_to_tool`.
        expires_s: How long the call may wait, in seconds; by default as long as an approval of the tool.
        approvers: Who may settle it: `Approvers`, or a list of roles and ids; by default those of the tool.
        on_timeout: What follows if nobody settles it in time: `"error"`, `Deny(reason)`, `Answer(value)` that fits the schema,
            or `Escalate(to, for_s=..., then=...)`.
        reminders_s: How many seconds before the end of each stage its approvers are reminded, as a list.

    Title, message, report, payload and schema together may be as long as a result (`Limits.result_bytes`).

    A body that catches it and still returns a result has failed: a run notices each `Suspend` made in its own coroutine, its
    tasks and `asyncio.to_thread`. Make it where it is raised: one made in a thread of the app's own pool, in a task of another
    run, or when the module was imported is not noticed.

    Attributes:
        terms: What it asks for.
    """

    terms: Terms | None = None

    def __init__(
        self,
        title: str,
        *,
        message: str = "",
        report_md: str = "",
        payload: Any = None,
        action: str = "review",
        response_schema: Mapping[str, Any] | str | None = None,
        resume: str = Resume.USE_AS_RESULT,
        expires_s: float | None = None,
        approvers: Approvers | Sequence[str] | None = None,
        on_timeout: Declared = timeouts.ERROR,
        reminders_s: Sequence[float] = (),
    ) -> None:
        super().__init__(title)
        schema = None if response_schema is None else checks.json_schema(response_schema, "Suspend.response_schema")
        self.terms = Terms(
            title=_line("Suspend.title", title, TITLE_LENGTH),
            message=checks.text(message, "Suspend.message"),
            report_md=checks.text(report_md, "Suspend.report_md"),
            payload=None if payload is None else _json("Suspend.payload", payload),
            action=_line("Suspend.action", action, ACTION_LENGTH),
            response_schema=schema,
            resume=_resume(resume),
            expires_s=_expires_s(expires_s),
            approvers=None if approvers is None else terms_of(approvers, "Suspend.approvers"),
            on_timeout=_on_timeout(on_timeout, reminders_s, schema, expires_s),
        )
        raised = _RAISED.get()
        if raised is not None and raised.open:
            raised.made += 1


class Noticed:
    """How many `Suspend`s a run has made; a task of the body that outlives the run does not count."""

    def __init__(self) -> None:
        self.open = True
        self.made = 0


@contextmanager
def noticed() -> Iterator[Noticed]:
    """Count every `Suspend` made in this context, in its tasks and in threads with its contextvars."""
    raised = Noticed()
    token = _RAISED.set(raised)
    try:
        yield raised
    finally:
        raised.open = False
        _RAISED.reset(token)


def suspend_in(error: BaseException) -> Suspend | None:
    """The `Suspend` that an exception is, or the only one that an exception group holds; else None."""
    if isinstance(error, Suspend):
        return error
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return suspend_in(error.exceptions[0])
    return None


def _on_timeout(declared: Declared, reminders_s: Sequence[float], schema: JsonText | None, lasts_s: float | None) -> Any:
    terms = timeouts.on_timeout_of(declared, reminders_s, "Suspend")
    if terms.default is not None and terms.default.kind == "answer" and schema is None:
        raise ConfigurationError("Suspend.on_timeout", "it takes no answer", "give response_schema=, or use Deny(reason)")
    timeouts.check_answer(terms, "Suspend", schema)
    timeouts.check_reminders(terms, "Suspend", lasts_s)
    return None if terms == NOTHING else terms


def _resume(declared: str) -> Resume:
    resume = checks.member(Resume, declared, "Suspend.resume")
    if resume is Resume.REPLAY:
        problem = "the body would suspend itself again, and never see the decision"
        raise ConfigurationError("Suspend.resume", problem, 'use "use_as_result" or "pass_to_tool"')
    return resume


def _expires_s(declared: float | None) -> float | None:
    expires_s = checks.seconds(declared, "Suspend.expires_s")
    if expires_s is not None and expires_s > LONGEST_S:
        raise ConfigurationError("Suspend.expires_s", "it is longer than ten years", "give fewer seconds")
    return expires_s


def _line(field: str, value: object, longest: int) -> str:
    text = checks.text(value, field)
    if not text.strip() or len(text) > longest or without_hidden(text, lambda _: "") != text:
        raise ConfigurationError(field, f"{text!a:.60} is no line of text", f"give 1 to {longest} visible characters")
    return text


def _json(field: str, value: Any) -> JsonText:
    try:
        return dumps(pydantic_core.to_jsonable_python(value, inf_nan_mode="constants"))
    except (NotJson, ValueError, TypeError, pydantic_core.PydanticSerializationError) as error:
        raise ConfigurationError(field, f"it is not JSON ({error})", "give what JSON can carry") from error
