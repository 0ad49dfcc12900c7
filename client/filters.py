"""The filters of lists, each declared once.

From a declaration come the check of the argument of the client's method, the field of the server's query with its place in the
description of the API, the option of the command line, and the control of the list's page. It also says how the filter is
answered: by an index of the store, or by a look at each row. The argument itself is written in the method, for its type.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import EnumMeta
from functools import partial
from typing import Any, Literal

from pydantic import Field

from holdfast.conversation import Principal, Proof, Status, SuspensionKind
from holdfast.conversation.ids import check_conversation_id
from holdfast.errors import InvalidInput
from holdfast.persistence import Listing

from . import operation as of
from .operation import Checks
from .results import PendingCall

MOST_PAGES = 20
"""The most pages without a wanted row that one read skips."""
ROLES_BETWEEN = ","
AGES = {"15m": 900, "1h": 3600, "1d": 86_400, "1w": 604_800}
"""The choices of the filter by age: their names, and the minimum waiting time in seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """One filter of a list.

    Attributes:
        name: The name of the argument, of the query's field, of the option and of the control.
        type: The type of a value in a query; a text may have `most` characters.
        says: What it selects.
        check: Checks an argument and returns the value to pass on; None: only pages have the filter.
        by_index: Whether the store answers it by an index; if not, rows are looked at.
        roughly: Whether the index also gives unwanted rows, so that rows are looked at, too.
        keeps: Whether a row fits this value; by default, whether its attribute of the filter's name equals the value.
        label: The control's text while nothing is chosen; empty: the list's page has no control.
        choices: The values that may be chosen, each with its text for people; by default an enumeration's members.
        at: Turns a value at a time (ms UTC) into the one that `keeps` takes; None: it is the same at any time.
    """

    name: str
    type: Any
    says: str
    check: Callable[[Any], Any] | None = None
    by_index: bool = False
    roughly: bool = False
    keeps: Callable[[Any, Any], bool] | None = None
    label: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    at: Callable[[Any, int], Any] | None = None
    most: int = 200

    @property
    def values(self) -> Mapping[str, str]:
        """The values that may be chosen, each with its text for people; empty if any text or number may be given."""
        members: Sequence[Any] = list(self.type) if isinstance(self.type, EnumMeta) else ()
        return self.choices or {str(one): str(one).replace("_", " ") for one in members}

    def wants(self, row: Any, value: Any, now: int = 0) -> bool:
        """Whether a row with this value is wanted; `now` (ms UTC) counts where `at` is given."""
        value = value if self.at is None else self.at(value, now)
        return bool(getattr(row, self.name) == value if self.keeps is None else self.keeps(row, value))


def _decider_of(approver: object) -> Principal:
    """The principal whose calls are asked for, checked. A list needs no proof, so its id and roles count as proven."""
    try:
        return replace(of.principal_of(approver), proof=Proof.KEY)
    except InvalidInput as error:
        raise InvalidInput("approver", error.problem, 'give a principal: Principal("ana", roles=("finance",))') from None


def _holds(call: PendingCall[Any], words: str) -> bool:
    """Whether all words occur in what a person sees of a call."""
    named = (call.tool, call.agent, call.conversation_id, call.title or "", call.prompt or "", call.suspension_id)
    text = " ".join(named).lower()
    missing = [word for word in words.lower().split() if word not in text]
    if not missing:
        return True
    begins = " ".join(cut.begins for cut in call.cut.values())  # of long texts only the part in the list is searched
    inside = f"{call.arguments} {call.report_md or ''} {call.payload} {begins}".lower()
    return all(word in inside for word in missing)


_AGENT = Filter("agent", str, "Only conversations with this agent.", of.agent_of, by_index=True, label="any agent")
_KIND = partial(of.member_of, SuspensionKind, "kind")
_WAITS = Filter(
    "kind", SuspensionKind, "Only calls that wait for this kind of decision.", _KIND, by_index=True, label="any kind"
)
_STATUSES = {one.value: one.value.replace("_", " ") for one in Status if one is not Status.ABSENT}

CALLS = (
    Filter("q", str, "Words that all stand in the call.", keeps=_holds),
    replace(_AGENT, says="Only calls of this agent's conversations."),
    Filter("tool", str, "Only calls of this tool.", of.tool_of, by_index=True, label="any tool"),
    _WAITS,
    Filter(
        "older",
        Literal["15m", "1h", "1d", "1w"],
        "Only calls that have waited at least this long.",
        keeps=lambda call, since: call.created_at <= since,
        label="any age",
        choices={age: f"older than {age}" for age in AGES},
        at=lambda age, now: now - AGES[age] * 1000,
    ),
    Filter(
        "approver",
        str,
        "Only calls that this principal may decide, by its id and roles.",
        of.optional(_decider_of),
        by_index=True,
        roughly=True,
        keeps=lambda view, who: view.approvers is None or view.approvers.problem(who, view.requester) is None,
    ),
    Filter(
        "older_than_s",
        float,
        "Only calls that have waited for so many seconds.",
        of.span_of("older_than_s"),
        by_index=True,
        keeps=lambda call, since: call.created_at <= since,
        at=lambda seconds, now: now - seconds * 1000,
    ),
    Filter(
        "expires_within_s",
        float,
        "Only calls whose deadline is at most so many seconds away. Those that expire first come first.",
        of.span_of("expires_within_s"),
        by_index=True,
        keeps=lambda call, until: call.expires_at is not None and call.expires_at <= until,
        at=lambda seconds, now: now + seconds * 1000,
    ),
    Filter(
        "root",
        str,
        "Only calls of this conversation and of those below it, which it has delegated to.",
        of.optional(check_conversation_id),
        by_index=True,
        keeps=lambda call, root: root in (call.conversation_id, *(one.conversation_id for one in call.path)),
    ),
)
"""The filters of the list of pending calls. In a query, `approver` is an id, and `roles` beside it has the roles."""
USED = (
    Filter(
        "status",
        Status,
        "Only conversations with this status.",
        partial(of.member_of, Status, "status"),
        by_index=True,
        label="any status",
        choices=_STATUSES,
    ),
    _AGENT,
)
"""The filters of the conversations whose use is summed up."""
CONVERSATIONS = (
    *USED,
    Filter("stopped", bool, "Only conversations whose last turn was stopped, or its reply cut off.", of.flag_of, by_index=True),
)
GIVEN = (
    Filter("by", str, "Only what this principal has given, by its id.", of.optional(of.giver_of)),
    Filter("proof", Proof, "Only what was given by somebody proven in this way.", partial(of.member_of, Proof, "proof")),
)
"""The filters of what people have given; `given_page` applies them to the states of conversations."""
EVENTS = (replace(_AGENT, check=of.agents_of), _WAITS)
"""The filters of the changes of lists. A caller of the client's method may name several agents."""


def checks_of(filters: Sequence[Filter]) -> Checks:
    """The checks of the arguments for these filters."""
    return {one.name: one.check for one in filters if one.check is not None}


def fields_of(filters: Sequence[Filter]) -> dict[str, Any]:
    """The fields of a query's model for these filters."""
    return {
        one.name: (one.type | None, Field(default=None, description=one.says, max_length=one.most if one.type is str else None))
        for one in filters
    }


async def filtered(
    read: Callable[..., Awaitable[Listing]], filters: Sequence[Filter], *, limit: int, after: str | None, **given: Any
) -> Listing:
    """A page of a list: `read` answers filters by an index; for others the rows of at most `MOST_PAGES` pages are looked at."""
    asked = [(one, given[one.name]) for one in filters if given.get(one.name) is not None]
    by_index = {one.name: value for one, value in asked if one.by_index}
    by_row = [(one, value) for one, value in asked if one.roughly or not one.by_index]
    found = list[Any]()
    for _ in range(MOST_PAGES):
        page = await read(limit=limit - len(found), after=after, **by_index)
        found += [row for row in page.items if all(one.wants(row, value) for one, value in by_row)]
        after = page.next
        if after is None or len(found) >= limit or not (by_row or not found):
            break
    return Listing(found, after)


def asked_for(who: Principal | None) -> dict[str, str]:
    """The fields of a query for a principal's calls; none without a principal. A role with a comma raises `InvalidInput`."""
    if who is None:
        return {}
    if any(ROLES_BETWEEN in role for role in who.roles):
        raise InvalidInput("approver", "over HTTP no role has a comma", "leave that role out")
    return {"approver": who.id} | ({"roles": ROLES_BETWEEN.join(who.roles)} if who.roles else {})


def asked_of(approver: str | None, roles: str | None) -> Principal | None:
    """The principal that the fields of a query name; `InvalidInput` for a bad name, or roles without a principal."""
    if approver is None:
        if roles is not None:
            raise InvalidInput("roles", "they need an approver", "give approver, too")
        return None
    try:
        return Principal(approver, roles=tuple(roles.split(ROLES_BETWEEN)) if roles else (), proof=Proof.KEY).check_visible()
    except InvalidInput as error:
        raise InvalidInput("roles" if "roles" in error.field else "approver", error.problem, error.fix) from None
