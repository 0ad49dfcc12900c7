"""A tool: declared once, from a JSON Schema or from a Python function."""

import asyncio
import copy
import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

from pydantic import TypeAdapter

from holdfast.conversation.ids import TOOL_NAME
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.spec import Approval, Choice, Executor, OnLost, Resume, ToolSpec
from holdfast.conversation.terms.stages import NOTHING, OnTimeout
from holdfast.conversation.text.jsontext import JsonText, NotJson, dumps, loads, size_bytes
from holdfast.errors import ConfigurationError
from holdfast.redaction import PLAIN, Redaction

from . import checks, disclosure, docstring, timeouts, type_schema
from .approving import Approving, Needs, TurnContext
from .callback import Callback, InThread, InvalidArguments
from .context import ToolContext
from .disclosure import Disclosure, Errors
from .functions import DecidedBy, Deciders, Touched, Touching, takes
from .parameters import Parameters
from .suspend import Suspend
from .timeouts import Declared

PROMPT_BYTES = 4 * 1024
SHOWN_CHARACTERS = 600
"""The most characters of a text about arguments that do not fit."""
DEFAULT_CHOICES = (Choice.APPROVE, Choice.EDIT, Choice.DENY)
NO_PARAMETERS = '{"type":"object","properties":{}}'
_LOG = logging.getLogger("holdfast.agent")

Function = Callable[..., Any]
Prompt = str | Callable[[dict[str, Any]], str]


class Tool:
    """A function that a model may call: who produces the result, and whether a person approves before it runs.

    Args:
        name: The name that the model uses, `[a-zA-Z0-9_-]{1,64}` as in OpenAI's format; the callback's name by default.
        description: The text that the model reads about the tool; the first paragraph of the callback's docstring by default.
        parameters: The JSON Schema of the arguments, as a dict or as JSON text, passed to the model verbatim. By default it
            comes from the callback's signature, and pydantic then validates the model's arguments.
        executor: Who produces the result: `server` (the callback), `human`, `client` or `provider`.
        approval: `auto`, or `required`: a person approves before it runs; or a plain function, run in a worker, that decides by
            a call's arguments, or by its arguments and its `TurnContext`: True or False. If it fails, a person is asked.
        callback: The body of a server tool, sync or async. Parameters annotated with `ToolContext` receive the context, the
            others the arguments by keyword. A human or client tool's body never runs.
        prompt: The text for the person who decides, or a function of the arguments that returns it; at most 4 KiB.
        response_schema: The type of a human or client tool's answer: a pydantic model, any type that pydantic knows, or a JSON
            Schema.
        streaming: Whether the body reports progress.
        on_lost: What happens to a run whose worker is gone, or to a call whose client is: `redispatch` (it runs again with the
            same idempotency key; default of tools without approval), `ask` (a person has it run again, or gives its result;
            default of tools with approval) or `error` (the model reads "outcome unknown").
        approval_timeout_s: How long an approval may take, in seconds; the agent's limit by default.
        answer_timeout_s: How long an answer of a human or client tool may take, in seconds; the agent's limit by default.
        run_timeout_s: How long the body may run, in seconds; the agent's limit by default.
        strict: Whether the model's arguments must fit a verbatim `parameters`.
        decisions: The decisions on a call that needs an approval, of `approve` (it runs as it is), `edit` (with other
            arguments), `deny` and `answer` (with this result); the first three by default. A call can always be cancelled.
        resume: What a decision does: `replay` (an approved call runs; an answer is its result), `pass_to_tool` (the body runs,
            also after an answer, and reads the decision in `ToolContext.decision`) or `use_as_result`, the default of human and
            client tools.
        definition: A provider tool in its provider's form, passed through verbatim.
        primary: The name of the argument that a permission rule like `Bash(npm *)` is about; one of `parameters`.
        targets: What a call touches, for grants: a list of `Target`, or a plain function of the arguments that returns one, run
            in a worker. No grant covers a call whose function fails or returns more than 8; without `targets`, only a grant for
            the tool itself covers a call.
        approvers: Who may decide a call that waits: `Approvers`, a list of roles and ids, or a plain function of the arguments
            that returns one of them or None, run in a worker. If the function fails, the call does not run. None: anybody with
            the right to decide.
        on_timeout: What follows if nobody decides in time: `"error"`, which the model reads; `Deny(reason)`; `Answer(value)`,
            if it is a human tool or `decisions` has "answer" (`ask_user_questions`: answers by ids, defaults for the rest); or
            `Escalate(to, for_s=..., then=...)`: others decide. A client's own execution just fails, so for a call that runs
            without an approval it counts only if a rule asks about it, or its run is lost with `on_lost="ask"`.
        reminders_s: How many seconds before the end of each stage its approvers are reminded, as a list.

    Attributes:
        name: The tool's name.
        primary: The name of the argument that a permission rule without a name is about, or None.
        spec: The tool as the state machine knows it.
        callback: The function given, or None.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | str | None = None,
        executor: str = Executor.SERVER,
        approval: str | Needs = Approval.AUTO,
        callback: Function | None = None,
        prompt: Prompt | None = None,
        response_schema: Any = None,
        streaming: bool = False,
        on_lost: str | None = None,
        approval_timeout_s: float | None = None,
        answer_timeout_s: float | None = None,
        run_timeout_s: float | None = None,
        strict: bool = False,
        definition: Mapping[str, Any] | str | None = None,
        primary: str | None = None,
        targets: Touched | None = None,
        approvers: DecidedBy | None = None,
        decisions: Sequence[str] | None = None,
        resume: str | None = None,
        on_timeout: Declared = timeouts.ERROR,
        reminders_s: Sequence[float] = (),
    ) -> None:
        self.name = _name(name, callback)
        field = f"tool {self.name!r}"
        who = checks.member(Executor, executor, f"{field}.executor")
        self._approving = None if isinstance(approval, str) else Approving(approval, f"{field}.approval")
        if who is Executor.AGENT and type(self) is Tool:
            raise ConfigurationError(f"{field}.executor", "it does not say which agent answers", "use delegate(agent)")
        gate = checks.member(Approval, approval, f"{field}.approval") if isinstance(approval, str) else Approval.REQUIRED
        lost = None if on_lost is None else checks.member(OnLost, on_lost, f"{field}.on_lost")
        _check_axes(field, who, gate)
        _check_body(field, who, callback, definition, parameters)
        choices = None if decisions is None else _decisions(decisions, f"{field}.decisions")
        checks.flag(streaming, f"{field}.streaming")
        given: dict[str, Any] = {"decisions": choices, "targets": targets, "approvers": approvers, "on_lost": lost}
        given |= {"response_schema": None if Choice.ANSWER in (choices or ()) else response_schema}
        given |= {"streaming": streaming or None, "approval_timeout_s": approval_timeout_s}
        given |= {"answer_timeout_s": answer_timeout_s, "run_timeout_s": run_timeout_s}
        follows = timeouts.on_timeout_of(on_timeout, reminders_s, field)
        _check_applicable(field, who, gate, given)

        self.callback = callback
        self._run = None if callback is None else Callback(callback, f"{field}.callback")
        documented = docstring.parse(None if self._run is None else self._run.docstring)
        self._parameters: Parameters | None = None
        if parameters is None and self._run is not None:
            self._parameters = Parameters(self._run, documented.parameters, f"{field}.parameters")
        self._prompt = _prompt(prompt, f"{field}.prompt")
        summary = documented.summary if description is None else description
        self.spec = ToolSpec(
            name=self.name,
            description=checks.text(summary, f"{field}.description"),
            parameters=self._schema(parameters, f"{field}.parameters"),
            executor=who,
            approval=gate,
            prompt=self._prompt if isinstance(self._prompt, str) else None,
            response_schema=_response_schema(response_schema, f"{field}.response_schema"),
            definition=None if definition is None else checks.json_object(definition, f"{field}.definition"),
            streaming=streaming,
            strict=checks.flag(strict, f"{field}.strict"),
            on_lost=lost or (OnLost.ASK if gate is Approval.REQUIRED else OnLost.REDISPATCH),
            approval_timeout_s=checks.seconds(approval_timeout_s, f"{field}.approval_timeout_s"),
            answer_timeout_s=checks.seconds(answer_timeout_s, f"{field}.answer_timeout_s"),
            run_timeout_s=checks.seconds(run_timeout_s, f"{field}.run_timeout_s"),
            decisions=DEFAULT_CHOICES if choices is None else choices,
            resume=_resume(resume, who, gate, f"{field}.resume"),
        )
        self.spec = self.spec.model_copy(update={"on_timeout": _on_timeout(follows, self.spec, field)})
        self._touching = None if targets is None else Touching(targets, f"{field}.targets")
        self._deciders = None if approvers is None else Deciders(approvers, f"{field}.approvers")
        self.primary = _primary(primary, self.spec, f"{field}.primary")
        self.validates = self._parameters is not None
        """Whether pydantic validates the model's arguments, with the app's validators if any."""
        self.approves_by_function = self._approving is not None
        """Whether a function of the app says which calls need an approval."""
        self.approves_by_turn = self._approving is not None and self._approving.takes_turn
        """Whether that function also takes the turn."""
        self.is_decided_by_function = self._deciders is not None and self._deciders.by_function
        """Whether a function of the app says who may decide a call."""
        self.touches_by_function = self._touching is not None and self._touching.by_function
        """Whether a function of the app says what a call touches."""
        self.blocks = self._run is not None and self._run.blocks
        """Whether the body is a plain function, which keeps a thread until it returns."""
        if callback is not None:
            functools.update_wrapper(self, callback, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, as if it were not a tool."""
        if self.callback is None:
            raise TypeError(f"tool {self.name!r} has no callback to call")
        return self.callback(*args, **kwargs)

    def __repr__(self) -> str:
        approval = self.spec.approval if self._approving is None else "function"
        return f"<Tool {self.name!r} executor={self.spec.executor} approval={approval}>"

    def validate(
        self, arguments: Mapping[str, Any], *, errors: Errors = Disclosure.FULL, redaction: Redaction = PLAIN
    ) -> str | None:
        """The errors in a model's arguments, in one line with paths (`$.amount: ...`); None if the tool may run with them.

        A verbatim schema is not checked here: the state machine does that if the tool is `strict`. `errors` says how much is
        told of an exception of an app's validator; `redaction` removes the secrets.
        """
        if self._parameters is None:
            return None
        try:
            self._parameters.values(arguments)
        except InvalidArguments as error:
            return redaction.redacted(disclosure.told(errors, error), SHOWN_CHARACTERS)
        return None

    def render(self, arguments: Mapping[str, Any]) -> str | None:
        """The text for the person who decides, at most 4 KiB; None without a prompt, or if its function fails (logged)."""
        if self._prompt is None or isinstance(self._prompt, str):
            return self._prompt
        try:
            text = self._prompt(copy.deepcopy(dict(arguments)))
            if not isinstance(text, str):
                raise TypeError(f"it returned {type(text).__name__}, not text")  # noqa: TRY301 - logged like any other failure
        except (Exception, SystemExit, Suspend):  # noqa: BLE001 - without a prompt, the arguments are still shown
            _LOG.warning("the prompt of tool %r could not be rendered", self.name, exc_info=True)
            return None
        encoded = text.encode(errors="replace")  # a lone surrogate cannot be stored
        if len(encoded) <= PROMPT_BYTES:
            return encoded.decode()
        ellipsis_bytes = len("…".encode())
        return encoded[: PROMPT_BYTES - ellipsis_bytes].decode(errors="ignore") + "…"

    def with_deadline(self, *, on_timeout: Declared = timeouts.ERROR, reminders_s: Sequence[float] = ()) -> "Tool":
        """The same tool with another `on_timeout` and other reminders, such as `ask_user_questions`.

        Raises:
            ConfigurationError: One of them cannot be used.
        """
        field, changed = f"tool {self.name!r}", copy.copy(self)
        terms = _on_timeout(timeouts.on_timeout_of(on_timeout, reminders_s, field), self.spec, field)
        changed.spec = self.spec.model_copy(update={"on_timeout": terms})
        return changed

    def needs_approval(self, arguments: Mapping[str, Any] | None, turn: TurnContext) -> bool:
        """Whether the declaration requires a person's approval of a call; `arguments` are None if unreadable."""
        if self._approving is None:
            return self.spec.approval is Approval.REQUIRED
        return self._approving.needed(arguments, turn)

    def deciders(self, arguments: Mapping[str, Any]) -> ApproverTerms | None:
        """Who may decide a call with these arguments; None: anybody with the right to decide."""
        return None if self._deciders is None else self._deciders.of(arguments)

    def touched(self, arguments: Mapping[str, Any]) -> tuple[CallTarget, ...] | None:
        """The targets of a call, for grants; None if the tool declares none, empty if its function fails."""
        return None if self._touching is None else self._touching.by(arguments)

    async def invoke(
        self, arguments: Mapping[str, Any], context: ToolContext, *, in_thread: InThread = asyncio.to_thread
    ) -> Any:
        """Run the body of a server tool once and return its result.

        A tool made from a signature gets the values its annotations name, defaults applied; one with a verbatim schema gets the
        arguments as they are. Coroutine functions are awaited; `in_thread` runs others, as `asyncio.to_thread` does.

        Raises:
            InvalidArguments: The arguments do not fit; the body did not run.
            ConfigurationError: The tool has no body that Holdfast may run.
            Exception: Any error of the body.
        """
        if self._run is None or self.spec.executor is not Executor.SERVER:
            problem = f"the {self.spec.executor} produces the result, so Holdfast never runs the tool"
            raise ConfigurationError(f"tool {self.name!r}.executor", problem, "resolve the call instead")
        if not self.spec.streaming and context.report is not None:
            context = replace(context, report=None)
        values = arguments if self._parameters is None else self._parameters.values(arguments)
        return await self._run.run(values, context, in_thread)

    def _schema(self, parameters: Mapping[str, Any] | str | None, field: str) -> JsonText:
        if parameters is None:
            return NO_PARAMETERS if self._parameters is None else self._parameters.schema
        schema = checks.object_schema(parameters, field)
        for name in () if self._run is None else self._run.contexts:
            if name in (loads(schema).get("properties") or {}):
                problem = f"the model would fill {name!r}, but the callback receives its ToolContext there"
                raise ConfigurationError(f"{field}.{name}", problem, "rename the callback's parameter")
        return schema


class Options(TypedDict, total=False):
    """The keyword arguments of `tool`: those of `Tool`, without the callback."""

    name: str | None
    description: str | None
    parameters: Mapping[str, Any] | str | None
    executor: str
    approval: str | Needs
    prompt: Prompt | None
    response_schema: Any
    streaming: bool
    on_lost: str | None
    approval_timeout_s: float | None
    answer_timeout_s: float | None
    run_timeout_s: float | None
    strict: bool
    definition: Mapping[str, Any] | str | None
    primary: str | None
    targets: Touched | None
    approvers: DecidedBy | None
    decisions: Sequence[str] | None
    resume: str | None
    on_timeout: Declared
    reminders_s: Sequence[float]


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, /, **options: Unpack[Options]) -> Tool | Callable[[Function], Tool]:
    """Make a function a tool, as `@tool` or as `@tool(approval="required")`; the options are those of `Tool`.

    The result is a `Tool` that can still be called like the function.
    """
    if function is None:
        return functools.partial(_decorated, options=options)
    return _decorated(function, options=options)


def _decorated(function: Function, *, options: Options) -> Tool:
    if isinstance(function, Tool):
        raise ConfigurationError(f"tool {function.name!r}", "it is a tool already", "decorate the function once")
    if not callable(function):
        raise ConfigurationError("tool", f"{function!r} is no function", "use @tool, or @tool(name=...) with keywords only")
    return Tool(callback=function, **options)


def _name(name: str | None, callback: Function | None) -> str:
    found: Any = getattr(callback, "__name__", None) if name is None else name
    if found is None:
        raise ConfigurationError("tool.name", "the tool has no name", "give name=")
    if not isinstance(found, str) or not TOOL_NAME.fullmatch(found):
        problem = "OpenAI's format allows only [a-zA-Z0-9_-]{1,64}"
        raise ConfigurationError(f"tool {found!r}.name", problem, "give another name=")
    return found


def _check_axes(field: str, who: Executor, gate: Approval) -> None:
    if gate is Approval.AUTO:
        return
    if who is Executor.PROVIDER:
        problem = "a provider tool cannot be gated: the provider runs it in its own stream, and nothing suspends before it runs"
        raise ConfigurationError(f"{field}.approval", problem, 'use approval="auto", or run it yourself with executor="server"')
    if who is Executor.HUMAN:
        problem = "a human tool cannot be gated: it would be circular, a person approving that a person is asked"
        raise ConfigurationError(f"{field}.approval", problem, 'use approval="auto": a person who is asked can also deny')


def _check_body(field: str, who: Executor, callback: Any, definition: Any, parameters: Any) -> None:
    if who is Executor.SERVER and callback is None:
        problem = "a server tool's result is what its callback returns, and it has none"
        fix = 'give callback=, or say who else produces it with executor="human", "client" or "provider"'
        raise ConfigurationError(f"{field}.callback", problem, fix)
    if who is Executor.PROVIDER:
        if definition is None:
            problem = "a provider tool is passed to the provider as it defines it, and there is no definition"
            raise ConfigurationError(f"{field}.definition", problem, "give definition={...} from the provider's documentation")
        if callback is not None:
            problem = "the provider runs a provider tool, so a callback would never run"
            raise ConfigurationError(f"{field}.callback", problem, 'leave it out, or use executor="server"')
        if parameters is not None:
            problem = "a provider tool is passed on as its definition says, so parameters would never be read"
            raise ConfigurationError(f"{field}.parameters", problem, "put them into definition={...}")
    elif definition is not None:
        problem = f"a definition is the provider's, and this is a {who} tool"
        raise ConfigurationError(f"{field}.definition", problem, 'describe it with parameters=, or use executor="provider"')


def _check_applicable(field: str, who: Executor, gate: Approval, given: dict[str, Any]) -> None:
    runs, client, answered = who is Executor.SERVER, who is Executor.CLIENT, who in (Executor.HUMAN, Executor.CLIENT)
    gated = who in (Executor.SERVER, Executor.CLIENT, Executor.AGENT)
    what, deadline = f"a {who} tool", None
    if who is Executor.AGENT:
        what, deadline = "a tool that delegates", "use deadline_s"
    rules = {
        "decisions": (gate is Approval.REQUIRED, "nobody is asked to approve", 'use it with approval="required"'),
        "response_schema": (answered, f"no person answers {what}", 'use it with executor="human" or "client"'),
        "streaming": (runs, f"only a server tool's body reports progress, and this is {what}", "leave it out"),
        "on_lost": (runs or client, f"only a server or client tool's run can be lost, and this is {what}", "leave it out"),
        "approval_timeout_s": (gate is Approval.REQUIRED, "nobody is asked to approve", 'use it with approval="required"'),
        "answer_timeout_s": (answered, f"no person answers {what}", deadline or "use approval_timeout_s or run_timeout_s"),
        "targets": (gated, f"nobody approves calls of {what}", "leave them out"),
        "approvers": (who is not Executor.PROVIDER, "nobody decides calls of a provider tool", "leave them out"),
        "run_timeout_s": (runs, f"Holdfast does not run {what}", deadline or "use answer_timeout_s"),
    }
    for option, (applies, problem, fix) in rules.items():
        if given[option] is not None and not applies:
            raise ConfigurationError(f"{field}.{option}", problem, fix)


def _decisions(declared: Any, field: str) -> tuple[Choice, ...]:
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        raise ConfigurationError(field, f"{declared!r:.60} is no list", 'give a list, such as ["approve", "deny"]')
    choices = tuple(dict.fromkeys(checks.member(Choice, one, field) for one in declared))
    if not set(choices) - {Choice.DENY}:
        raise ConfigurationError(field, "nothing but a denial would be possible", "add approve, edit or answer")
    return choices


def _resume(declared: str | None, who: Executor, gate: Approval, field: str) -> Resume:
    usual = Resume.REPLAY if who in (Executor.SERVER, Executor.PROVIDER) else Resume.USE_AS_RESULT
    resume = usual if declared is None else checks.member(Resume, declared, field)
    if resume is Resume.PASS_TO_TOOL and (who is not Executor.SERVER or gate is not Approval.REQUIRED):
        problem = "there is no body that a decision could be passed to, or nothing to decide"
        raise ConfigurationError(field, problem, 'use it with executor="server" and approval="required"')
    if resume is not usual and resume is not Resume.PASS_TO_TOOL:
        fix = "leave it out" if who is not Executor.SERVER else 'use executor="human", or decisions=["answer", "deny"]'
        raise ConfigurationError(field, f"a {who} tool has resume={usual.value!r}", fix)
    return Resume.REPLAY if resume is Resume.USE_AS_RESULT else resume


def _on_timeout(terms: OnTimeout, spec: ToolSpec, field: str) -> OnTimeout:
    if spec.executor is Executor.PROVIDER and terms != NOTHING:
        raise ConfigurationError(f"{field}.on_timeout", "nobody decides calls of a provider tool", "leave it out")
    human = spec.executor is Executor.HUMAN
    runs = spec.executor in (Executor.SERVER, Executor.CLIENT)
    lost = runs and spec.on_lost is OnLost.ASK and spec.approval is Approval.AUTO
    if terms.default is not None and terms.default.kind == "answer":
        name = f"{field}.on_timeout"
        if not (human or lost or Choice.ANSWER in spec.decisions):
            raise ConfigurationError(name, "an approval of this tool takes no answer", 'add "answer" to decisions=')
        if spec.resume is Resume.PASS_TO_TOOL:
            problem = "the tool would run with an answer that nobody gave"
            raise ConfigurationError(name, problem, "use Deny(reason), or another resume=")
        if spec.questions and not isinstance(loads(terms.default.value), dict):
            raise ConfigurationError(name, "it is no object", "give answers by the ids of the questions; {} for their defaults")
    timeouts.check_answer(terms, field, spec.response_schema)
    timeouts.check_reminders(terms, field, spec.answer_timeout_s if human else spec.approval_timeout_s)
    return terms


def _prompt(prompt: Any, field: str) -> Prompt | None:
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        if not callable(prompt) or inspect.iscoroutinefunction(prompt) or not takes(prompt, {}):
            problem = "it is neither text nor a plain function of the arguments"
            raise ConfigurationError(field, problem, "give a string, or a function (not async) that takes the arguments' dict")
        function: Callable[[dict[str, Any]], str] = prompt
        return function
    if size_bytes(checks.text(prompt, field)) > PROMPT_BYTES:
        raise ConfigurationError(field, f"it is longer than {PROMPT_BYTES} bytes", "say it shorter")
    return prompt


def _primary(primary: Any, spec: ToolSpec, field: str) -> str | None:
    if primary is None:
        return None
    if spec.executor is Executor.PROVIDER:
        problem = "nobody but the provider knows a provider tool's arguments"
        raise ConfigurationError(field, problem, "leave it out; rules can deny the tool by its name")
    known = list(loads(spec.parameters).get("properties") or {})
    if not isinstance(primary, str) or primary not in known:
        shown = ", ".join(map(repr, known[:20])) or "none"
        raise ConfigurationError(field, f"{primary!r:.60} is no parameter", f"name one of its parameters: {shown}")
    return primary


def _response_schema(declared: Any, field: str) -> JsonText | None:
    if declared is None:
        return None
    if isinstance(declared, Mapping | str):
        return checks.json_schema(declared, field)
    try:
        made = dumps(type_schema.inlined(type_schema.of(TypeAdapter(declared))))
    except (*type_schema.UNUSABLE, NotJson) as error:
        fix = "give a pydantic model, a type that pydantic knows, or a JSON Schema"
        raise ConfigurationError(field, f"no JSON Schema can be made of it ({error})", fix) from error
    return checks.json_schema(made, field)
