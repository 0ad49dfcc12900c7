"""The terminal's texts about pending calls and pauses: a call's kind, who may decide it, and the commands that people copy."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from holdfast.client import AsyncClient, Pause
from holdfast.client.results import PendingCall
from holdfast.conversation import Receipt, SuspensionKind
from holdfast.conversation.terms.approvers import said
from holdfast.conversation.terms.decisions import BY_KIND, DecisionKind, accepted
from holdfast.conversation.terms.spec import Choice
from holdfast.errors import CorruptStore

from .display import clean, clean_block, shorten, span
from .options import Where, words_of

REASON_LENGTH = 200
MOST_COMMENTS = 5
"""The most recent comments in the list of pending calls; `holdfast show` has all of them."""
_WORDS = {DecisionKind.APPROVE: (), DecisionKind.ANSWER: ("JSON",), DecisionKind.REVIEW: ("VERDICT", "--notes", "TEXT")}
"""The words after a decision's option, if they are not the names of the decision's fields."""

_FLAGS: Mapping[DecisionKind | Choice, tuple[str, ...]] = {
    **{
        kind: (f"--{kind.value}", *_WORDS.get(kind, [one.name.upper() for one in fields(BY_KIND[kind]) if not one.kw_only]))
        for kind in DecisionKind
    },
    Choice.EDIT: ("--approve", "--arguments", "JSON"),
}
"""The options for each word of `PendingCall.decisions`."""
_ON_TRUST = frozenset[DecisionKind | Choice]({DecisionKind.APPROVE, DecisionKind.REDISPATCH, DecisionKind.REVIEW})
"""The decisions that let a call go on as it was shown."""
_NOT_UNSEEN = _ON_TRUST | {Choice.EDIT}
_AFFIRMATIVE_FIRST: list[DecisionKind | Choice] = [
    *(DecisionKind.APPROVE, Choice.EDIT, DecisionKind.ANSWER, DecisionKind.DENY, DecisionKind.CANCEL),
]
_USUAL = (Choice.APPROVE, Choice.EDIT, Choice.DENY)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The title, color and frame of a kind; its question, about a `tool` and an `action`; and the options that resolve it."""

    title: str
    color: str
    frame: str
    asks: str = ""
    takes: str = ""


KINDS: Mapping[SuspensionKind | None, Drawn] = {
    SuspensionKind.APPROVAL: Drawn(
        *("Approval", "yellow", "HEAVY", "May {tool} run with these arguments?"),
        "An approval takes --approve, --approve --arguments JSON (edited), or --deny REASON.",
    ),
    SuspensionKind.ELICITATION: Drawn(
        *("Question", "cyan", "ROUNDED", "A person is asked; the answer is the call's result."),
        "A question takes --answer JSON (text in double quotes), --ask (one by one), or --deny REASON.",
    ),
    SuspensionKind.CLIENT_EXEC: Drawn(
        *("For the client", "magenta", "DOUBLE", "A client is to run this; its answer counts as untrusted."),
        "A client's call takes --answer JSON, or --fail ERROR.",
    ),
    SuspensionKind.LOST: Drawn(
        *("Lost", "red", "HEAVY"),
        "Find out whether {tool} took effect with these arguments: run it again, or give its outcome.",
        "A lost run takes --redispatch (run it again), --answer JSON (what it returned), or --fail ERROR.",
    ),
    SuspensionKind.REVIEW: Drawn(
        *("Review", "blue", "HEAVY", "{tool} asks for a review before it goes on: {action}."),
        "A review takes --review allow, block or review (revise and ask again), with --notes TEXT.",
    ),
    SuspensionKind.LIMIT: Drawn(
        *("Limit", "yellow", "HEAVY", "May the turn go on for as much again? Otherwise it ends with what was said so far."),
        "A turn at its limit takes --approve (it goes on for as much again), or --deny REASON (it ends).",
    ),
    None: Drawn("Unreadable", "red", "SQUARE"),
}
"""The key None is for a call of unreadable kind."""


def command(words: Sequence[str], where: Where) -> str:
    """A `holdfast` command with the options that lead to the same conversations, quoted for a shell."""
    return shlex.join(["holdfast", *words, *where.words()])


def more(name: str, filters: Mapping[str, Any], after: str, where: Where) -> str:
    """The line that continues a list: the same command with the same filters, after a cursor."""
    words = words_of({f"--{option.replace('_', '-')}": value for option, value in {**filters, "after": after}.items()})
    return f"\nThere are more: {command([name, *words], where)}\n"


def resolving(call: PendingCall[Any], where: Where, *, whole: bool = True) -> list[str]:
    """The commands that resolve a call, the affirmative one first; a person replaces the words in capitals.

    For a call that is unreadable or not shown whole, only commands that do not let it run; empty if its ids are not known.
    """
    ids = (call.conversation_id, call.tool_call_id, call.suspension_id)
    if call.kind is None or any(not known or clean(known) != known for known in ids) or call.suspension_id.startswith("-"):
        return []
    seen = whole and call.problem is None and not call.cut
    return [_resolve(call, _FLAGS[one], where) for one in taken(call) if seen or one not in _NOT_UNSEEN]


def taken(call: PendingCall[Any]) -> list[DecisionKind | Choice]:
    """The decisions that a call takes and this command line can express; those usual for its kind, if the server names none."""
    words = call.decisions
    if not words and call.kind is not None:
        usual = accepted(call.kind, _USUAL, with_schema=call.response_schema is not None)
        words = (*_USUAL, DecisionKind.CANCEL) if call.kind is SuspensionKind.APPROVAL else usual
    found = [one for word in words for one in _FLAGS if one == word]
    if call.kind is not SuspensionKind.APPROVAL:
        return found
    return [*(one for one in _AFFIRMATIVE_FIRST if one in found), *(one for one in found if one not in _AFFIRMATIVE_FIRST)]


def next_step(call: PendingCall[Any], where: Where, *, whole: bool) -> str | None:
    """The next step for a listed call: the first command that resolves it, None without one.

    If the list does not show the whole call, the step is to look at it, not the command that lets it run.
    """
    commands = resolving(call, where)
    if not commands:
        return None
    if not (whole and not call.cut) and call.problem is None and taken(call)[0] in _ON_TRUST:
        return f"not all of it is shown here; look first: {command(['show', call.conversation_id], where)}"
    return commands[0]


def _resolve(call: PendingCall[Any], flag: tuple[str, ...], where: Where) -> str:
    if call.questions is not None and flag == _FLAGS[DecisionKind.ANSWER]:
        flag = ("--ask",)
    return command(["resolve", call.suspension_id, "--conversation", call.conversation_id, *flag], where)


def granted(grant_ids: Sequence[str]) -> str:
    """The grants by which a call goes on."""
    return f"grant{'s' if len(grant_ids) > 1 else ''} {', '.join(map(clean, grant_ids))}"


def touching(call: PendingCall[Any]) -> str:
    """The targets of a call, which a scope has to cover; empty if its tool declares none."""
    if call.targets is None or call.kind is not SuspensionKind.APPROVAL:
        return ""
    if not call.targets:
        return "What it touches cannot be told, and no grant covers it."
    return f"It touches {', '.join(clean(f'{one.kind} {one.value} ({one.level.value})') for one in call.targets)}."


def below(call: PendingCall[Any]) -> str:
    """The conversations above the call's own, the root first; empty if none is."""
    above = " → ".join(f"{clean(one.conversation_id)} ({clean(one.agent)})" for one in call.path)
    return f"below {above}" if above else ""


def asked_by(call: PendingCall[Any]) -> str:
    """The permission rule that asks for an approval of the call, and why; empty without one."""
    reason = clean(call.rule_reason)
    if not call.rule:
        return f"asked because {reason}" if reason else ""
    return f"asked by the rule {clean(call.rule)}{': ' if reason else ''}{reason}"


def lines_of(call: PendingCall[Any], now: int, *, comments: int | None = None) -> list[str]:
    """The lines about a call's approvers, votes, client, assignee, comments and escalation, and from whose lists it is hidden.

    There are none if anybody may decide and nobody did any of this. `now` is the store's time in milliseconds UTC. `comments`
    is how many of the last comments are shown; None: all.
    """
    found = []
    terms = call.approvers
    if terms is not None:
        found.append(f"may be decided by {clean(said(terms.who, terms.minimum, not_requester=terms.not_requester))}")
        if terms.not_requester:
            asker = "it is unknown who asked, so nobody may" if call.requester is None else f"{clean(call.requester.id)} asked"
            found[-1] += f" ({asker})"
        if not terms.stated:
            found.append("the decider must prove who they are: use --url, with a key or a token in HOLDFAST_TOKEN")
        if terms.minimum > 1:
            found.append(agreed(len(call.votes), terms.minimum, ", ".join(clean(vote.by.id) for vote in call.votes)))
    if call.claimed is not None:
        of = "" if call.claimed.by is None else f" of {clean(call.claimed.by.id)}"
        found.append(f"claimed by the client {clean(call.claimed.client_id)}{of} {span(now - call.claimed.at)} ago")
    if call.escalated_at is not None:
        found.append(f"escalated to them {span(now - call.escalated_at)} ago")
    if call.assigned:
        found.append(f"taken on by {clean(call.assigned)}")
    snoozed = ((mark.partition(":")[2], until) for mark, until in call.snoozed.items() if until > now)
    hidden = [f"{clean(who)} (hidden for {span(until - now)} more)" for who, until in snoozed]
    if hidden:
        found.append(f"not now: {', '.join(hidden)}")
    shown = call.comments if comments is None else call.comments[-comments:]
    if left_out := len(call.comments) - len(shown):
        found.append(f"{left_out} earlier comments are not shown")
    for one in shown:
        author = "somebody" if one.by is None else clean(one.by.id)
        text = clean_block(one.text) if comments is None else clean(one.text)
        found.append(f"{author}: {text}")
    return found


def agreed(votes: int, needed: int, who: str = "") -> str:
    """The number of votes, and the voters."""
    return f"{votes} of {needed} people {'has' if votes == 1 else 'have'} agreed{': ' if who else ''}{who}"


def outcome(receipt: Receipt) -> str:
    """The votes in a receipt; empty if one vote is enough."""
    if not receipt.needed or receipt.settled:
        return ""
    return f"{agreed(receipt.votes, receipt.needed)}: the call still waits"


def whose(agent: str | None) -> str:
    """The text for an agent, or for the whole namespace."""
    return "the namespace" if agent is None else f"agent {clean(agent)}"


def paused(pause: Pause, now: int) -> str:
    """The text of a pause, on one line and without a full stop; `now` is the store's time in milliseconds UTC."""
    reason = f": {shorten(clean(pause.reason), REASON_LENGTH)}" if pause.reason else ""
    return f"New work of {whose(pause.agent)} has been paused for {span(now - pause.since)} by {clean(pause.by)}{reason}"


async def standing(client: AsyncClient) -> list[Pause]:
    """The current pauses; empty if they cannot be read, so that a list does not fail: `holdfast doctor` reports it."""
    try:
        return await client.paused()
    except CorruptStore:
        return []


def notice(pauses: Sequence[Pause], now: int) -> str:
    """The line about the current pauses, with its line end; '' without pauses."""
    if not pauses:
        return ""
    more = f" (and {len(pauses) - 1} more; see `holdfast doctor`)" if len(pauses) > 1 else ""
    return f"{paused(pauses[0], now)}{more}.\n"
