"""What a suspended call looks like from outside, put together from its place in the log."""

from typing import Any

from holdfast.conversation import Event, PendingView, jsontext
from holdfast.conversation.events import CallSuspended, ModelAnswered, SuspensionSettled


def pending_view(conversation_id: str, agent: str, suspended: CallSuspended, source: Event | None) -> PendingView:
    """The view of a suspension, given its event and the event that holds its arguments."""
    return PendingView(
        conversation_id=conversation_id,
        agent=agent,
        tool_call_id=suspended.tool_call_id,
        suspension_id=suspended.suspension_id,
        tool=suspended.tool,
        arguments=arguments_in(source, suspended.tool_call_id),
        executor=suspended.executor,
        kind=suspended.suspension_kind,
        prompt=suspended.prompt,
        response_schema=None if suspended.response_schema is None else jsontext.loads(suspended.response_schema),
        created_at=suspended.at,
        expires_at=suspended.expires_at,
    )


def arguments_text(source: Event | None, tool_call_id: str) -> str:
    """The JSON text of a call's arguments, from the event that its `arguments_at` names."""
    match source:
        case ModelAnswered():
            text = next((call.arguments for call in source.calls if call.tool_call_id == tool_call_id), "")
        case SuspensionSettled(body=str() as body):
            text = body
        case _:
            text = ""
    return text if text.strip() else "{}"


def arguments_in(source: Event | None, tool_call_id: str) -> dict[str, Any]:
    """A call's arguments as an object, from the event that its `arguments_at` names."""
    value = jsontext.loads(arguments_text(source, tool_call_id))
    return value if isinstance(value, dict) else {}
