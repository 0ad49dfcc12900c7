"""An agent: a model, its instructions and its tools."""

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import Budget, sizes, window
from holdfast.conversation.terms.budget import Per
from holdfast.conversation.terms.context import READ_RESULT, Context
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.spec import AgentSpec, Execution, Executor, Limits, NotifySpec
from holdfast.conversation.terms.stopping import Stop
from holdfast.conversation.terms.turn_stats import TurnFunction, TurnStats
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.regex import BadRegex, Regex
from holdfast.conversation.text.tokens import text_tokens
from holdfast.errors import ConfigurationError

from . import checks, disclosure, overriding, timeouts
from .disclosure import Disclosure, Errors
from .functions import is_async, takes
from .model_table import window_tokens
from .models import Model, declared, summarizing
from .read_result import ReadResult
from .reply import Reply
from .rules import Rules
from .tool import Tool
from .unattended import Unattended

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Agent:
    """The model that answers in a conversation, with its instructions and tools.

    Args:
        name: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`; conversations are started with it.
        model: The model as litellm names it, provider first (`openai/gpt-4o-mini`), or `Model(...)`, with fallbacks.
        instructions: The system message.
        tools: The tools that the model may call. A plain function becomes a server tool, as with `@tool`.
        model_options: More arguments of the model call, such as `temperature`. Options that say where the call goes, or to whom
            (`api_base`, headers, callbacks, ...), are not stored: workers take them from the app that they import. Credentials
            are refused; they belong in the environment.
        limits: The limits of the agent's conversations.
        execution: How the calls of one answer are carried out: `parallel` (side by side; a call that needs no person runs at
            once), `sequential` (in the model's order; a call that waits for a person holds up the next ones, a failed one does
            not) or `batch` (no call runs before every person's decision is made).
        errors: How much of a tool's exception the model reads and the store keeps: its class and text (`full`), its class alone
            (`type`), or the text that a function of the exception returns, in the worker and within 10 s; if the function fails
            or takes longer, the class alone. Known secrets are redacted.
        rules: The permission rules of the agent's tools; the app's apply as well.
        unattended: What happens instead of asking a person, in conversations started with `attended=False`.
        client_grace_s: How many seconds a call of a client tool waits while no client is attached that has the tool, and how
            long after it is gone a client's claim of a call ends; None: such a call waits until its deadline, and a claim ends
            at once.
        context: How much of a conversation is sent to the model; None: all of it. With previews, the agent also has the
            built-in tool `read_result`.
        stop: When a turn ends though its model would go on; None: after `Limits.max_model_calls`, as a failure.
        overridable: What a message may override for its own turn (`send(overrides=...)`): names of `Overrides`, or a mapping of
            these to what is allowed: `model` to a list of models (by name or as `Model(...)`, without fallbacks), `temperature`
            and `top_p` to the lowest and the highest, `max_tokens` to the most, `reasoning_effort` to a list of words. None:
            nothing.
        reply: The object that each reply is: a pydantic model, a dataclass or a JSON Schema. The model is asked for it by its
            provider's structured output, or by the built-in call `final_answer`; a reply that does not fit is asked for again,
            at most twice, and then the turn fails. None: any text.
        budget: How much a conversation, or the agent on a day, may use before no further turn begins: one `Budget`, or one for
            each `per`; None: any amount.

    Attributes:
        name, tools: As given.
        errors, unattended, rules: As given; they belong to the app's code, and are not stored with the spec.
        spec: The agent as the state machine knows it; its digest names exactly this declaration without `own_options`.
        own_options: The model options that are not stored, by name.
        fallback_options: The same of each fallback, in their order.
        overridable_options: The same of each model that a message may choose, in their order.
        summary_options: The same of each model that is declared for summaries (`Compact(model=Model(...))`), in their order.
        reply: The shape of its replies, with the validators of the type that was given; None if any text is a reply.
    """

    def __init__(
        self,
        *,
        name: str,
        model: str | Model = "openai/gpt-4o-mini",
        instructions: str = "",
        tools: Sequence[Tool | Callable[..., Any]] = (),
        model_options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        execution: str = Execution.PARALLEL,
        errors: Errors = Disclosure.FULL,
        rules: Rules | None = None,
        unattended: Unattended | None = None,
        client_grace_s: float | None = 5,
        context: Context | None = None,
        stop: Stop | None = None,
        overridable: Mapping[str, Any] | Sequence[str] | None = None,
        reply: Any = None,
        budget: Budget | Sequence[Budget] | None = None,
    ) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problem = (
                "an agent's name is 1 to 64 letters, digits, dots, underscores and hyphens, starting with a letter or digit"
            )
            raise ConfigurationError(f"agent {name!r}.name", problem, "give another name=")
        field = f"agent {name!r}"
        self.name = name
        self.tools = _tools(tools, f"{field}.tools")
        first = declared(model, model_options, field)
        allowed, others = overriding.declared(overridable, [first, *first.fallbacks], f"{field}.overridable")
        models = [one.spec.model for one in (first, *first.fallbacks, *others)]
        terms, of_summaries = summarizing(_context(context, models, f"{field}.context"), f"{field}.context.compact")
        every = (*self.tools, *_built_in(terms, self.tools, f"{field}.tools"))
        self._by_name = {tool.name: tool for tool in every}
        self.errors = disclosure.checked(errors, f"{field}.errors")
        self.rules = checks.rules(rules, f"{field}.rules")
        instead = 'give Unattended(approvals="deny", questions="cancel")'
        self.unattended = checks.instance(Unattended, unattended, f"{field}.unattended", instead) or Unattended()
        self.own_options = first.own_options
        self.fallback_options = tuple(one.own_options for one in first.fallbacks)
        self.overridable_options = tuple(one.own_options for one in others)
        self.summary_options = tuple(one.own_options for one in of_summaries)
        self.reply = None if reply is None else Reply(reply, f"{field}.reply")
        if self.reply is not None:
            _check_replies(every, (first, *first.fallbacks, *others), field)
        self.spec = AgentSpec(
            name=name,
            model=first.spec.model,
            instructions=checks.text(instructions, f"{field}.instructions"),
            model_options=first.spec.options,
            tools=tuple(tool.spec for tool in every),
            limits=_limits(limits, f"{field}.limits"),
            execution=checks.member(Execution, execution, f"{field}.execution"),
            unattended=self.unattended.spec,
            client_grace_s=checks.seconds(client_grace_s, f"{field}.client_grace_s"),
            context=terms,
            stop=_stop(stop, self.tools, f"{field}.stop"),
            retries=first.spec.retries,
            breaker=first.spec.breaker,
            fallbacks=tuple(one.spec for one in first.fallbacks),
            overridable=allowed,
            reply=None if self.reply is None else self.reply.schema,
            budgets=_budgets(budget, f"{field}.budget"),
        )
        _check_room(self.spec, f"{field}.context")
        for spec in self.spec.tools:
            timeouts.check_within(spec, self.spec.limits)
        if self.rules is not None:
            self.rules.check_reminders([self.spec])

    def __repr__(self) -> str:
        return f"<Agent {self.name!r} model={self.spec.model!r} tools={list(self._by_name)}>"

    def notifying(self, targets: tuple[NotifySpec, ...]) -> "Agent":
        """The agent in an app with these notification targets."""
        if not targets:
            return self
        copied = copy.copy(self)
        copied.spec = self.spec.model_copy(update={"notify": targets})
        return copied

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, if the agent has one, declared or built in."""
        return self._by_name.get(name)


def _tools(declared: Any, field: str) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    for item in checks.items(declared, Tool, "tools", field):
        if not isinstance(item, Tool) and not callable(item):
            raise ConfigurationError(field, f"{item!r} is no tool", "give functions decorated with @tool, or Tool(...)")
        tool = item if isinstance(item, Tool) else Tool(callback=item)
        if tool.name in tools:
            problem = f"two tools are named {tool.name!r}, and the model could not tell them apart"
            raise ConfigurationError(field, problem, "rename one of them with name=")
        tools[tool.name] = tool
    return tuple(tools.values())


def _built_in(context: Context | None, tools: Sequence[Tool], field: str) -> tuple[Tool, ...]:
    """The tools that an agent has besides its own: `read_result`, if results that Holdfast records may become previews."""
    if context is None or context.preview is None:
        return ()
    if any(tool.name == READ_RESULT for tool in tools):
        problem = f"{READ_RESULT!r} is the built-in tool that reads what previews leave out (Context.preview)"
        raise ConfigurationError(field, problem, "rename yours with name=, or give Context(preview=None)")
    recorded = any(tool.spec.executor is not Executor.PROVIDER for tool in tools)
    return (ReadResult(context.preview),) if recorded else ()


def _budgets(given: Any, field: str) -> tuple[Budget, ...]:
    """The budgets in the order in which they are judged: the one that never counts anew is the first."""
    several = given is None or (isinstance(given, Sequence) and not isinstance(given, str))
    found: dict[Per, Budget] = {}
    for one in (given or ()) if several else (given,):
        if not isinstance(one, Budget):
            problem = f"{type(one).__name__} is not Budget"
            raise ConfigurationError(field, problem, "give budget=Budget(...), or a list of them")
        if one.per in found:
            problem = f"two budgets have per='{one.per}'"
            raise ConfigurationError(field, problem, "give one of them, which may have cost_usd= and tokens=")
        found[one.per] = one
    return tuple(found[per] for per in Per if per in found)


def _context(context: Any, models: Sequence[str], field: str) -> Context | None:
    found = checks.instance(Context, context, field, "give context=Context(...)")
    if found is None or found.budget is not None:
        return found
    budgets = []
    for model in models:
        tokens = window_tokens(model)
        if tokens is None:
            problem = f"litellm's table does not say how many tokens {model!r} takes"
            raise ConfigurationError(f"{field}.budget", problem, "give Context(budget=...)")
        budgets.append(tokens)
    return found.model_copy(update={"budget": min(budgets)})


def _stop(stop: Any, tools: Sequence[Tool], field: str) -> Stop | None:
    found = checks.instance(Stop, stop, field, "give stop=Stop(...)")
    if found is None:
        return None
    _check_content(found.content, f"{field}.content")
    _check_functions(found.functions, f"{field}.when")
    if found.tool is None:
        return found
    results = [tool.name for tool in tools if tool.spec.executor is not Executor.PROVIDER]
    if found.tool not in results:
        problem = f"the agent has no tool {found.tool!r} whose calls have results here"
        raise ConfigurationError(f"{field}.tool", problem, f"use one of {', '.join(map(repr, results)) or 'its tools'}")
    return found


def _check_content(content: str | None, field: str) -> None:
    try:
        if content is not None:
            Regex(content)
    except BadRegex as error:
        fix = "correct it, and leave out lookaround and backreferences; (?i) at its beginning ignores case"
        raise ConfigurationError(field, f"{content!r:.100}: {error}", fix) from error


def _check_functions(functions: Sequence[TurnFunction], field: str) -> None:
    for number, one in enumerate(functions):
        if one.function is None or is_async(one.function) or not takes(one.function, TurnStats()):
            fix = "give a function (not async) that takes the TurnStats and returns the reason as a text, or None"
            raise ConfigurationError(field, f"{one.name!r} is no plain function of the TurnStats", fix)
        if one in functions[:number]:
            raise ConfigurationError(field, f"two functions are named {one.name!r}", "rename one of them")


def _check_room(spec: AgentSpec, field: str) -> None:
    most, fixed = sizes.budget_of(spec), sizes.fixed_tokens(spec)
    if most is None or most > fixed:
        _check_summaries(spec, (most or 0) - fixed, f"{field}.compact")
        return
    problem = (
        f"{sizes.output_tokens(spec)} tokens of it are the answer's, and {max(most, 0)} are left for a request, in which "
        f"instructions and tools have about {fixed}: there is no room for messages"
    )
    fix = "give a larger budget, a smaller max_tokens, or fewer tools"
    if spec.tool(READ_RESULT) is not None and spec.context is not None and spec.context.preview is not None:
        fix += f"; Context(preview=None) leaves {READ_RESULT!r} out"
    raise ConfigurationError(f"{field}.budget", problem, fix)


def _check_summaries(spec: AgentSpec, room: int, field: str) -> None:
    compact, budget = (None, None) if spec.context is None else (spec.context.compact, spec.context.budget)
    if compact is None:
        return
    named = (compact.model,) if isinstance(compact.model, str) else ()
    own = () if compact.chain is None else compact.chain.models
    for model in (*named, *(one.model for one in own)):
        takes = window_tokens(model)
        if takes is not None and budget is not None and takes < budget:
            problem = f"{model!r:.200} takes {takes} tokens, and what it summarises has up to {budget}"
            raise ConfigurationError(f"{field}.model", problem, "name a model that takes as many, or give a smaller budget")
    for one in own:
        thinking, most = jsontext.loads(one.options).get("thinking"), sizes.notes_tokens(spec)
        thinks = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
        if budget is not None and isinstance(thinks, int) and thinks >= most:
            problem = f"{one.model!r:.200} is to think {thinks} tokens, and has {most} for that and a summary"
            raise ConfigurationError(f"{field}.model", problem, "let it think less, or give a larger Compact(max_tokens=)")
    asked = text_tokens(compact.prompt or "")
    if budget is not None and asked * 2 > budget:
        problem = f"it has about {asked} tokens, more than half of the budget"
        raise ConfigurationError(f"{field}.prompt", problem, "give a shorter prompt or a larger budget")
    if compact.max_tokens is None:
        return
    most = int(compact.at * room * (1 - window.LEAST_PART))
    if compact.max_tokens > most:
        problem = (
            f"a summary of {compact.max_tokens} tokens saves too little: it takes the place of about {compact.at * room:.0f}"
        )
        raise ConfigurationError(f"{field}.max_tokens", problem, f"give at most {most}, or leave it out")


def _check_replies(tools: Sequence[Tool], models: Sequence[Model], field: str) -> None:
    """Refuse tools and options that would stand in the way of the agent's `reply`."""
    if any(tool.name == FINAL_ANSWER for tool in tools):
        problem = f"{FINAL_ANSWER!r} is the built-in call that gives the reply (Agent.reply)"
        raise ConfigurationError(f"{field}.tools", problem, "rename yours with name=")
    for model in models:
        if "response_format" in jsontext.loads(model.spec.options):
            problem = f"{model.spec.model!r:.200} has a response_format, and its replies have the shape of reply="
            raise ConfigurationError(f"{field}.reply", problem, "leave one of them out")


def _limits(limits: Any, field: str) -> Limits:
    found = checks.instance(Limits, limits, field, "give limits=Limits(...)") or Limits()
    for name, value in found:
        if not math.isfinite(value):
            raise ConfigurationError(f"{field}.{name}", "without a bound, what waits might never end", "give a finite number")
    return found
