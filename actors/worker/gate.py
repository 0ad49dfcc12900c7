"""The permission rules in force, as a worker has read them: each call is judged when it is proposed and before it runs.

Throughout, `rules` are None if unreadable, `agent` is None if the app no longer has it, and a call's `arguments` are None if
unreadable.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

from holdfast.actors.admission import Readings
from holdfast.actors.workers import NoApp, RunRequest
from holdfast.agent import Agent, Rules, Tool, TurnContext, Verdict
from holdfast.agent.coverage import defaults_of
from holdfast.agent.functions import UntoldError
from holdfast.conversation.terms.approvers import ApproverTerms, joined
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import Approval, Executor, ToolSpec
from holdfast.conversation.window import Window
from holdfast.errors import CorruptStore, InvalidRule, NewerRecord, StoreError
from holdfast.persistence import PAUSE_LAG_MS, ApiKeyList, AppRecord, Directory, Store

from .asking import Ask, at_once

logger = logging.getLogger("holdfast.worker")

NO_RULES = Rules()
UNTOLD = "the permission rules in force are unknown, so every call is asked about"
UNREADABLE = RuleVerdict(
    effect=RuleEffect.ASK, reason="the permission rules cannot be read here", approvers=ApproverTerms(stated=True, each=True)
)
"""The verdict if this process cannot read the rules in force: a person must approve, proven or only stated.

The rules may deny the call, so no grant and no function of the app can replace that person.
"""

UNTOLD_DECIDERS = RuleVerdict(
    effect=RuleEffect.DENY, reason="it is unknown who may decide this call (the tool's approvers= failed)"
)
"""The verdict on a call whose tool cannot say who may decide it."""
OTHERS = "the edited arguments need the approval of other people"


class RulesInForce(Protocol):
    """The source of an agent's permission rules in a worker."""

    async def begin_by(self, agent: str) -> tuple[Rules | None, int | None]:
        """The rules in force (empty if there are none, None if unreadable), and the time until which they let work begin.

        That time is in ms UTC by the store's clock; None: any time.
        """

    async def rules(self, agent: str) -> Rules | None:
        """The rules in force; empty rules if there are none, None if they cannot be read."""
        return (await self.begin_by(agent))[0]


@dataclass(frozen=True)
class FixedRules(RulesInForce):
    """The rules of an agent that is not published."""

    _rules: Rules

    async def begin_by(self, agent: str) -> tuple[Rules | None, int | None]:
        """These rules, for any time."""
        del agent
        return self._rules, None


class Gate(RulesInForce):
    """The rules in force for the agents of one published app; concurrent callers share a recent reading."""

    def __init__(self, store: Directory, published: Callable[[], Awaitable[AppRecord | None]]) -> None:
        self._store = store
        self._published = published
        self._digests: Mapping[str, str] | None = None
        self._known: dict[str, Rules | None] = {}
        self._asked_at = 0
        self._troubles: list[str] = []
        self._readings = Readings(self._look, "which permission rules are in force")

    async def begin_by(self, agent: str) -> tuple[Rules | None, int | None]:
        """See `RulesInForce`."""
        await self._readings.fresh()
        return self._rules(agent), self._asked_at + PAUSE_LAG_MS

    def _rules(self, agent: str) -> Rules | None:
        if self._digests is None:
            return None
        digest = self._digests.get(agent)
        return NO_RULES if digest is None else self._known[digest]

    async def _look(self) -> None:
        asked_at = await self._store.now()
        troubles: list[str] = []
        try:
            record = await self._published()
            digests = self._digests if record is None else dict(record.rules)  # deleting the record must not lift a rule
            if digests is None:
                troubles.append(f"{UNTOLD}: its app is not published")
        except (NoApp, CorruptStore, NewerRecord) as error:
            troubles.append(f"{UNTOLD}: {error}")
            digests = None
        named = set() if digests is None else set(digests.values())
        self._known = {digest: self._known.get(digest) or await self._read(digest, troubles) for digest in named}
        self._digests, self._asked_at = digests, asked_at
        for trouble in troubles:
            if trouble not in self._troubles:  # logged once, not at each reading
                logger.warning("%s", trouble)
        self._troubles = troubles

    async def _read(self, digest: str, troubles: list[str]) -> Rules | None:
        try:
            text = await self._store.rules(digest)
            if text is not None and hashlib.sha256(text.encode()).hexdigest() == digest:
                return Rules.of_json(text)
            problem = "they are not stored as they were published"
        except (CorruptStore, NewerRecord, InvalidRule) as error:
            problem = str(error)
        troubles.append(f"permission rules in force cannot be read, so their calls are asked about: {problem}")
        return None


class GrantGivers:
    """The API keys of a namespace as a worker has read them: a run by a grant needs a giver who may still decide the call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = ApiKeyList(())
        self._read_at = 0
        self._readings = Readings(self._look, None)

    async def lapsed(self, request: RunRequest) -> tuple[tuple[str, ...], int | None]:
        """The grants of a run whose givers held an API key and may no longer decide its call.

        Keys of one name belong to one holder: a grant holds while one of them may decide. The second value is the latest time
        at which a run based on this reading may begin, in ms UTC by the store's clock; None: any time.
        """
        if not request.givers:
            return (), None
        await self._readings.fresh()
        keys = [key for key in self._keys.keys if key.may_decide(request.agent, request.approvers, self._read_at)]
        lapsed = tuple(grant_id for grant_id, name in request.givers if all(key.name != name for key in keys))
        return lapsed, self._read_at + PAUSE_LAG_MS

    async def _look(self) -> None:
        read_at = await self._store.now()
        self._keys, self._read_at = await self._store.api_keys(), read_at


@dataclass(frozen=True)
class CallRules:
    """The permission rules of one model call: those at its beginning hide tools, those at its end judge calls.

    `withheld` is the name of a tool that is hidden whatever they say; empty: none is.
    """

    _in_force: RulesInForce
    _rules: Rules | None
    _agent: str
    turn: Callable[[], Awaitable[TurnContext]]
    withheld: str = ""

    def sending(self, window: Window) -> Self:
        """The same rules for a request with this window."""
        return replace(self, withheld=window.withheld)

    def hides(self, tool: ToolSpec) -> bool:
        """Whether a tool is hidden from the model: it is withheld, the rules deny it, or its provider would run it unjudged."""
        if tool.name == self.withheld:
            return True
        if self._rules is None:
            return tool.executor is Executor.PROVIDER
        return self._rules.hides(tool.name, executor=tool.executor)

    async def now(self) -> Rules | None:
        """The rules in force; if these are unknown, those at the call's beginning, since a run is judged again later."""
        try:
            return await self._in_force.rules(self._agent)
        except StoreError:
            return self._rules


def proposed(
    rules: Rules | None,
    agent: Agent | None,
    tool: str,
    arguments: Mapping[str, Any] | None,
    turn: TurnContext,
    *,
    ask: Ask = at_once,
) -> RuleVerdict | None:
    """The verdict on a call that the model proposes; None if its tool's declaration decides, without rules or functions."""
    if rules is None:
        return UNREADABLE
    declared = agent.tool(tool) if agent is not None else None
    required = False
    if declared is not None:
        needed, declares = partial(declared.needs_approval, arguments, turn), declared.spec.approval is Approval.REQUIRED
        required = ask(f"approval= of {tool}", needed, declares)
    verdict = _verdict(rules, declared, tool, arguments, required=required)
    if verdict is None:
        return UNREADABLE
    if declared is None and verdict.effect is RuleEffect.ALLOW:
        return None  # the spec says whether the tool requires an approval
    as_declared = declared is None or required == (declared.spec.approval is Approval.REQUIRED)
    return None if verdict.by == "tool" and as_declared else _ruled(verdict)


def denies(rules: Rules | None, agent: Agent | None, tool: str, arguments: Mapping[str, Any] | None) -> RuleVerdict | None:
    """The verdict on a call that has run, if the rules deny such calls by now, or are unreadable."""
    declared = agent.tool(tool) if agent is not None else None
    verdict = None if rules is None else _verdict(rules, declared, tool, arguments, required=False)
    if verdict is None:
        return UNREADABLE
    return _ruled(verdict) if verdict.effect is RuleEffect.DENY else None


def required_again(agent: Agent | None, request: RunRequest, arguments: Mapping[str, Any] | None, turn: TurnContext) -> bool:
    """Whether the tool itself requires an approval of a run that a rule, perhaps not in force now, let begin without one."""
    declared = agent.tool(request.tool) if agent is not None and lifted(request) else None
    return declared is not None and declared.needs_approval(arguments, turn)


def lifted(request: RunRequest) -> bool:
    """Whether a rule lets the call run without a decision."""
    return bool(request.rule) and not asked_about(request)


def asked_about(request: RunRequest) -> bool:
    """Whether a person has approved the run, by a decision on its call or by a grant."""
    return request.fulfilled is not None or bool(request.grants)


def stopped(
    rules: Rules | None,
    agent: Agent | None,
    request: RunRequest,
    arguments: Mapping[str, Any] | None,
    *,
    required: bool,
    others: RuleVerdict | None = None,
) -> RuleVerdict | None:
    """The verdict that blocks this run (denied, or another person must approve); None if it may begin.

    An earlier approval counts only if the rules and the tool, as they are now, name no other approvers.
    """
    if rules is not None and not (rules or request.rule):
        return others
    declared = agent.tool(request.tool) if agent is not None else None
    verdict = None if rules is None else _verdict(rules, declared, request.tool, arguments, required=required)
    if verdict is None:
        return others if request.fulfilled is not None else UNREADABLE
    ruled = _ruled(verdict)
    if ruled.effect is RuleEffect.DENY:
        return ruled
    asks = ruled.effect is RuleEffect.ASK and (not asked_about(request) or _widens(ruled.approvers, request))
    if asks and others is not None:
        return ruled.model_copy(update={"approvers": joined(ruled.approvers, others.approvers)})
    return ruled if asks else others


def asks_others(agent: Agent | None, request: RunRequest, arguments: Mapping[str, Any] | None) -> RuleVerdict | None:
    """The verdict on edited arguments: the tool may name other approvers for them than those who decided the call."""
    terms, untold = deciders(None if agent is None else agent.tool(request.tool), arguments)
    if untold is not None or not _widens(terms, request):
        return untold
    return RuleVerdict(effect=RuleEffect.ASK, reason=OTHERS, approvers=terms)


def _widens(terms: ApproverTerms | None, request: RunRequest) -> bool:
    """Whether these terms name other approvers than those who approved the run, by a decision on it or by a grant."""
    granted = (request.approvers,) if request.grants and request.approvers is not None else ()
    return terms is not None and not any(one.implies(terms) for one in (*(request.fulfilled or ()), *granted))


def deciders(
    tool: Tool | None, arguments: Mapping[str, Any] | None, ask: Ask = at_once
) -> tuple[ApproverTerms | None, RuleVerdict | None]:
    """Who may decide a call according to its tool, and the verdict if the tool cannot say."""
    if tool is None or arguments is None:
        return None, None
    untold: tuple[ApproverTerms | None, RuleVerdict | None] = None, UNTOLD_DECIDERS
    try:
        if not tool.is_decided_by_function:
            return tool.deciders(arguments), None
        return ask(f"approvers= of {tool.name}", lambda: (tool.deciders(arguments), None), untold)
    except UntoldError:
        return untold


def _verdict(
    rules: Rules, declared: Tool | None, tool: str, arguments: Mapping[str, Any] | None, *, required: bool
) -> Verdict | None:
    """The verdict of the rules; None if they fail on these arguments."""
    spec = None if declared is None else declared.spec
    try:
        return rules.verdict(
            tool,
            arguments,
            primary=None if declared is None else declared.primary,
            required=required,
            executor=Executor.SERVER if spec is None else spec.executor,
            defaults=None if spec is None else defaults_of(spec.parameters),
        )
    except Exception:  # whatever the arguments are, a person can judge them
        logger.exception("the permission rules failed on a call of %s, so it is asked about", tool)
        return None


def _ruled(verdict: Verdict) -> RuleVerdict:
    names = {"rule": verdict.rule or "", "reason": verdict.reason, "approvers": verdict.terms, "on_timeout": verdict.on_timeout}
    return RuleVerdict(effect=verdict.effect, **names)
