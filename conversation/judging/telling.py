"""The word of a machine that a call waits for, such as the conversation that it was delegated to."""

from bisect import bisect_right

from holdfast.conversation.records.commands import Tell
from holdfast.conversation.records.events import SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import failure, told
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import InvalidInput, NotPermitted

from .deciding import stale
from .judgement import Judgement, drafted
from .progress import advance, finish, settled

TOO_LONG = "the answer has {} bytes, {} are allowed (Limits.result_bytes)"


def tell(state: State, command: Tell) -> Judgement:
    """Settle a suspension by the word of its source. A repetition raises `StaleCall`, which says that the source settled it."""
    draft = drafted(state, command)
    call, suspension = state.calls.open_suspension(command.suspension_id) or (None, None)
    if call is None or suspension is None:
        raise stale(state, command, command.suspension_id)
    if not suspension.source or suspension.source != command.source:
        raise NotPermitted(state.conversation_id, call.tool_call_id, f"it does not wait for {command.source!a:.200}")
    ok, envelope = _told(command)
    seq = settled(draft, call, SettledBy.SOURCE, source_ended=command.ended)
    finish(draft, call.tool_call_id, envelope, by=SettledBy.SOURCE, ok=ok)
    advance(draft)
    return draft.done(draft.receipt(seq))


def _told(command: Tell) -> tuple[bool, JsonText]:
    """Whether the call succeeds, and its envelope."""
    try:
        value = jsontext.loads(command.content)
    except jsontext.NotJson as error:
        raise InvalidInput("content", str(error), "give the JSON text of a result, or of an error's text") from error
    size, most = jsontext.size_bytes(command.content), command.limits.result_bytes
    if size > most and not isinstance(value, str):
        return False, failure(TOO_LONG.format(size, most))
    content = command.content if size <= most else _shortened(value, most)
    if not command.ok and not isinstance(value, str):
        content = jsontext.dumps(command.content)
    return command.ok, told(content, command.source, ok=command.ok, of_bytes=size if size > most else 0)


def _shortened(text: str, most: int) -> JsonText:
    """The JSON text of the longest beginning of a text whose JSON text has at most `most` bytes."""
    ends = range(1, min(len(text), most) + 1)
    return jsontext.dumps(text[: bisect_right(ends, most, key=lambda end: jsontext.size_bytes(jsontext.dumps(text[:end])))])
