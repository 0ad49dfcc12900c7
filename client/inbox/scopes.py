"""Scopes in forms, beside an approval: ready ones for the targets of the call, and fields for any other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.client import PendingCall
from holdfast.conversation import CallTarget, Grant, Level, Scope
from holdfast.conversation.terms.grants import tool_target
from holdfast.errors import InvalidDecision

from .form import Form

OWN = "own"
"""The form's name of the scope in its fields; a ready one is named by its number."""
LASTS: Mapping[str, tuple[str, int | None]] = {
    "15m": ("15 minutes", 900),
    "1h": ("an hour", 3600),
    "8h": ("8 hours", 28_800),
    "1d": ("a day", 86_400),
    "1w": ("a week", 604_800),
    "": ("until it is revoked", None),
}
"""How long a scope lasts: the text for people, and seconds; None: for the conversation, until revoked."""
_KINDS = ("tool", "path", "domain", "command")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_PLACES = {"scope.kind": "kind", "scope.pattern": "pattern", "scope.level": "level", "scope.ends_s": "lasts"}


@dataclass(slots=True)
class ScopeForm:
    """The form of a scope, with its problems.

    Attributes:
        ready: The scopes for one click: each covers one target of the call and nothing else.
        kind: The kind of targets, as typed; so are the following fields.
        pattern: The pattern for their values.
        level: The highest level.
        lasts: How long it lasts, a name of `LASTS`.
        everything: Whether the pattern may cover every value of its kind.
        chosen: The choice in the form; None if it was not sent.
        problems: The problems of fields, by the field's name.
    """

    ready: Sequence[tuple[CallTarget, Scope]]
    kind: str = ""
    pattern: str = ""
    level: str = Level.WRITE.value
    lasts: str = "1h"
    everything: bool = False
    chosen: str | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that are offered; others can be typed."""
        return list(dict.fromkeys((*(target.kind for target, _ in self.ready), *_KINDS)))

    def given(self, form: Form) -> Scope | None:
        """The scope in a form; None if something is wrong, which `problems` then says."""
        self.chosen, self.lasts = form.get("scope"), form.get("lasts")
        self.kind, self.pattern, self.level = form.get("kind"), form.get("pattern"), form.get("level")
        self.everything = form.get("everything") == "yes"
        if self.lasts not in LASTS:
            self.problems["lasts"] = "choose for how long"
            return None
        ends_s = LASTS[self.lasts][1]
        if self.chosen.isascii() and self.chosen.isdigit() and int(self.chosen[:9]) < len(self.ready):
            return replace(self.ready[int(self.chosen)][1], ends_s=ends_s)
        if self.chosen == "":  # Enter in a field
            return None
        if self.chosen != OWN:
            raise InvalidDecision("scope", f"there is no {self.chosen!r:.40}", "choose one that the form offers")
        try:
            return Scope(self.kind, self.pattern, level=self.level, ends_s=ends_s, everything=self.everything)
        except InvalidDecision as error:
            self._wrong(error)
            return None

    def _wrong(self, error: InvalidDecision) -> None:
        says = f"{error.problem}; {error.fix}"
        if error.field == "scope.pattern" and not self.everything and self._covers_everything():
            says = f"{error.problem}; name what may be touched, or mark the box below"
        self.problems[_PLACES.get(error.field, "pattern")] = says

    def _covers_everything(self) -> bool:
        try:
            Scope(self.kind, self.pattern, level=self.level, everything=True)
        except InvalidDecision:
            return False
        return True


def blank(call: PendingCall[Any]) -> ScopeForm:
    """The empty form of a call: its targets as ready scopes; the fields begin with the first one."""
    tool = tool_target(call.tool)
    whole = CallTarget(kind=tool.kind, value=tool.value, level=Level(tool.level))
    targets = [whole] if call.targets is None else call.targets
    ready = [(target, scope) for target in targets if (scope := _covering(target)) is not None]
    if not ready:
        return ScopeForm(())
    first = ready[0][1]
    return ScopeForm(ready, kind=first.kind, pattern=first.pattern, level=Level(first.level).value)


def _covering(target: CallTarget) -> Scope | None:
    try:
        scope = Scope(target.kind, _SPECIAL.sub(r"\\\g<0>", target.value), level=target.level)
    except InvalidDecision:
        return None
    return scope if Grant.of(scope, grant_id="g0", at=0, seq=0).covers(target) else None
