"""Facts in Bedrock's events that litellm's chunks omit: which calls Bedrock executes itself, and its stop reasons."""

from collections.abc import Mapping
from typing import Any

from .model_answer import ModelAnswer

DECODER = "AWSEventStreamDecoder"
"""litellm's class that decodes events to chunks, one by one, in `_chunk_parser`."""


def listen(parser: Any, answer: ModelAnswer) -> None:
    """If the parser is Bedrock's, note for the answer what each event says before the parser makes a chunk of it."""
    if type(parser).__name__ != DECODER:
        return
    parse = parser._chunk_parser  # noqa: SLF001 - the only place where an event is seen whole

    def heard(chunk_data: dict[str, Any]) -> Any:
        _note(answer, chunk_data)
        if "usage" not in chunk_data:
            return parse(chunk_data=chunk_data)
        chunk = parse(chunk_data={"metrics": {}, **chunk_data})  # by `metrics` the parser recognizes such an event
        answer.used(getattr(chunk, "usage", None))
        return chunk

    parser._chunk_parser = heard  # noqa: SLF001


def _note(answer: ModelAnswer, event: Mapping[str, Any]) -> None:
    match event:
        case {"start": {"toolUse": {"type": "server_tool_use", "toolUseId": str(call_id)}}}:
            answer.executed.add(call_id)
        case {"stopReason": str(reason)}:
            answer.ended(reason)
