"""The commands that are shown to people for copying."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.client.results import PendingCall
from holdfast.conversation import SuspensionKind
from holdfast.conversation.terms.decisions import DecisionKind, accepted
from holdfast.conversation.terms.spec import Choice

from .display import clean
from .options import Where, words_of

_FLAGS: dict[DecisionKind | Choice, tuple[str, ...]] = {
    DecisionKind.APPROVE: ("--approve",),
    Choice.EDIT: ("--approve", "--arguments", "JSON"),
    DecisionKind.DENY: ("--deny", "REASON"),
    DecisionKind.REDISPATCH: ("--redispatch",),
    DecisionKind.REVIEW: ("--review", "VERDICT", "--notes", "TEXT"),
    DecisionKind.ANSWER: ("--answer", "JSON"),
    DecisionKind.FAIL: ("--fail", "ERROR"),
    DecisionKind.CANCEL: ("--cancel", "REASON"),
}
"""The options for each word of `PendingCall.decisions`."""
_ON_TRUST = frozenset[DecisionKind | Choice]({DecisionKind.APPROVE, DecisionKind.REDISPATCH, DecisionKind.REVIEW})
"""The decisions that let a call go on as it was shown."""
_NOT_UNSEEN = _ON_TRUST | {Choice.EDIT}
_AFFIRMATIVE_FIRST = [DecisionKind.APPROVE, Choice.EDIT, DecisionKind.ANSWER, DecisionKind.DENY, DecisionKind.CANCEL]
_USUAL = (Choice.APPROVE, Choice.EDIT, Choice.DENY)


def command(words: Sequence[str], where: Where) -> str:
    """A `holdfast` command with the options that lead to the same conversations, quoted for a shell."""
    return shlex.join(["holdfast", *words, *where.words()])


def more(name: str, filters: Mapping[str, Any], after: str, where: Where) -> str:
    """The line that continues a list: the same command with the same filters, after a cursor."""
    words = words_of({f"--{option}": value for option, value in {**filters, "after": after}.items()})
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
    return sorted(found, key=_AFFIRMATIVE_FIRST.index) if call.kind is SuspensionKind.APPROVAL else found


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


def asked_by(call: PendingCall[Any]) -> str:
    """The permission rule that asks for an approval of the call, and why; empty without one."""
    reason = clean(call.rule_reason)
    if not call.rule:
        return f"asked because {reason}" if reason else ""
    return f"asked by the rule {clean(call.rule)}{': ' if reason else ''}{reason}"
