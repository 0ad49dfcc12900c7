"""Whether an answer is its agent's reply, and whether it has the shape that the agent declares."""

from collections.abc import Sequence

from holdfast.conversation.log.transcript import PAUSED
from holdfast.conversation.records.commands import ModelReplied
from holdfast.conversation.records.event_base import StopReason
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.reply import FINAL_ANSWER, MOST_REPAIRS
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import jsontext, schema

NO_REPLY = (PAUSED, StopReason.CONTENT_FILTER)
"""The finish reasons of answers that are no reply, whatever they hold."""
CUT_OFF = "it was cut off (finish_reason length): answer in fewer words"
TWICE = f"call {FINAL_ANSWER} once"
EMPTY = "there is none"
NO_OBJECT = "it is not a JSON object"
ALONE = f"{FINAL_ANSWER} ends your turn: call it alone, once you have read the results of your other calls"
"""What the model is told of the reply that it gives beside other calls."""
FAILED = f"the model's reply does not fit the agent's reply= after {MOST_REPAIRS} repairs: {{}}"
UNREPAIRED = "the model's reply does not fit the agent's reply=, and no model call is left (Limits.max_model_calls): {}"


def misfit(spec: AgentSpec | None, command: ModelReplied, calls: Sequence[ProposedCall]) -> str | None:
    """What is wrong with an answer as its agent's reply, empty if it fits; None if it is no reply.

    `calls` are the answer's calls as the log holds them. A text without calls is the reply, or the one call that gives it.
    """
    if spec is None or spec.reply is None or command.finish_reason in NO_REPLY:
        return None
    if any(call.name != FINAL_ANSWER for call in calls):
        return None
    if command.finish_reason == StopReason.LENGTH:
        return CUT_OFF
    if len(calls) > 1:
        return TWICE
    text = calls[0].arguments if calls else jsontext.clean(command.content or "")
    if not text.strip():
        return EMPTY
    try:
        value = jsontext.loads(text)
    except jsontext.NotJson as error:
        return f"it is not JSON ({error})"
    if not isinstance(value, dict):
        return NO_OBJECT
    return schema.problem(spec.reply, value) or jsontext.clean(command.misfit or "")
