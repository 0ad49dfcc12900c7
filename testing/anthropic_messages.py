"""The wire format of Anthropic's `/v1/messages`: an answer as one body, or as the events of a stream."""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.testing.transcripts import Message, pieces_of

_PIECES = 3  # texts and inputs are streamed in at most so many fragments
_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def blocks(content: Sequence[dict[str, Any]], *, stop_reason: str | None = "end_turn") -> Message:
    """An assistant message of whole content blocks in Anthropic's format, for `POST /v1/messages`.

    A block is such as `{"type": "thinking", "thinking": "hm", "signature": "s"}`. `stop_reason` stands at the stream's end;
    None gives null.
    """
    return {"role": "assistant", "content": None, "blocks": list(content), "stop_reason": stop_reason}


class AnthropicCompletion:
    """The answer to a request's body in Anthropic's format, from a message of `blocks` or one in the OpenAI chat format."""

    end = b""

    def __init__(self, request: dict[str, Any], message: Message) -> None:
        self._verbatim = message.get("events") or []
        self._blocks = message["blocks"] if "blocks" in message else _blocks_of(message)
        default = "tool_calls" if message.get("tool_calls") else "stop"
        said = message.get("finish_reason", default)
        self._stop_reason = message["stop_reason"] if "blocks" in message else _STOP_REASONS.get(said, said)
        self._head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": request.get("model")}
        self._input = {"input_tokens": max(1, len(json.dumps(request)) // 4)}
        self._output = {"output_tokens": max(1, len(json.dumps(self._blocks)) // 4)}

    def whole(self) -> dict[str, Any]:
        """The body of an unstreamed answer."""
        ending = {"stop_reason": self._stop_reason, "stop_sequence": None, "usage": {**self._input, **self._output}}
        return {**self._head, "content": self._blocks, **ending}

    def frames(self) -> Iterator[bytes]:
        """The stream, event by event."""
        for frame in self._verbatim:
            yield (frame if isinstance(frame, str) else f"data: {json.dumps(frame)}\n\n").encode()
        if self._verbatim:
            return
        for event in self._events():
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def _events(self) -> Iterator[dict[str, Any]]:
        opening: dict[str, Any] = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None}
        yield {"type": "message_start", "message": {**opening, "usage": {**self._input, "output_tokens": 1}}}
        for index, block in enumerate(self._blocks):
            start, deltas = _streamed(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": self._output}
        yield {"type": "message_stop"}


def _blocks_of(message: Message) -> list[dict[str, Any]]:
    texts = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    called = [
        {
            "type": "tool_use",
            "id": tool_call["id"],
            "name": tool_call["function"]["name"],
            "input": json.loads(tool_call["function"]["arguments"]),
        }
        for tool_call in message.get("tool_calls") or ()
    ]
    return texts + called


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The start of a streamed block, and its deltas."""
    match block:
        case {"type": "text", "text": str(text)}:
            cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
            opening = {**block, "text": "", **({"citations": []} if cited else {})}
            return opening, [*({"type": "text_delta", "text": piece} for piece in pieces_of(text, _PIECES)), *cited]
        case {"type": "thinking", "thinking": str(text)}:
            signed = [{"type": "signature_delta", "signature": block["signature"]}] if block.get("signature") else []
            thought = ({"type": "thinking_delta", "thinking": piece} for piece in pieces_of(text, _PIECES))
            return {**block, "thinking": "", "signature": ""}, [*thought, *signed]
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "input": dict(fields)}:
            written = ["", *pieces_of(json.dumps(fields), _PIECES)] if fields else []
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in written]
    return block, []
