"""`holdfast resolve`: decide a pending call."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import (
    Answer,
    Approve,
    Cancel,
    Decision,
    Deny,
    Fail,
    Level,
    Question,
    Receipt,
    Redispatch,
    Review,
    Scope,
)
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidDecision

from .display import Said, clean
from .hints import outcome
from .options import Key, OfConversation, Suspension, Where, seconds_of
from .questions import asked
from .session import Reached, within
from .verbs import recorded

_SAY_WHY = {"--deny": "--deny REASON", "--cancel": "--cancel REASON", "--review": "--notes TEXT"}
"""The decisions that carry a reason of their own, and how."""

Arguments = Annotated[str | None, typer.Option(metavar="JSON", help="Approve with edited arguments.")]
ScopeText = Annotated[
    str | None,
    typer.Option(metavar="KIND:PATTERN", help="Approve, and say what may run without asking from now on: path:src/**."),
]
ScopeLevel = Annotated[
    Level | None, typer.Option(help="With --scope: how much the grant allows: read, write, execute or admin.")
]
Lasts = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="With --scope: for how long: 1h, 30m; else for the conversation.")
]
Everything = Annotated[bool, typer.Option("--everything", help="With --scope: the pattern may cover every value of its kind.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the log only.")]


def run(
    where: Where,
    suspension: Suspension,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="The call may run.")] = False,
    arguments: Arguments = None,
    scope: ScopeText = None,
    level: ScopeLevel = None,
    lasts: Lasts = None,
    everything: Everything = False,
    deny: Annotated[str | None, typer.Option(metavar="REASON", help="The call must not run, or will not be answered.")] = None,
    answer: Annotated[str | None, typer.Option(metavar="JSON", help="The answer; text goes in JSON's quotes.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask the call's questions here, one by one, for the answer.")] = False,
    fail: Annotated[str | None, typer.Option(metavar="ERROR", help="The call could not be done, or failed.")] = None,
    redispatch: Annotated[bool, typer.Option("--redispatch", help="Run a lost call again.")] = False,
    review: Annotated[
        str | None, typer.Option(metavar="VERDICT", help="A review's verdict: allow, block, or review (revise and ask again).")
    ] = None,
    notes: Annotated[str | None, typer.Option(metavar="TEXT", help="With --review: notes that the agent reads.")] = None,
    cancel: Annotated[str | None, typer.Option(metavar="REASON", help="The call is dropped, and its turn goes on.")] = None,
    reason: Reason = None,
    conversation: OfConversation = None,
    decision_id: Key = None,
) -> Said:
    """Decide a pending call; done once the decision is durable.

    Exactly one of --approve, --deny, --answer, --ask, --fail, --redispatch, --review and --cancel. An approval takes --approve
    or --deny, a question --answer or --deny, a client's call --answer or --fail, a lost run --redispatch, --answer or --fail,
    a review --review; each takes --cancel, and `holdfast show` says what a certain call takes.

    With --ask, the questions of a call of `ask_user_questions` are asked here, one after the other, for an answer.
    """
    given = {"--approve": approve or None, "--deny": deny, "--answer": answer, "--ask": ask or None, "--fail": fail}
    given |= {"--redispatch": redispatch or None, "--review": review, "--cancel": cancel}
    decision = decision_of(given, arguments, notes, reason)
    if scoped := _scope(scope, level, lasts, everything=everything):
        if not isinstance(decision, Approve):
            raise InvalidDecision("--scope", "it does not go with this decision", "give it with --approve, or leave it out")
        decision = replace(decision, scope=scoped)
    if ask:
        call = within(where, lambda on: on.client.pending_call(suspension, conversation_id=conversation))
        decision = Answer(asked(_questions(call)), reason=reason or "")
        suspension, conversation = call.suspension_id, call.conversation_id
    key = decision_id if decision_id is not None else uuid.uuid4().hex  # with an id, the state machine judges settled calls

    async def resolved(on: Reached) -> tuple[str, Receipt]:
        """The whole id of the suspension, which a person may shorten, and the receipt."""
        call = suspension if conversation is not None else await on.client.pending_call(suspension)
        receipt = await on.client.resolve(call, decision, conversation_id=conversation, decision_id=key)
        return call if isinstance(call, str) else call.suspension_id, receipt

    whole, receipt = within(where, resolved)
    said = f"{type(decision).__name__} for {whole} of {receipt.conversation_id} {recorded(receipt)} (seq {receipt.seq})."
    if waits := outcome(receipt):
        said = f"{said} {waits[0].upper()}{waits[1:]}."
    return Said(receipt.model_dump(mode="json"), [said], indent=None)


def _questions(found: AsyncPendingCall) -> Sequence[Question]:
    if found.questions is None:
        unread = f"they cannot be read ({clean(found.problem or '')})"
        problem = "the call has no questions to ask" if found.problem is None else unread
        raise InvalidDecision("--ask", problem, "give --answer JSON, or decide otherwise")
    return found.questions


def decision_of(
    given: Mapping[str, Any], arguments: str | None, notes: str | None = None, reason: str | None = None
) -> Decision:
    """The decision in the options; exactly one of `given` is not None."""
    chosen = {flag: value for flag, value in given.items() if value is not None}
    if len(chosen) != 1:
        problem = f"{' and '.join(chosen)} are given" if chosen else "none is given"
        raise InvalidDecision("decision", problem, f"give one of {', '.join(given)}")
    ((flag, value),) = chosen.items()
    for option, text, with_flag in (("--arguments", arguments, "--approve"), ("--notes", notes, "--review")):
        if text is not None and flag != with_flag:
            raise InvalidDecision(option, f"it does not go with {flag}", f"give it with {with_flag}, or leave it out")
    if reason is not None and flag in _SAY_WHY:
        raise InvalidDecision("--reason", f"it does not go with {flag}, which says why itself", f"say it with {_SAY_WHY[flag]}")
    why = reason or ""
    makes: Mapping[str, Callable[[], Decision]] = {
        "--approve": lambda: Approve(None if arguments is None else _json("--arguments", arguments), reason=why),
        "--deny": lambda: Deny(value),
        "--answer": lambda: Answer(_json("--answer", value), reason=why),
        "--ask": lambda: Answer(None, reason=why),  # the person is asked once the rest of the command is valid
        "--fail": lambda: Fail(value, reason=why),
        "--redispatch": lambda: Redispatch(reason=why),
        "--review": lambda: Review(value, notes or ""),
        "--cancel": lambda: Cancel(value),
    }
    return makes[flag]()


def _scope(text: str | None, level: Level | None, lasts: str | None, *, everything: bool) -> Scope | None:
    if text is None:
        for option, given in (("--level", level), ("--for", lasts), ("--everything", everything or None)):
            if given is not None:
                raise InvalidDecision(option, "it belongs to a scope, and none is given", "add --scope KIND:PATTERN")
        return None
    kind, colon, pattern = text.partition(":")
    if not colon:
        raise InvalidDecision("--scope", f"{text!r:.80} is no scope", "write a kind and a pattern: path:src/**, tool:refund")
    if level is None:
        raise InvalidDecision("--level", "a scope needs one", f"add --level with one of {', '.join(Level)}")
    ends_s = None if lasts is None else seconds_of(lasts, "--for")
    return Scope(kind, pattern, level=level, ends_s=ends_s, everything=everything)


def _json(option: str, text: str) -> Any:
    try:
        return jsontext.loads(text)
    except jsontext.NotJson as error:
        fix = """give a JSON value; text goes in double quotes, as in '"yes"'"""
        raise InvalidDecision(option, f"{text!r:.60} is not JSON ({error})", fix) from error
