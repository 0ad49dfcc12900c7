"""The short forms of `holdfast resolve`, each for one decision."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.conversation import ReviewVerdict

from .display import Said
from .options import Key, OfConversation, Suspension, Where
from .resolve import Arguments, Everything, Lasts, Reason, ScopeLevel, ScopeText
from .resolve import run as resolve


def approve(
    where: Where,
    suspension: Suspension,
    *,
    arguments: Arguments = None,
    scope: ScopeText = None,
    level: ScopeLevel = None,
    lasts: Lasts = None,
    everything: Everything = False,
    reason: Reason = None,
    conversation: OfConversation = None,
    decision_id: Key = None,
) -> Said:
    """Let a pending call run; done once the decision is durable. The same as `holdfast resolve S --approve`."""
    edited: dict[str, Any] = {"arguments": arguments, "scope": scope, "level": level, "lasts": lasts, "everything": everything}
    return resolve(where, suspension, approve=True, reason=reason, conversation=conversation, decision_id=decision_id, **edited)


def deny(
    where: Where,
    suspension: Suspension,
    reason: Annotated[str, typer.Argument(help="Why; the agent reads it.")],
    *,
    conversation: OfConversation = None,
    decision_id: Key = None,
) -> Said:
    """Do not let a pending call run, or do not answer it. The same as `holdfast resolve S --deny REASON`."""
    return resolve(where, suspension, deny=reason, conversation=conversation, decision_id=decision_id)


def answer(
    where: Where,
    suspension: Suspension,
    value: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="The answer; text goes in JSON's quotes. Without it, questions are asked."),
    ] = None,
    *,
    reason: Reason = None,
    conversation: OfConversation = None,
    decision_id: Key = None,
) -> Said:
    """Answer a pending call. The same as `holdfast resolve S --answer JSON`, and without an answer as `--ask`."""
    said: dict[str, Any] = {"ask": True} if value is None else {"answer": value}
    return resolve(where, suspension, reason=reason, conversation=conversation, decision_id=decision_id, **said)


def review(
    where: Where,
    suspension: Suspension,
    verdict: Annotated[ReviewVerdict, typer.Argument(help="The verdict; `review` is: revise it, and ask again.")],
    notes: Annotated[str | None, typer.Argument(help="Notes that the agent reads.")] = None,
    *,
    conversation: OfConversation = None,
    decision_id: Key = None,
) -> Said:
    """Give a verdict on what waits for a review. The same as `holdfast resolve S --review VERDICT --notes TEXT`."""
    return resolve(where, suspension, review=verdict, notes=notes, conversation=conversation, decision_id=decision_id)


VERBS: dict[str, Callable[..., Said]] = {"approve": approve, "deny": deny, "answer": answer, "review": review}
"""The commands by name."""
