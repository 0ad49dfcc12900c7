"""What Bedrock's events say that litellm's chunks of them do not: which calls Bedrock executes itself, and its own words."""

from collections.abc import Mapping
from typing import Any

from .model_answer import ModelAnswer

DECODER = "AWSEventStreamDecoder"
"""litellm's class that decodes the events and makes its chunks of them, one by one, in `_chunk_parser`."""


def listen(parser: Any, answer: ModelAnswer) -> None:
    """Have the answer note what the events say before the parser makes chunks of them, if it is the one of Bedrock's."""
    if type(parser).__name__ != DECODER:
        return
    parse = parser._chunk_parser  # noqa: SLF001 - the only place where an event is seen whole

    def heard(chunk_data: dict[str, Any]) -> Any:
        _note(answer, chunk_data)
        if "usage" not in chunk_data:
            return parse(chunk_data=chunk_data)
        chunk = parse(chunk_data={"metrics": {}, **chunk_data})  # by these the parser knows such an event
        answer.used(getattr(chunk, "usage", None))
        return chunk

    parser._chunk_parser = heard  # noqa: SLF001


def _note(answer: ModelAnswer, event: Mapping[str, Any]) -> None:
    match event:
        case {"start": {"toolUse": {"type": "server_tool_use", "toolUseId": str(call_id)}}}:
            answer.executed.add(call_id)
        case {"stopReason": str(reason)}:
            answer.ended(reason)
