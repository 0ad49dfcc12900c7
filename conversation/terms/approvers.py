"""Who may decide a suspended call: the terms that a tool, a permission rule or a tool's body sets, and how they are met."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.record import Record
from holdfast.conversation.text.confusables import skeleton
from holdfast.errors import ConfigurationError
from holdfast.visible import shows_whole

from .principal import Principal, Proof

MOST_VOTES = 16
"""The most people that may have to agree."""
MOST_NAMES = 64
"""How many roles and ids one list may have."""
MOST_BYTES = 4096
"""How many bytes the names of one call's terms may have together: they are part of the conversation's state."""
LONGEST_LINE = 200
"""How many characters of a list of names are shown."""
_NAME = re.compile(r"(?:role|id):\S(?:.{0,198}\S)?")
_WHO = 'give Approvers("role:finance"), or a list ["role:finance", "id:ana"]'
_FIX = 'give "role:finance" or "id:ana@shop.example"'


@dataclass(frozen=True, slots=True, init=False)
class Approvers:
    """Who may decide, and how many must agree.

    The principal of a decision is compared with these. It counts if the server or a link has proven it; a merely stated
    principal (from code in the cluster, or the command line) counts only with `stated=True`. An anonymous caller never counts.

    Args:
        who: Roles and ids, at most 64: `role:finance`, `id:ana@shop.example`. Without any: every principal with an id.
        minimum: How many different people must agree, 1 to 16. One denial settles it.
        not_requester: Whether the sender of the message that led to the call is excluded. If the sender is unknown, nobody may
            decide; the sender must be proven too, unless `stated`.
        stated: Whether a principal that nobody has proven counts, too.

    Raises:
        ConfigurationError: A field cannot be used; the error names the field, the problem and the fix.
    """

    who: tuple[str, ...]
    minimum: int = field(default=1)
    not_requester: bool = field(default=False)
    stated: bool = field(default=False)

    def __init__(self, *who: str, minimum: int = 1, not_requester: bool = False, stated: bool = False) -> None:
        if isinstance(minimum, bool) or not isinstance(minimum, int) or not 1 <= minimum <= MOST_VOTES:
            raise ConfigurationError("approvers.minimum", f"{minimum!r:.40} is no number of people", f"give 1 to {MOST_VOTES}")
        for name, value in (("not_requester", not_requester), ("stated", stated)):
            if not isinstance(value, bool):
                raise ConfigurationError(f"approvers.{name}", f"{value!r:.40} is not a boolean", "give True or False")
        object.__setattr__(self, "who", checked_names(who))
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "not_requester", not_requester)
        object.__setattr__(self, "stated", stated)

    def __str__(self) -> str:
        """Who decides, in one line."""
        return said((self.who,) if self.who else (), self.minimum, not_requester=self.not_requester)

    def to_data(self) -> list[str] | dict[str, Any]:
        """The same as plain JSON values: the names, or an object if there is more to say."""
        if self.who and self == Approvers(*self.who):
            return list(self.who)
        found: dict[str, Any] = {"who": list(self.who)} if self.who else {}
        if self.minimum != 1:
            found["minimum"] = self.minimum
        flags = {"not_requester": self.not_requester, "stated": self.stated}
        return found | {name: True for name, value in flags.items() if value} or {"minimum": 1}

    @property
    def terms(self) -> "ApproverTerms":
        """The same as a record."""
        groups = (self.who,) if self.who else ()
        return ApproverTerms(who=groups, minimum=self.minimum, not_requester=self.not_requester, stated=self.stated)


def approvers_of(given: object, field: str) -> Approvers:
    """Approvers from a rules file or a caller: `Approvers`, a list of names, or an object with its arguments."""
    if isinstance(given, Approvers):
        return given
    if not isinstance(given, Mapping):
        return Approvers(*_named(given, field))
    unknown = set(given) - {"who", "minimum", "not_requester", "stated"}
    if unknown:
        problem = f"{min(map(str, unknown))!r:.60} is no part of it"
        raise ConfigurationError(field, problem, "use who, minimum, not_requester and stated")
    rest = {name: value for name, value in given.items() if name != "who"}
    return Approvers(*(_named(given["who"], field) if "who" in given else ()), **rest)


class ApproverTerms(Record):
    """The approvers of one call."""

    who: tuple[tuple[str, ...], ...] = Field(
        default=(),
        description="Lists of roles (`role:finance`) and ids (`id:ana`): a decider must be in each. Empty: anybody with an id.",
    )
    minimum: int = Field(default=1, ge=1, le=MOST_VOTES, description="How many different people must agree.")
    not_requester: bool = Field(
        default=False, description="Whether the sender of the message that led to the call is excluded."
    )
    stated: bool = Field(default=False, description="Whether an unproven principal counts, too.")
    each: bool = Field(default=False, description="Whether each call needs its own decisions, so that no grant replaces one.")

    @property
    def digest(self) -> str:
        """A short digest of these terms."""
        flags = f"{self.minimum},{self.not_requester},{self.stated}{',each' if self.each else ''}"
        return payload_digest("approvers", flags, *("\n".join(sorted(group)) for group in self.who))[:16]

    @property
    def fits(self) -> bool:
        """Whether the terms are small enough for a conversation's state."""
        return sum(len(name.encode("utf-8", "replace")) for group in self.who for name in group) <= MOST_BYTES

    def implies(self, other: "ApproverTerms") -> bool:
        """Whether fulfilling these terms also fulfils the others."""
        return (
            all(any(set(mine) <= set(theirs) for mine in self.who) for theirs in other.who)
            and self.minimum >= other.minimum
            and self.not_requester >= other.not_requester
            and self.stated <= other.stated
            and self.each >= other.each
        )

    @property
    def grantable(self) -> bool:
        """Whether a decision may stand for later calls: not if several must agree, or the requester matters."""
        return self.minimum == 1 and not self.not_requester and not self.each

    def instead_of(self, others: "ApproverTerms | None", *, strict: bool) -> "ApproverTerms":
        """These terms in the place of others: who asked stays excluded, and what needs its own decision still does.

        `strict`: as many must agree, too, and a stated principal counts only if it did before.
        """
        if others is None:
            return self
        kept: dict[str, int] = {"not_requester": self.not_requester or others.not_requester, "each": self.each or others.each}
        if strict:
            kept |= {"minimum": max(self.minimum, others.minimum), "stated": self.stated and others.stated}
        return self.model_copy(update=kept)

    def is_alone(self, principal: Principal) -> bool:
        """Whether a principal is the only possible decider, by its id."""
        return any(set(group) == {f"id:{principal.id}"} for group in self.who) and self.outsider(principal) is None

    def outsider(self, principal: Principal | None) -> str | None:
        """Why a principal is not among the approvers; None if it is."""
        if principal is None:
            return "nobody said who decides"
        if principal.proof is Proof.STATED and not self.stated:
            return f"{principal.id!r} is stated, not proven"
        mine = {f"id:{principal.id}", *(f"role:{role}" for role in principal.roles)}
        for group in self.who:
            if mine.isdisjoint(group):
                return f"{principal.id!r} is not one of {names(group)}"
        return None

    def problem(self, principal: Principal | None, requester: Principal | None) -> str | None:
        """Why a principal may not decide, None if it may; `requester` sent the message, None if unknown who did."""
        outside = self.outsider(principal)
        if outside is not None or not self.not_requester or principal is None:
            return outside
        if requester is None:
            return "nobody said who sent the message, so it cannot be told whether it was somebody else"
        if is_same(requester.id, principal.id):
            return f"{principal.id!r} sent the message that led to this call"
        if requester.proof is Proof.STATED and not self.stated:
            return f"{requester.id!r}, who sent the message, is stated, not proven: it may have been {principal.id!r}"
        return None


def is_same(one: str, other: str) -> bool:
    """Whether two ids may be one person's: they differ at most in case, width, accents or white space."""
    return _spelled(one) == _spelled(other)


def gave(giver: str, proven: Proof, by: str, proof: Proof | None) -> bool:
    """Whether a giver is the principal `by`, proven by `proof` (None: in any way).

    Ids are compared by `is_same`, but names of API keys exactly.
    """
    return proof in (None, proven) and (giver == by if proof is Proof.KEY else is_same(giver, by))


def _spelled(name: str) -> str:
    return " ".join(skeleton(name).split())


def joined(first: ApproverTerms | None, second: ApproverTerms | None) -> ApproverTerms | None:
    """Terms that are fulfilled only if both are; None if both are None."""
    if first is None or second is None or first == second:
        return first or second
    return ApproverTerms(
        who=tuple(dict.fromkeys((*first.who, *second.who))),
        minimum=max(first.minimum, second.minimum),
        not_requester=first.not_requester or second.not_requester,
        stated=first.stated and second.stated,
        each=first.each or second.each,
    )


def with_fulfilled(before: Sequence[ApproverTerms], terms: ApproverTerms) -> tuple[ApproverTerms, ...]:
    """The fulfilled terms with `terms` added. Implied ones are dropped, and the oldest if all are too long together."""
    if any(one.implies(terms) for one in before):
        return tuple(before)
    found = (*(one for one in before if not terms.implies(one)), terms)
    while len(found) > 1 and not ApproverTerms(who=tuple(group for one in found for group in one.who)).fits:
        found = found[1:]  # these approvers are asked again
    return found


def terms_of(given: object, field: str) -> ApproverTerms:
    """Approvers, or a list of roles and ids, as the log keeps them."""
    if not isinstance(given, Approvers) and (isinstance(given, str) or not isinstance(given, Sequence)):
        raise ConfigurationError(field, f"{given!r:.60} does not say who", _WHO)
    try:
        terms = approvers_of(given, field).terms
    except ConfigurationError as error:
        raise ConfigurationError(field, error.problem, error.fix) from None
    if not terms.fits:
        raise ConfigurationError(field, f"the names have more than {MOST_BYTES} bytes", "name a role instead")
    return terms


def _named(given: object, field: str) -> tuple[str, ...]:
    """The names of a list. An empty list is refused, since it was meant to name somebody and would mean everybody."""
    found = checked_names(given)
    if not found:
        raise ConfigurationError(field, "it names nobody", f"{_FIX}, or Approvers() for everybody who is known")
    return found


def checked_names(given: object) -> tuple[str, ...]:
    """The roles and ids, each checked, without repetitions."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigurationError("approvers", f"{given!r:.60} is no list", 'give a list: ["role:finance", "id:ana"]')
    for one in given:
        if not isinstance(one, str) or not _NAME.fullmatch(one) or not shows_whole(one):
            raise ConfigurationError("approvers", f"{one!a:.60} is no role or id, or has invisible characters", _FIX)
    if len(given) > MOST_NAMES:
        raise ConfigurationError("approvers", f"there are {len(given)}", f"give {MOST_NAMES} at most, or a role")
    return tuple(dict.fromkeys(given))


def said(groups: Iterable[Iterable[str]], minimum: int, *, not_requester: bool) -> str:
    """Who decides, in one line: names, and the number of people if more than one must agree."""
    who = " and of ".join(names(group) for group in groups) or "anybody who is known"
    count = f"{minimum} of " if minimum > 1 else ""
    return f"{count}{who}{', but not who asked' if not_requester else ''}"


def names(group: Iterable[str]) -> str:
    """A bounded line of names."""
    text = ", ".join(group)
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1]}…"
