"""Grants: an approver's permissions for later calls of a conversation to run without asking, by the calls' targets.

A call's targets are what it touches. A grant covers a target of its own kind, up to its own level, whose value certainly
matches its pattern. A call runs by grants only if they cover all of its targets, and each target is in its canonical form.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from holdfast.conversation.ids import TOOL_NAME
from holdfast.conversation.record import Record
from holdfast.conversation.text.confusables import is_plain
from holdfast.conversation.text.glob import BadGlob, Glob
from holdfast.conversation.text.jsontext import size_bytes
from holdfast.conversation.text.matching import (
    Matcher,
    is_domain,
    is_domain_glob,
    is_plain_command,
    is_settled_path,
    is_settled_word,
)
from holdfast.conversation.text.regex import BadRegex
from holdfast.errors import ConfigurationError, InvalidDecision, InvalidInput

from .approvers import ApproverTerms
from .principal import Principal
from .stages import LONGEST_S

MOST_GRANTS = 64
"""How many grants a conversation may have at a time."""
MOST_TARGETS = 8
"""How many targets a call may have; no grant covers a call with more."""
LONGEST_VALUE = 256
"""The longest value of a target, or pattern of a grant, in bytes of UTF-8."""
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TOOL_GLOB = re.compile(r"[a-zA-Z0-9_*-]{1,64}")
_ALL = frozenset({"*", "**"})


class Level(StrEnum):
    """How much a call does with a target, or a grant allows; each level includes those before it."""

    READ = "read"  # it looks at the target
    WRITE = "write"  # it changes the target
    EXECUTE = "execute"  # it runs the target, or has an irreversible effect
    ADMIN = "admin"  # it changes who may do what with the target

    def includes(self, other: "Level") -> bool:
        """Whether this level includes the other one."""
        order = tuple(Level)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Target:
    """A thing that a call touches.

    Args:
        kind: `tool`, `path`, `domain`, `command`, or a name of one's own (`[a-z][a-z0-9_-]{0,31}`): `account`.
        value: The name of the thing, 1 to 256 bytes. Paths are absolute or relative, without `..`; domains are small ASCII
            letters, without a dot at the end; a command is one command with its words.
        level: How much the call does with it: `read`, `write`, `execute` or `admin`.

    Raises:
        ConfigurationError: The kind, value or level cannot be used; the error names the field, the problem and the fix.
    """

    kind: str
    value: str
    level: Level | str = field(default=Level.EXECUTE)

    def __post_init__(self) -> None:
        _check_kind("target.kind", self.kind, ConfigurationError)
        _check_text("target.value", self.value, ConfigurationError)
        object.__setattr__(self, "level", _level("target.level", self.level, ConfigurationError))

    @property
    def is_canonical(self) -> bool:
        """Whether the value has only one reading; no grant covers a target with an ambiguous value."""
        return _is_canonical(self.kind, self.value)


class CallTarget(Record):
    """A target of a call, as the log keeps it."""

    kind: str = Field(description="`tool`, `path`, `domain`, `command`, or a name of the app's own.")
    value: str = Field(description="The name of what is touched.")
    level: Level = Field(default=Level.EXECUTE, description="How much the call does with it.")

    @property
    def is_canonical(self) -> bool:
        """Whether the value has only one reading, as in `Target`."""
        return _is_canonical(self.kind, self.value)


class ScopeGiven(Record):
    """A scope as a command carries it."""

    kind: str
    pattern: str
    level: Level
    ends_s: float | None = None
    everything: bool = False

    @classmethod
    def of(cls, scope: "Scope") -> "ScopeGiven":
        """The record of a scope."""
        return cls(
            kind=scope.kind, pattern=scope.pattern, level=Level(scope.level), ends_s=scope.ends_s, everything=scope.everything
        )

    @property
    def scope(self) -> "Scope":
        """The scope, checked anew."""
        return Scope(self.kind, self.pattern, level=self.level, ends_s=self.ends_s, everything=self.everything)


def tool_target(tool: str) -> Target:
    """The only target of a call whose tool declares none: the tool itself."""
    return Target("tool", tool, Level.EXECUTE)


@dataclass(frozen=True, slots=True)
class Scope:
    """The calls that an approver lets run without asking from now on, beyond the call that is decided.

    Raises:
        InvalidDecision: A field cannot be used; the error names the field, the problem and the fix.
    """

    kind: Annotated[str, Field(description="The kind of targets: `tool`, `path`, `domain`, `command` or one of your own.")]
    pattern: Annotated[str, Field(description="A glob over their values, 1 to 256 bytes: `src/**`, `*.example.com`, `npm *`.")]
    level: Annotated[
        Level | str,
        Field(description="The highest level allowed: `read`, `write`, `execute` or `admin`; each includes those before it."),
    ] = field(kw_only=True)
    ends_s: Annotated[
        float | None,
        Field(
            description="The seconds until it ends, at most ten years; None: it ends with the conversation, or when revoked."
        ),
    ] = field(default=None, kw_only=True)
    everything: Annotated[
        bool,
        Field(description="Whether the pattern may cover every value of its kind; a pattern that does is refused without it."),
    ] = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        _check_kind("scope.kind", self.kind, InvalidDecision)
        object.__setattr__(self, "level", _level("scope.level", self.level, InvalidDecision))
        if not isinstance(self.everything, bool):
            raise InvalidDecision("scope.everything", f"{self.everything!r:.40} is not a boolean", "give True or False")
        _check_text("scope.pattern", self.pattern, InvalidDecision)
        if not self.everything and _covers_everything(self.pattern):
            problem = f"{self.pattern!r} covers every {self.kind}"
            raise InvalidDecision("scope.pattern", problem, "name what may be touched; or say everything=True on purpose")
        if wrong := _pattern_problem(self.kind, self.pattern):
            raise InvalidDecision("scope.pattern", f"{self.pattern!r:.80} {wrong[0]}", wrong[1])
        _check_end(self.ends_s)


class Grant(Record):
    """A scope in force, as a conversation keeps it."""

    grant_id: str = Field(description="Its id in the conversation.")
    kind: str = Field(description="The kind of targets that it covers.")
    pattern: str = Field(description="The glob over their values.")
    level: Level = Field(description="The highest level that it allows.")
    ends_at: int | None = Field(
        default=None, description="In integer milliseconds UTC; None: it ends with the conversation, or when revoked."
    )
    by: Principal | None = Field(default=None, description="Who gave it; None if unknown.")
    seq: int = Field(description="The place in the log of the decision that gave it.")
    approvers: str = Field(
        default="",
        description="The digest of the approvers of the call that it was given with; empty: anybody could decide it.",
    )

    @classmethod
    def of(
        cls, scope: Scope, *, grant_id: str, at: int, seq: int, by: Principal | None = None, terms: ApproverTerms | None = None
    ) -> "Grant":
        """The grant of a scope that is given at `at` (in integer ms UTC) under the terms of the decided call."""
        ends_at = None if scope.ends_s is None else at + math.ceil(scope.ends_s * 1000)
        return cls(
            grant_id=grant_id,
            kind=scope.kind,
            pattern=scope.pattern,
            level=Level(scope.level),
            ends_at=ends_at,
            by=by,
            seq=seq,
            approvers="" if terms is None else terms.digest,
        )

    def is_active(self, at: int) -> bool:
        """Whether the grant has not ended at `at`, in integer milliseconds UTC."""
        return self.ends_at is None or at < self.ends_at

    def may_stand_for(self, terms: ApproverTerms | None) -> bool:
        """Whether the grant may let calls with these terms run: its giver fulfilled the same terms."""
        return terms is None or (terms.grantable and self.approvers == terms.digest)

    def covers(self, target: "Target | CallTarget") -> bool:
        """Whether the grant covers a target; its end is not checked."""
        if self.kind != target.kind or not self.level.includes(Level(target.level)) or not target.is_canonical:
            return False
        if self.pattern in _ALL:
            return True
        matcher = _matcher(self.pattern)
        return matcher is not None and matcher.covers(target.value)


def covering(
    grants: Sequence[Grant], targets: Sequence[Target | CallTarget], *, at: int, approvers: ApproverTerms | None = None
) -> tuple[Grant, ...] | None:
    """The grants by which a call with these targets may run at `at` (ms UTC), each once; None if they do not cover all targets.

    Only grants by approvers of the call count; for each target, the first one that covers it is taken. The target of a call
    whose tool names none is `tool_target`.
    """
    if not 1 <= len(targets) <= MOST_TARGETS:
        return None
    standing = [grant for grant in grants if grant.is_active(at) and grant.may_stand_for(approvers)]
    found: dict[str, Grant] = {}
    for target in targets:
        grant = next((one for one in standing if one.covers(target)), None)
        if grant is None:
            return None
        found[grant.grant_id] = grant
    return tuple(found.values())


def _is_canonical(kind: str, value: str) -> bool:
    match kind:
        case "tool":
            return TOOL_NAME.fullmatch(value) is not None
        case "path":
            return is_plain(value) and re.search(r"[\\%:]", value) is None and is_settled_path(value)
        case "domain":
            return is_domain(value)
        case "command":
            return is_plain_command(value)
        case _:
            return is_plain(value) and is_settled_word(value) and re.search(r"[\\%]", value) is None


def _covers_everything(pattern: str) -> bool:
    """Whether a pattern covers practically every value: it has no letter and no digit."""
    return not any(char.isalnum() for char in pattern)


def _pattern_problem(kind: str, pattern: str) -> tuple[str, str] | None:
    """The problem of a pattern and its fix; None if it can cover a value in its canonical form."""
    try:
        glob = Glob.of(pattern)
        Matcher(glob)
    except BadGlob as error:
        return f"is no pattern: {error.problem} (at character {error.at + 1})", "use letters and *"
    except BadRegex as error:
        return f"cannot be used: {error}", "write it shorter"
    if pattern in _ALL:
        return None
    said = glob.said.replace("*", "x")
    match kind:
        case "tool" if not _TOOL_GLOB.fullmatch(pattern):
            return "is no tool's name", "use letters, digits, underscores, hyphens and *"
        case "path" if not _is_canonical(kind, said):
            return "is no path in its canonical form", "write it without .., without // and without a slash at its end"
        case "domain" if not (is_domain_glob(glob) and (glob.stars or is_domain(pattern))):
            return "is no domain", "write example.com, or *.example.com for those below it; small letters, xn-- for others"
        case "command" if not is_plain_command(said):
            return "is more than one command", "write one command without what a shell expands or joins: npm *"
        case _ if not _is_canonical(kind, said):
            return "can be read in more than one way", "write it plainly, without spaces around it"
        case _:
            return None


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> Matcher | None:
    try:
        return Matcher(Glob.of(pattern))
    except (BadGlob, BadRegex):
        return None


def _check_kind(name: str, kind: object, error: type[InvalidInput]) -> None:
    if not (isinstance(kind, str) and _KIND.fullmatch(kind)):
        fix = "use tool, path, domain, command, or a name of yours: small letters, digits, _ and -, at most 32"
        raise error(name, f"{kind!r:.40} is no kind of target", fix)


def _check_text(name: str, text: object, error: type[InvalidInput]) -> None:
    if not isinstance(text, str):
        raise error(name, f"{type(text).__name__} is not text", "give a string")
    if not 1 <= size_bytes(text) <= LONGEST_VALUE:
        problem = "it is empty" if text == "" else f"it has {size_bytes(text)} bytes"
        raise error(name, problem, f"give 1 to {LONGEST_VALUE} bytes")
    if not text.isprintable():
        raise error(name, f"{text!a:.80} does not show whole", "leave out invisible characters and line breaks")


def _level(name: str, level: object, error: type[InvalidInput]) -> Level:
    if isinstance(level, str) and level in tuple(Level):
        return Level(level)
    raise error(name, f"{level!r:.40} is no level", f"use one of {', '.join(Level)}")


def _check_end(ends_s: object) -> None:
    if ends_s is None:
        return
    if isinstance(ends_s, bool) or not isinstance(ends_s, int | float) or not 0 < ends_s <= LONGEST_S:
        problem = f"{ends_s!r:.40} is no length of time"
        raise InvalidDecision("scope.ends_s", problem, f"give seconds above 0, at most {LONGEST_S}, or leave it out")
