"""`holdfast rules`: check what a file of permission rules says of a call, and by which rule."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.agent import load
from holdfast.agent.coverage import defaults_of
from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules, Verdict
from holdfast.client import RuleCheck
from holdfast.client.rule_check import arguments_of
from holdfast.conversation import Approval, Executor
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

from .display import Said
from .errors import ExitCode
from .options import Where


def check(
    where: Where,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rules: YAML or JSON with allow, ask, deny and default.")],
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent; with --app one of the app's.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    args: Annotated[str, typer.Argument(metavar="ARGS", help="The call's arguments, a JSON object.")] = "{}",
    *,
    primary: Annotated[
        str | None, typer.Option(help="The argument that a pattern like Bash(npm *) matches; with --app the tool says it.")
    ] = None,
    expect: Annotated[
        RuleEffect | None, typer.Option(help="What should happen; if something else would, the exit code is 1.")
    ] = None,
) -> Said:
    """Say what would happen to a call under the rules of a file, and by which rule. It needs neither Redis nor Ray.

    With --app, the tool's own approval, executor, primary argument and defaults count, as well as the rules that app and agent
    have in the code. Without --app, the tool counts as one that runs in a worker and wants no approval.
    """
    rules = Rules.load(file)
    arguments = _arguments(args)
    path = where.reaching().app
    if path is None:
        facts: dict[str, Any] = {"primary": primary}
    else:
        rules, facts = _declared(rules, path, agent, tool, primary)
    verdict = rules.verdict(tool, arguments, **facts)
    hidden = rules.hides(tool, executor=facts.get("executor", Executor.SERVER))
    data = RuleCheck.of(verdict, reason=verdict.reason, hidden=hidden).model_dump(mode="json")
    unsure = (
        "without --app, the tool's own approval and executor are not known" if path is None and verdict.by != "rule" else ""
    )
    code = ExitCode.DONE if expect is None or verdict.effect is expect else ExitCode.FAILED
    return Said(data, _lines(verdict, tool, hidden=hidden), unsure, code, indent=None)


COMMANDS = {"check": check}


def _arguments(text: str) -> dict[str, Any]:
    try:
        return arguments_of(jsontext.loads(text))
    except jsontext.NotJson as error:
        raise InvalidInput("ARGS", f"it is not JSON ({error})", 'give a JSON object: \'{"command": "npm i"}\'') from None


def _declared(rules: Rules, path: str, agent: str, tool: str, primary: str | None) -> tuple[Rules, dict[str, Any]]:
    """The rules with those of the app and the agent, and the tool's declaration."""
    app = load(path)
    declared = app.agent(agent)
    found = declared.tool(tool)
    if found is None:
        known = ", ".join(repr(one.name) for one in declared.tools) or "none"
        raise InvalidInput("TOOL", f"agent {agent!r} has no tool {tool!r:.60}", f"use one of its tools: {known}")
    if primary is not None:
        raise InvalidInput("--primary", "with --app the tool says it", "leave it out, or declare the tool with primary=")
    facts = {
        "primary": found.primary,
        "required": found.spec.approval is Approval.REQUIRED,
        "executor": Executor(found.spec.executor),
        "defaults": defaults_of(found.spec.parameters),
    }
    return Rules.together(Rules.together(rules, app.rules), declared.rules), facts


def _lines(verdict: Verdict, tool: str, *, hidden: bool) -> list[str]:
    by = {
        "rule": f"by the rule {verdict.rule}",
        "default": "by the default: no rule is about this call",
        "tool": "by the tool's own declaration: no rule changes it",
    }
    found = [f"{verdict.effect}: {by[verdict.by]}"]
    if verdict.reason:
        found.append(f"reason: {verdict.reason}")
    if verdict.approvers is not None:
        found += [f"approvers: {one}" for one in (verdict.approvers, *verdict.also)]
    if hidden:
        always = verdict.effect is RuleEffect.DENY
        when = "whatever its arguments are" if always else "for some arguments, and its provider asks nobody"
        found.append(f"{tool} is denied {when}: the model does not see it")
    return found
