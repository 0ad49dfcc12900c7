"""Plain chunks of OpenAI's chat stream, read without litellm.

A plain chunk is the first one, or has a piece of text or of reasoning, the beginning of one call or a piece of its arguments,
the finish reason, or the token counts. The SDK and litellm make models of every chunk, which takes most of a long answer's
processor time. litellm reads all other chunks, and errors, in order; what it must know of the plain ones is set in its stream.
"""

import re
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, Self

from .model_answer import ModelAnswer

BESIDE = frozenset({"index", "delta", "finish_reason", "content_filter_results"})
"""The keys of a choice that may have a value."""
ENDS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""OpenAI's own finish reasons."""
EMPTY = (None, "")
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character: litellm cannot make arguments of it."""


class PlainChunks:
    """The source of litellm's stream: gives the plain chunks itself, and litellm all others."""

    def __init__(self, source: Any, stream: Any, answer: ModelAnswer, made: Callable[..., Any]) -> None:
        self._made_of, source._cast_to = source._cast_to, object  # noqa: SLF001 - the SDK then gives each event as it came
        self._source = source
        self._events: AsyncIterator[Any] = aiter(source)
        self._stream = stream
        self._answer = answer
        self._made = made
        self._waiting: list[Any] = []

    @classmethod
    def of(cls, source: Any, stream: Any, *more: Any) -> Self | None:
        """The source in place of the SDK's; None if it is not the SDK's, or litellm must see every chunk."""
        known = hasattr(source, "_cast_to") and hasattr(stream, "raise_on_model_repetition")
        return cls(source, stream, *more) if known and not stream.merge_reasoning_content_in_choices else None

    async def plain(self) -> SimpleNamespace | None:
        """The next chunk if it is plain, else None: then it is litellm's to read, as is an error in its place."""
        if self._waiting:
            return None
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            raise
        except Exception as error:  # noqa: BLE001 - litellm raises it in its own words
            event = error
        chunk = None if isinstance(event, Exception) else self._read(event)
        if chunk is None:
            self._waiting.append(event)
            self._stream.chunks[:] = map(self._whole, self._stream.chunks)
            return None
        self._stream.chunks[:] = [*self._stream.chunks[-1:], chunk]
        if self._answer.heard():
            return chunk
        raise StopAsyncIteration

    def _read(self, event: Any) -> SimpleNamespace | None:
        stream, found = self._stream, said(event)
        within = stream.sent_first_chunk and stream.received_finish_reason is None
        match found, event:
            case None, {"id": str(), "choices": [], "usage": dict()} if stream.sent_last_chunk and stream.send_stream_usage:
                self._answer.used(self._made_by_sdk(event).usage)
                return None if "provider_specific_fields" in event else SimpleNamespace(choices=[])
            case (delta, None), _ if not stream.sent_first_chunk and delta.keys() == {"role"}:
                stream.sent_first_chunk = True
                return _chunk()
            case (delta, str(reason)), _ if within and reason in ENDS and not delta.keys() - {"role"}:
                stream.received_finish_reason, stream.sent_last_chunk = reason, True
                self._answer.ended(reason)
                return _chunk()
            case (delta, None), _ if within and (chunk := _piece(delta)) is not None and not self._repeated():
                return chunk
        return None

    def _whole(self, chunk: Any) -> Any:
        """The chunk as litellm makes it, since it reads more of the last ones after an error."""
        if not isinstance(chunk, SimpleNamespace):
            return chunk
        return self._made(choices=[{"index": 0, "delta": {"content": one.delta.content}} for one in chunk.choices])

    def _repeated(self) -> bool:
        """Whether litellm finds that the model repeats itself; then it says so once more when it reads the chunk."""
        try:
            self._stream.raise_on_model_repetition()
        except Exception:  # noqa: BLE001 - as above
            return True
        return False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event = self._waiting.pop() if self._waiting else await anext(self._events)
        if isinstance(event, Exception):
            raise event
        return self._made_by_sdk(event)

    def _made_by_sdk(self, event: Any) -> Any:
        response = self._source.response
        return self._source._client._process_response_data(data=event, cast_to=self._made_of, response=response)  # noqa: SLF001

    async def close(self) -> None:
        """Close the connection."""
        await self._source.close()


def said(event: Any) -> tuple[dict[str, Any], object] | None:
    """The keys of an event's delta that say something, and its finish reason; None if it has anything else."""
    match event:
        case {"id": str(), "choices": [{"index": 0, "delta": dict(delta)} as choice]} if not event.get("usage"):
            if "provider_specific_fields" in event or any(choice[name] is not None for name in choice.keys() - BESIDE):
                return None
            return {name: value for name, value in delta.items() if value not in EMPTY}, choice.get("finish_reason")
    return None


def _piece(delta: dict[str, Any]) -> SimpleNamespace | None:
    match {name: value for name, value in delta.items() if name != "role"}:
        case {"content": str(text), **more} if not more:
            return _chunk(text)
        case {"reasoning_content": str(text), **more} | {"reasoning": str(text), **more} if not more:
            return _chunk(reasoning_content=text)
        case {"tool_calls": [{"index": int(index), "function": dict(function), **call}], **more} if not more:
            return _piece_of_call(index, function, call)
    return None


def _piece_of_call(index: int, function: dict[Any, Any], call: dict[Any, Any]) -> SimpleNamespace | None:
    """The beginning of a call, with its id and name, or a piece of its arguments."""
    text, named, about = function.get("arguments"), _said(function, but="arguments"), _said(call)
    begins = isinstance(about.get("id"), str) and isinstance(named.get("name"), str)
    typed = about.pop("type", "function") == "function"
    known = begins and about.keys() == {"id"} and named.keys() == {"name"}
    if not isinstance(text, str) or not typed or not (known or (text and not about and not named)):
        return None
    call_id, name = about.get("id"), named.get("name")
    if SURROGATE.search(f"{call_id}{name}{text}"):
        return None
    return _chunk(tool_calls=[SimpleNamespace(index=index, id=call_id, function=SimpleNamespace(name=name, arguments=text))])


def _said(keys: dict[Any, Any], *, but: str = "") -> dict[Any, Any]:
    return {name: value for name, value in keys.items() if name != but and value not in EMPTY}


def _chunk(content: str | None = None, **more: Any) -> SimpleNamespace:
    """The parts of litellm's chunk that are read here."""
    return SimpleNamespace(choices=[SimpleNamespace(index=0, delta=SimpleNamespace(content=content, **more))])
