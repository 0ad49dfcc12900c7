"""One permission rule: a pattern, and the texts that people and the model read about it."""

from collections.abc import Sequence
from typing import Any

from holdfast.conversation.terms.approvers import Approvers, approvers_of, terms_of
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.terms.stages import OnTimeout
from holdfast.errors import ConfigurationError, InvalidRule
from holdfast.visible import without_hidden

from . import timeouts
from .patterns import BadPattern, Pattern, parsed
from .timeouts import Declared

__all__ = ["Rule", "RuleEffect"]

LONGEST_REASON = 500
LONGEST_NAME = 200


class Rule:
    """One rule.

    Args:
        pattern: The calls that it covers: `Bash(npm *)`.
        name: The rule's name for the model and the log; the pattern by default.
        reason: Why, for the model and for people; at most 500 characters.
        approvers: Who may approve, for a rule that asks: `Approvers`, or a list of roles and ids (`role:finance`,
            `id:ana@shop.example`). The tool's own approvers apply as well. None: this rule does not restrict it.
        on_timeout: What follows if nobody decides in time, for a rule that asks: `"error"`, `Deny(reason)`, `Answer(value)` if
            the tool takes one, or `Escalate(to, for_s=..., then=...)`. None: what the tool says.
        reminders_s: How many seconds before the end of each stage its approvers are reminded, as a list; with `on_timeout`.

    Each is an attribute, too; `pattern` is the parsed pattern. A pattern's error has a » at the place of the mistake.
    """

    __slots__ = ("_own_name", "_timeout", "approvers", "name", "on_timeout", "pattern", "reason")

    def __init__(
        self,
        pattern: str,
        *,
        name: str | None = None,
        reason: str = "",
        approvers: Approvers | Sequence[str] | None = None,
        on_timeout: Declared | None = None,
        reminders_s: Sequence[float] = (),
    ) -> None:
        if not isinstance(pattern, str):
            raise InvalidRule("pattern", f"{type(pattern).__name__} is not text", 'write it as a text: "Bash(npm *)"')
        try:
            self.pattern: Pattern = parsed(pattern)
        except BadPattern as error:
            raise InvalidRule("pattern", f"{_pointed(pattern, error.at)}: {error.problem}", "correct it at the »") from None
        self._own_name = None if name is None else _text("name", name, LONGEST_NAME, least=1)
        self.name: str = pattern if self._own_name is None else self._own_name
        self.reason: str = _text("reason", reason, LONGEST_REASON)
        self.approvers: Approvers | None = _approvers(approvers)
        self._timeout = on_timeout
        self.on_timeout: OnTimeout | None = _on_timeout(on_timeout, reminders_s)

    def __repr__(self) -> str:
        return f"Rule({self.pattern.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.pattern.text, self.name, self.reason, self.approvers, self.on_timeout))

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain JSON values, without what was left out."""
        found: dict[str, Any] = {"pattern": self.pattern.text}
        if self._own_name is not None:
            found["name"] = self._own_name
        if self.reason:
            found["reason"] = self.reason
        if self.approvers:
            found["approvers"] = self.approvers.to_data()
        if self._timeout is not None:
            found["on_timeout"] = timeouts.to_data(self._timeout)
        if self.on_timeout is not None and self.on_timeout.reminders_s:
            found["reminders_s"] = list(self.on_timeout.reminders_s)
        return found


def _text(field: str, given: object, longest: int, *, least: int = 0) -> str:
    if not isinstance(given, str) or not least <= len(given) <= longest:
        problem = f"{type(given).__name__} is not text" if not isinstance(given, str) else f"it has {len(given)} characters"
        raise InvalidRule(field, problem, f"give a text of {least} to {longest} characters")
    if without_hidden(given, lambda _: "", kept="\n" if least == 0 else "") != given:
        raise InvalidRule(field, f"{given!a:.60} does not show whole", "leave out invisible characters")
    return given


def _approvers(given: object) -> Approvers | None:
    if given is None:
        return None
    try:
        found = approvers_of(given, "approvers")
        _ = terms_of(found, "approvers")
    except ConfigurationError as error:
        raise InvalidRule(error.field, error.problem, error.fix) from None
    return found


def _on_timeout(given: Declared | None, reminders_s: object) -> OnTimeout | None:
    if given is None:
        if reminders_s != ():
            raise InvalidRule("reminders_s", "it says nothing of the deadline itself", "give on_timeout=, too")
        return None
    try:
        return timeouts.on_timeout_of(given, reminders_s, "")
    except ConfigurationError as error:
        raise InvalidRule(error.field.removeprefix("."), error.problem, error.fix) from None


def _pointed(pattern: str, at: int) -> str:
    """The pattern with a » at a place; a long one is cut to the part around it."""
    begin, end = max(at - 60, 0), at + 40
    before = ("…" if begin else "") + pattern[begin:at]
    return repr(f"{before}»{pattern[at:end]}{'…' if end < len(pattern) else ''}")
