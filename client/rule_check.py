"""What the published permission rules say of a call."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from holdfast import errors
from holdfast.conversation import AgentSpec
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.terms.spec import Approval, Executor, ToolSpec
from holdfast.conversation.text import jsontext
from holdfast.daemon import in_daemon
from holdfast.persistence import AppRecord, Directory

from .results import Result

if TYPE_CHECKING:
    from holdfast.agent import Verdict

UNREADABLE = "the permission rules cannot be read here"
BY_FUNCTION = "the tool's own approval is a function of the app, which is not called here: it may let the call run"


class RuleCheck(Result):
    """What would become of a call under the permission rules that are published."""

    effect: RuleEffect = Field(description="What would become of it.")
    rule: str | None = Field(description="The rule that says so; None for the default, or the tool's own approval.")
    reason: str = Field(description="Why, in the rule's words.")
    approvers: tuple[str, ...] = Field(
        description="Who may approve, as the rule says, besides what the tool itself says; empty: anybody who may decide."
    )
    by: Literal["rule", "default", "tool"] = Field(description="What decides; `tool`: the tool's own declaration.")
    hidden: bool = Field(description="Whether the tool is hidden from the model: it is denied whatever its arguments are.")
    minimum: int = Field(default=1, description="How many people have to agree, as the rule says.")
    not_requester: bool = Field(default=False, description="Whether the sender of the message may not approve.")
    also: tuple[str, ...] = Field(
        default=(),
        description="Who may approve, as each further rule that asks about the call says, one line each: an approver has to "
        "fulfil all of them.",
    )

    @classmethod
    def of(cls, verdict: "Verdict", *, reason: str, hidden: bool) -> "RuleCheck":
        """The check that has this verdict."""
        who = verdict.approvers or Approvers()
        return cls(
            effect=verdict.effect,
            rule=verdict.rule,
            reason=reason,
            approvers=who.who,
            by=verdict.by,
            hidden=hidden,
            minimum=who.minimum,
            not_requester=who.not_requester,
            also=tuple(map(str, verdict.also)),
        )


def arguments_of(arguments: object) -> dict[str, Any]:
    """The arguments, checked: a JSON object, else `InvalidInput`."""
    if not isinstance(arguments, Mapping):
        problem = f"{type(arguments).__name__} is no object"
        raise errors.InvalidInput("arguments", problem, 'give the call\'s: {"command": "npm test"}')
    try:
        return dict(jsontext.loads(jsontext.dumps(dict(arguments))))
    except jsontext.NotJson as error:
        raise errors.InvalidInput("arguments", str(error), "give JSON values") from None


def named(field: str, name: object) -> str:
    """The name of an agent, a tool or an app, checked: text, else `InvalidInput`."""
    if not isinstance(name, str) or not name:
        raise errors.InvalidInput(field, f"{name!r:.40} is no name", f"give the name of the {field}")
    return jsontext.clean(name)


async def checked(store: Directory, app: str | None, agent: str, tool: str, arguments: Mapping[str, Any]) -> RuleCheck:
    """What an agent's published rules say of a call; see `AsyncClient.check_rules`."""
    if app is None:
        raise errors.ConfigurationError("app", "there is none", "give its import path, as in app='shop:app'")
    record = await store.app(app)
    if record is None:
        raise errors.AppNotPublished(app)
    spec = await _spec(store, record, agent)
    declared = spec.tool(tool)
    if declared is None:
        known = ", ".join(repr(one.name) for one in spec.tools) or "none"
        raise errors.InvalidInput("tool", f"agent {agent!r} has no tool {tool!r:.60}", f"use one of its tools: {known}")
    text, digest = None, record.rules.get(agent)
    if digest is not None:
        try:
            text = await store.rules(digest)
        except (errors.CorruptStore, errors.NewerRecord):
            return _unreadable(declared)
        if text is None or hashlib.sha256(text.encode()).hexdigest() != digest:
            return _unreadable(declared)
    return await in_daemon(_judged, text, record, agent, declared, arguments)


async def _spec(store: Directory, record: AppRecord, agent: str) -> AgentSpec:
    digest = record.agents.get(agent)
    if digest is None:
        problem = f"the published app {record.app!r} has no agent {agent!r:.200}"
        fix = "use another of its agents, or publish the app as it is here, with holdfast up"
        raise errors.AgentNotFound("agent", problem, fix)
    spec = await store.spec(digest)
    if spec is None:
        raise errors.CorruptStore(f"the spec of agent {agent!r} of the published app {record.app!r} is not stored")
    return spec


def _judged(text: str | None, record: AppRecord, agent: str, tool: ToolSpec, arguments: Mapping[str, Any]) -> RuleCheck:
    from holdfast.agent.coverage import defaults_of  # noqa: PLC0415 - `holdfast pending` counts milliseconds
    from holdfast.agent.rules import Rules  # noqa: PLC0415 - as above

    try:
        rules = Rules() if text is None else Rules.of_json(text)
    except (errors.NewerRecord, errors.InvalidRule):
        return _unreadable(tool)
    place = f"{agent}/{tool.name}"

    def verdict(*, required: bool) -> "Verdict":
        return rules.verdict(
            tool.name,
            arguments,
            primary=record.primaries.get(place),
            required=required,
            executor=tool.executor,
            defaults=defaults_of(tool.parameters),
        )

    by_function = place in record.approving
    found = verdict(required=by_function or tool.approval is Approval.REQUIRED)
    reason = found.reason
    if by_function and found.by == "tool" and verdict(required=False).effect is not found.effect:
        reason = BY_FUNCTION
    return RuleCheck.of(found, reason=reason, hidden=rules.hides(tool.name, executor=tool.executor))


def _unreadable(tool: ToolSpec) -> RuleCheck:
    """The check under rules that cannot be read: a person is asked, where the tool allows it."""
    asks = tool.executor not in (Executor.HUMAN, Executor.PROVIDER)
    return RuleCheck(
        effect=RuleEffect.ASK if asks else RuleEffect.ALLOW,
        rule=None,
        reason=UNREADABLE,
        approvers=(),
        by="default" if asks else "tool",
        hidden=tool.executor is Executor.PROVIDER,
    )
