"""The commands that are shown to a person, to be copied whole."""

import shlex
from collections.abc import Sequence
from typing import Any

from holdfast.client.results import PendingCall
from holdfast.conversation.calls import ACCEPTED
from holdfast.conversation.decisions import DecisionKind

from .display import clean
from .options import Where

_FLAGS = {
    DecisionKind.APPROVE: ("--approve",),
    DecisionKind.DENY: ("--deny", "REASON"),
    DecisionKind.ANSWER: ("--answer", "JSON"),
    DecisionKind.FAIL: ("--fail", "ERROR"),
    DecisionKind.REDISPATCH: ("--redispatch",),
}
_ON_TRUST = (DecisionKind.APPROVE, DecisionKind.REDISPATCH)


def command(words: Sequence[str], where: Where) -> str:
    """A `holdfast` command with the options that lead to the same conversations, quoted for a shell."""
    return shlex.join(["holdfast", *words, *where.words()])


def resolving(call: PendingCall[Any], where: Where) -> list[str]:
    """The commands that resolve a call, the affirmative one first; a person replaces the words in capitals.

    For a call that could not be read whole, only commands that do not let it run; none where its ids are not known.
    """
    ids = (call.conversation_id, call.tool_call_id, call.suspension_id)
    if call.kind is None or any(not known or clean(known) != known for known in ids):
        return []
    kinds = [kind for kind in ACCEPTED[call.kind] if call.problem is None or kind not in _ON_TRUST]
    return [_resolve(call, _FLAGS[kind], where) for kind in kinds]


def next_step(call: PendingCall[Any], where: Where, *, whole: bool) -> str | None:
    """The next step for a listed call: the first command that resolves it, None where there is none.

    Args:
        call: The call.
        where: The options of the list.
        whole: Whether the list shows the whole call. Else the step is to look at it, not the command that lets it run.
    """
    commands = resolving(call, where)
    if call.kind is None or not commands:
        return None
    if not whole and call.problem is None and ACCEPTED[call.kind][0] in _ON_TRUST:
        return f"not all of it is shown here; look first: {command(['show', call.conversation_id], where)}"
    return commands[0]


def _resolve(call: PendingCall[Any], flag: tuple[str, ...], where: Where) -> str:
    place = [call.conversation_id, call.tool_call_id]
    options = ["--suspension", call.suspension_id, *flag]
    if call.tool_call_id.startswith("-"):  # the model chose the id, which must not pass for an option
        return shlex.join(["holdfast", "resolve", *options, *where.words(), "--", *place])
    return command(["resolve", *place, *options], where)
