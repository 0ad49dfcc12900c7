"""Permission rules: which calls run, which ask a person first, and which are denied."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.conversation.terms.approvers import Approvers, ApproverTerms, joined
from holdfast.conversation.terms.spec import AgentSpec, Executor
from holdfast.conversation.terms.stages import OnTimeout
from holdfast.conversation.text import jsontext
from holdfast.errors import ConfigurationError, InvalidRule, NewerRecord

from . import timeouts
from .coverage import Covered, Inspected, Shells
from .rule import Rule, RuleEffect

VERSION = 1
"""The version of the form in which rules are stored and sent."""
MOST = 1000
"""The most rules in one `Rules`."""
_FIELDS = ("allow", "ask", "deny", "default")
_RULE_FIELDS = ("pattern", "name", "reason", "approvers", "on_timeout", "reminders_s")
_KNOWN_TOOLS = 512
_UNCLEAR = "it is unclear what the command runs, and this rule may cover it"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of rules on a call.

    Attributes:
        effect: Whether the call is allowed, asked about or denied.
        rule: The name of the deciding rule; None for the default, or the tool's own approval.
        reason: Why, in the rule's words.
        approvers: Who may approve; None: no rule restricts it.
        by: What decided: `rule`, `default`, or the `tool`'s own declaration.
        also: The approvers of further rules that ask about the call; an approver must be among these, too.
        on_timeout: What follows if nobody decides in time, as the deciding rule says, else the first one that asks and says so;
            None: the tool says it.
    """

    effect: RuleEffect
    rule: str | None = None
    reason: str = ""
    approvers: Approvers | None = None
    by: str = "rule"
    also: tuple[Approvers, ...] = ()
    on_timeout: OnTimeout | None = None

    @property
    def terms(self) -> ApproverTerms | None:
        """Who may approve: those named by every matching "ask" rule; None: no rule restricts it."""
        each = [one.terms for one in (self.approvers, *self.also) if one is not None]
        return reduce(joined, each, None)


class Rules:
    """Rules in three lists, which are attributes like the default. Deny wins over ask, and ask over allow, in any order.

    Args:
        allow: Calls that run without asking. A rule lifts a tool's own `approval="required"` only if it names the tool in full,
            without a wildcard.
        ask: Calls that a person approves first.
        deny: Calls that do not run.
        default: The effect on calls that no rule covers: `allow`, `ask` or `deny`; None leaves it to the tool's own approval.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str | Rule] = (),
        ask: Sequence[str | Rule] = (),
        deny: Sequence[str | Rule] = (),
        default: RuleEffect | str | None = None,
    ) -> None:
        self._hold((_rules("allow", allow), _rules("ask", ask), _rules("deny", deny), _default("default", default)), MOST)

    def __repr__(self) -> str:
        default = None if self.default is None else str(self.default)
        return f"<Rules allow={len(self.allow)} ask={len(self.ask)} deny={len(self.deny)} default={default!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __bool__(self) -> bool:
        """Whether there is a rule or a default."""
        return bool(self.allow or self.ask or self.deny) or self.default is not None

    @classmethod
    def load(cls, path: str | Path) -> "Rules":
        """The rules in a YAML or JSON file: an object with the lists `allow`, `ask` and `deny`, and `default`.

        An entry is a pattern, or an object with `pattern`, `name`, `reason`, `approvers`, `reminders_s` and `on_timeout`:
        `error`, `{deny: reason}`, `{answer: value}` or `{escalate: {to: [...], for_s: 3600, then: ...}}`.

        Raises:
            InvalidRule: The file or a rule in it is unusable; the error names the file, list and number, and points at the
                mistake.
        """
        from .rules_file import read  # noqa: PLC0415 - only rules in files need YAML

        return cls._of(_of_data(read(Path(path)), str(path)))

    @classmethod
    def together(cls, app: "Rules | None", agent: "Rules | None") -> "Rules":
        """The rules of an app and of an agent as one: deny of either wins over ask of either, and that over allow of either.

        The agent's default comes before the app's. If several rules cover a call, the app's are named first.
        """
        one, other = app or cls(), agent or cls()
        default = one.default if other.default is None else other.default
        lists = one.allow + other.allow, one.ask + other.ask, one.deny + other.deny
        return cls._of((*lists, default), most=2 * MOST)

    @classmethod
    def _of(cls, found: "_Read", *, most: int = MOST) -> "Rules":
        made = cls.__new__(cls)
        made._hold(found, most)  # noqa: SLF001 - a constructor of its own
        return made

    def _hold(self, found: "_Read", most: int) -> None:
        self.allow, self.ask, self.deny, self.default = found
        if len(self.allow) + len(self.ask) + len(self.deny) > most:
            raise InvalidRule("rules", f"there are more than {most}", "write fewer, wider ones")
        self._by_tool: dict[str, tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[Rule, ...], Shells]] = {}

    @classmethod
    def of_json(cls, text: str) -> "Rules":
        """The rules in a text that `to_json` made.

        Raises:
            NewerRecord: The text has a version that this release cannot read.
            InvalidRule: The text is not from `to_json`, or a rule in it is unusable.
        """
        try:
            found = jsontext.loads(text)
        except jsontext.NotJson as error:
            raise InvalidRule("rules", f"they are not JSON ({error})", "give what Rules.to_json made") from None
        version = found.pop("version", None) if isinstance(found, dict) else None
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise InvalidRule("rules.version", f"{version!r:.40} is no version", "give what Rules.to_json made")
        if version > VERSION:
            raise NewerRecord("permission rules", version, VERSION)
        return cls._of(_of_data(found, "rules"), most=2 * MOST)  # those of an app and an agent together

    def to_json(self) -> str:
        """The rules as JSON text, in which they are stored and sent; equal rules have equal texts."""
        found: dict[str, Any] = {"version": VERSION}
        for name in ("allow", "ask", "deny"):
            if rules := getattr(self, name):
                found[name] = [rule.to_dict() for rule in rules]
        if self.default is not None:
            found["default"] = str(self.default)
        return jsontext.dumps(found)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the rules' JSON text, in hexadecimal, which identifies them."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | None,
        *,
        primary: str | None = None,
        required: bool = False,
        executor: Executor | str = Executor.SERVER,
        defaults: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The verdict on a call.

        Arguments that cannot be inspected (no JSON object, too long, nested too deep) are covered by every rule about the tool
        that denies or asks; if only rules about some arguments allow the tool, a person is asked.

        Args:
            tool: The tool's name.
            arguments: The call's arguments: an object, or the text of one as the model wrote it; None: unreadable.
            primary: The name of the argument that a pattern without names is about.
            required: Whether the tool itself requires an approval.
            executor: Who produces the result. Calls of human and provider tools can only be denied.
            defaults: The values of arguments that are left out.
        """
        deny, ask, allow, shells = self._about(tool)
        alone = executor in (Executor.HUMAN, Executor.PROVIDER)  # no person can approve its calls
        if not (deny or ask or allow) and not alone:
            return self._otherwise((), required=required)
        call = Inspected(tool, arguments, primary, defaults, shells=shells)
        perhaps: list[Rule] = []
        for rule in deny:
            covered = call.may_be_covered(rule.pattern)
            if covered is Covered.YES or (covered and executor == Executor.PROVIDER):
                return Verdict(RuleEffect.DENY, rule.name, rule.reason)
            perhaps += [rule] if covered else []
        asks = {rule: covered for rule in ask if (covered := call.may_be_covered(rule.pattern))}
        asked = next((rule for rule, covered in asks.items() if covered is Covered.YES), None)
        lets = [rule for rule in allow if call.is_covered(rule.pattern)]
        if alone:
            if self.default is RuleEffect.DENY and not asks and not lets:
                return Verdict(RuleEffect.DENY, by="default")
            return Verdict(RuleEffect.ALLOW, by="tool")
        if asked is None:
            verdict = self._otherwise(lets, required=required, doubtful=call.opaque and bool(allow))
            if verdict.effect is RuleEffect.DENY or not (perhaps or asks):
                return verdict
        first, *also = dict.fromkeys(rule.approvers for rule in asks if rule.approvers) or (None,)
        late = next((rule.on_timeout for rule in (asked, *asks) if rule is not None and rule.on_timeout is not None), None)
        if asked is not None:
            return Verdict(RuleEffect.ASK, asked.name, asked.reason, first, also=tuple(also), on_timeout=late)
        named = [*perhaps, *asks][0]
        reason = f"{_UNCLEAR}: {named.reason}" if named.reason else _UNCLEAR
        return Verdict(RuleEffect.ASK, named.name, reason, first, also=tuple(also), on_timeout=late)

    def _otherwise(self, lets: Sequence[Rule], *, required: bool, doubtful: bool = False) -> Verdict:
        for rule in lets:
            if not required or rule.pattern.names_in_full:
                return Verdict(RuleEffect.ALLOW, rule.name, rule.reason)
        if lets:
            return Verdict(RuleEffect.ASK, by="tool")  # no rule names it in full, and it requires an approval
        if self.default is RuleEffect.DENY:
            return Verdict(RuleEffect.DENY, by="default")
        if required:
            return Verdict(RuleEffect.ASK, by="tool")
        if self.default is RuleEffect.ASK or doubtful:
            return Verdict(RuleEffect.ASK, by="default")
        return Verdict(RuleEffect.ALLOW, by="tool" if self.default is None else "default")

    def check_reminders(self, specs: Sequence[AgentSpec]) -> None:
        """Refuse a rule's reminder for which no stage is long enough, whichever call of these agents it asks about.

        Raises:
            InvalidRule: There is one.
        """
        for number, rule in enumerate(self.ask, 1):
            found = [(tool, spec.limits) for spec in specs for tool in spec.tools if rule.pattern.may_name(tool.name)]
            if rule.on_timeout is None or not found:
                continue
            try:
                first_s = max(timeouts.approval_s(*one) for one in found)
                timeouts.check_reminders(rule.on_timeout, f"ask[{number}]", first_s)
            except ConfigurationError as error:
                raise InvalidRule(error.field, error.problem, error.fix) from None

    def hides(self, tool: str, *, executor: Executor | str = Executor.SERVER) -> bool:
        """Whether a tool is hidden from the model: it is denied with any arguments.

        A provider runs its tool without asking, so its tool is hidden if any call of it may be denied.

        Args:
            tool: The tool's name.
            executor: Who produces its results.
        """
        if executor == Executor.PROVIDER:
            return self.verdict(tool, None, executor=Executor.PROVIDER).effect is RuleEffect.DENY
        return any(not rule.pattern.conditions for rule in self._about(tool)[0])

    def _about(self, tool: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[Rule, ...], Shells]:
        """The rules that deny, ask about and allow a tool, and what they say about commands."""
        found = self._by_tool.get(tool)
        if found is None:
            if len(self._by_tool) >= _KNOWN_TOOLS:
                self._by_tool.clear()  # a bound in case of invented names: real ones come from declarations
            deny = tuple(rule for rule in self.deny if rule.pattern.may_name(tool))
            ask = tuple(rule for rule in self.ask if rule.pattern.may_name(tool))
            allow = tuple(rule for rule in self.allow if rule.pattern.names(tool))
            shells = Shells.of(rule.pattern for rule in (*deny, *ask, *allow))
            found = self._by_tool[tool] = deny, ask, allow, shells
        return found


_Read: TypeAlias = tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[Rule, ...], RuleEffect | None]


def _rules(effect: str, given: object, where: str | None = None) -> tuple[Rule, ...]:
    field, of_data = effect if where is None else f"{where}: {effect}", where is not None
    if isinstance(given, str) or not isinstance(given, list if of_data else Sequence):
        fix = "write a list of patterns" if of_data else "give a list of patterns or rules"
        raise InvalidRule(field, f"{given!r:.60} is no list", fix)
    if len(given) > 2 * MOST:
        raise InvalidRule(field, f"it has more than {2 * MOST} rules", "write fewer, wider ones")
    return tuple(_rule(f"{field}[{number}]", effect, one, of_data=of_data) for number, one in enumerate(given, 1))


def _rule(field: str, effect: str, given: object, *, of_data: bool) -> Rule:
    if of_data and isinstance(given, Mapping):
        _check_fields(field, given, _RULE_FIELDS)
        if "pattern" not in given:
            raise InvalidRule(field, "it has no pattern", 'add one: pattern: "Bash(npm *)"')
        said = {name: value for name, value in given.items() if value is not None}
        if "on_timeout" in said:
            said["on_timeout"] = _of_data_timeout(field, said["on_timeout"])
        given = _made(field, **said)
    elif isinstance(given, str):
        given = _made(field, given)
    if not isinstance(given, Rule):
        fix = 'write a pattern in quotes, "Bash(npm *)", or a rule'
        raise InvalidRule(field, f"{given!r:.60} is neither a pattern nor a rule", fix)
    if given.approvers and effect != RuleEffect.ASK:
        fix = "put the rule into ask, or leave the approvers out"
        raise InvalidRule(f"{field}.approvers", "only a rule that asks has approvers", fix)
    if given.on_timeout is not None and effect != RuleEffect.ASK:
        raise InvalidRule(
            f"{field}.on_timeout", "only a rule that asks waits for somebody", "put the rule into ask, or leave it out"
        )
    return given


def _of_data_timeout(field: str, given: object) -> Any:
    try:
        return timeouts.of_data(given, f"{field}.on_timeout")
    except ConfigurationError as error:
        raise InvalidRule(error.field, error.problem, error.fix) from None


def _made(field: str, *pattern: str, **given: Any) -> Rule:
    try:
        return Rule(*pattern, **given)
    except InvalidRule as error:
        part = field if error.field == "pattern" else f"{field}.{error.field}"
        raise InvalidRule(part, error.problem, error.fix) from None


def _default(field: str, given: object) -> RuleEffect | None:
    if given is None or (isinstance(given, str) and given in tuple(RuleEffect)):
        return None if given is None else RuleEffect(given)
    raise InvalidRule(
        field, f"{given!r:.40} is no effect", "use allow, ask or deny; or leave it out for the tools' own approval"
    )


def _of_data(found: object, where: str) -> _Read:
    if not isinstance(found, Mapping):
        raise InvalidRule(where, f"it holds {type(found).__name__}, no object", "write the lists allow, ask and deny")
    _check_fields(where, found, _FIELDS)
    given = {name: [] if found.get(name) is None else found[name] for name in _FIELDS[:3]}
    allow, ask, deny = (_rules(name, rules, where) for name, rules in given.items())
    return allow, ask, deny, _default(f"{where}: default", found.get("default"))


def _check_fields(where: str, found: Mapping[Any, Any], known: Sequence[str]) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            fix = f"write {near[0]}" if near else f"use {', '.join(known)}; a pattern with a colon stands in quotes"
            raise InvalidRule(where, f"there is no field {name!r:.60}", fix)
