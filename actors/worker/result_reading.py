"""Reading an earlier result of a conversation for a call of `read_result`, from the conversation's own log."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent
from holdfast.agent.read_result import Reading, ReadResult
from holdfast.conversation import Event
from holdfast.conversation.records.events import CallResolved, ModelAnswered, RequestedCall, SuspensionSettled
from holdfast.conversation.records.idempotency import call_key, result_key
from holdfast.conversation.terms.context import READ_RESULT
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.text import excerpt, jsontext, tokens
from holdfast.conversation.text.jsontext import JsonText
from holdfast.daemon import in_daemon
from holdfast.errors import HoldfastError
from holdfast.persistence import Conversations
from holdfast.persistence.views import arguments_in

from .bench import Bench
from .gate import denies

PAGE = 100
"""How many log entries are read at once on the way back from a result to its call."""
MOST_ENTRIES = 20_000
"""How far back a call may stand before its result."""


class Unreadable(Exception):
    """A result cannot be read; the message is for the model."""


async def read(
    bench: Bench, request: RunRequest, agent: Agent, tool: ReadResult, arguments: Mapping[str, Any], *, most_bytes: int
) -> JsonText:
    """The envelope of what a call of `read_result` reads, of at most `most_bytes`.

    Raises:
        InvalidArguments: The arguments do not fit.
        Unreadable: There is no such result, or nothing at that offset, or the rules in force deny its tool.
    """
    asked = tool.reading(arguments)
    try:
        resolved, name, given = await _found(bench.store, request.conversation_id, asked.call)
        rules = await bench.rules.rules(request.agent)
    except HoldfastError as error:
        raise Unreadable(f"the log of the conversation cannot be read: {error}") from error
    if name == READ_RESULT:
        raise Unreadable(f"{asked.call!r} is a call of {READ_RESULT}: name the call whose result that has read")
    for one in given:
        verdict = denies(rules, agent, name, one)
        if verdict is not None:
            by = verdict.denied_by if verdict.effect is RuleEffect.DENY else verdict.reason
            raise Unreadable(f"the result of {asked.call!r} may not be read: {name} is {by}")
    return await in_daemon(_excerpt, resolved, asked, min(most_bytes, tokens.most_bytes(tool.tokens)))


def _excerpt(resolved: CallResolved, asked: Reading, most_bytes: int) -> JsonText:
    how: dict[str, Any] = {"offset": asked.offset, "limit": asked.limit, "most_bytes": most_bytes}
    made = partial(excerpt.places, find=asked.find) if asked.find else excerpt.page
    try:
        return made(resolved.content, asked.call, **how)
    except excerpt.NoExcerpt as error:
        raise Unreadable(str(error)) from None


async def _found(
    store: Conversations, conversation_id: str, call: str
) -> tuple[CallResolved, str, Sequence[dict[str, Any] | None]]:
    """The result of a call, its tool, and its arguments: the model's and those that people gave instead; None: unreadable."""
    asked, given = call_key(call), result_key(call)
    known = await store.known(conversation_id, (asked, given))
    if asked not in known:
        raise Unreadable(f"this conversation has no call {call!r}")
    if given not in known:
        raise Unreadable(f"the call {call!r} has no result yet")
    at = known[given].seq
    resolved, source = await store.at(conversation_id, (at, known[asked].seq))
    if not isinstance(resolved, CallResolved) or resolved.tool_call_id != call:
        raise Unreadable(f"the log has no result of {call!r} any more")
    sources = [source] if isinstance(source, ModelAnswered) else await _sources(store, conversation_id, call, before=at)
    names = [one.name for source in sources if isinstance(source, ModelAnswered) for one in source.calls if _is(one, call)]
    if not names:
        raise Unreadable(f"the log does not say any more which tool {call!r} was a call of")
    return resolved, names[-1], [_arguments(source, call) for source in sources]


async def _sources(store: Conversations, conversation_id: str, call: str, *, before: int) -> list[Event]:
    """The answer that asked for a call, and the approvals that gave it other arguments, latest first."""
    found, least = list[Event](), max(before - MOST_ENTRIES, 1)
    while before > least:
        page = await store.read(conversation_id, before=before, limit=PAGE)
        for _, event in reversed(page):
            if isinstance(event, SuspensionSettled) and _edits(event, call):
                found.append(event)
            if isinstance(event, ModelAnswered) and any(_is(one, call) for one in event.calls):
                return [*found, event]
        before = page[0][0] if page else 0
    return found


def _edits(event: SuspensionSettled, call: str) -> bool:
    return event.tool_call_id == call and event.decision is DecisionKind.APPROVE and event.body is not None


def _is(requested: RequestedCall, call: str) -> bool:
    return requested.tool_call_id == call


def _arguments(source: Event, call: str) -> dict[str, Any] | None:
    try:
        return arguments_in(source, call)
    except jsontext.NotJson:
        return None
