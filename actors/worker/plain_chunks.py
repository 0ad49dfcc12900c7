"""Plain chunks of OpenAI's chat stream, read without litellm: a piece of text, of reasoning or of one call's arguments.

The SDK and litellm make models of every chunk, which takes most of a long answer's processor time. All other chunks, errors and
the end are litellm's to read, in order, and so is every chunk until litellm has handed on the first one.
"""

import re
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, Self

from .model_answer import ModelAnswer

BESIDE = frozenset({"index", "delta", "finish_reason", "content_filter_results"})
"""The keys of a choice that may have a value."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, of which litellm makes no arguments."""


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
        within = self._stream.sent_first_chunk and self._stream.received_finish_reason is None
        chunk = plain(event) if within else None
        if chunk is not None and not self._repeated():
            self._stream.chunks.append(chunk)
            if self._answer.heard():
                return chunk
            raise StopAsyncIteration
        self._waiting.append(event)
        self._stream.chunks[:] = map(self._whole, self._stream.chunks)
        return None

    def _whole(self, chunk: Any) -> Any:
        """The chunk as litellm makes it, since it reads more of the last ones after an error."""
        if not isinstance(chunk, SimpleNamespace):
            return chunk
        return self._made(choices=[{"index": 0, "delta": {"content": chunk.choices[0].delta.content}}])

    def _repeated(self) -> bool:
        """Whether litellm finds that the model repeats itself; then it says so once more when it reads the chunk."""
        try:
            self._stream.raise_on_model_repetition()
        except Exception:  # noqa: BLE001 - as above
            return True
        del self._stream.chunks[:-1]
        return False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event = self._waiting.pop() if self._waiting else await anext(self._events)
        if isinstance(event, Exception):
            raise event
        response = self._source.response
        return self._source._client._process_response_data(data=event, cast_to=self._made_of, response=response)  # noqa: SLF001

    async def close(self) -> None:
        """Close the connection."""
        await self._source.close()


def plain(event: Any) -> SimpleNamespace | None:
    """What litellm's chunk says of a plain event; None if the event has anything else."""
    match event:
        case {"id": str(), "choices": [{"index": 0, "delta": dict(delta)} as choice]} if not event.get("usage"):
            if choice.get("finish_reason") is not None or "provider_specific_fields" in event:
                return None
            if any(value is not None and name not in BESIDE for name, value in choice.items()):
                return None
            said = {name: value for name, value in delta.items() if value is not None and name != "role" and value != ""}
            piece = _piece(said) if len(said) == 1 else None
            return None if piece is None else SimpleNamespace(choices=[SimpleNamespace(index=0, delta=piece)])
    return None


def _piece(said: dict[str, Any]) -> SimpleNamespace | None:
    match said:
        case {"content": str(text)} if text:
            return SimpleNamespace(content=text)
        case {"reasoning_content": str(text)} | {"reasoning": str(text)} if text:
            return SimpleNamespace(content=None, reasoning_content=text)
        case {"tool_calls": [{"index": int(index), "function": {"arguments": str(text), **named}, **call}]} if (
            text and not SURROGATE.search(text)
        ):
            if call.pop("type", None) not in (None, "function") or any(value is not None for value in (named | call).values()):
                return None
            called = SimpleNamespace(index=index, function=SimpleNamespace(arguments=text))
            return SimpleNamespace(content=None, tool_calls=[called])
    return None
