"""Listening to a provider's stream before litellm reads it.

litellm ends each stream that ends without an exception with a finish reason: "stop", if the provider gave none. In Anthropic's
stream litellm takes null for "stop" too, in Gemini's each chunk that has none, and in most streams every reason that it does
not know. So this module notes what the provider itself says.
It raises no errors: litellm would take them for the provider's.

Where an answer has come whole, litellm is not asked for the end: it would build the answer once more, in a thread, with its
cost, for callbacks alone. With callbacks, a budget or a cache it is asked.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, Self

import httpx

from .anthropic_blocks import AnthropicBlocks
from .model_answer import ModelAnswer

ANTHROPIC = "litellm.llms.anthropic."
OPENAI = "openai.types.chat."
DATA = "data:"
KEPT_CHUNKS = 10_000
"""How many of an answer's last chunks litellm may keep, at least, for its usage and for callbacks that log whole answers."""


class ProviderStream:
    """One stream of litellm's, in which the answer notes what the provider sends before litellm reads it.

    Args:
        stream: The stream.
        answer: The answer.
        observed: Whether somebody has litellm tell of whole answers, so that it must read each to its end.
    """

    def __init__(self, stream: Any, answer: ModelAnswer, *, observed: bool = True) -> None:
        self._stream = stream
        self._chunks: AsyncIterator[Any] = aiter(stream)
        self._answer = answer
        self._observed = observed
        self._chunks_heard = False
        self._lines: _Lines | None = None
        self._parser: Any = None
        source, connect = getattr(stream, "completion_stream", None), getattr(stream, "make_call", None)
        if source is not None:
            stream.completion_stream = self._listened(source)
        elif connect is not None:  # litellm connects with the first chunk

            async def make_call(**more: Any) -> Any:
                return self._listened(await connect(**more))

            stream.make_call = make_call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._forget()
        try:
            return await anext(self._chunks)
        except (StopAsyncIteration, _Over):
            if not (self._chunks_heard or (self._lines is not None and self._lines.understood)):
                self._answer.ended(getattr(self._stream, "received_finish_reason", None))
            self._answer.call_made_text = _made_text(self._parser)
            raise StopAsyncIteration from None

    def _forget(self) -> None:
        """Drop the text and the chunks that litellm gathers: it joins all text anew for each chunk, and keeps every chunk."""
        if hasattr(self._stream, "response_uptil_now"):
            self._stream.response_uptil_now = ""
        chunks = getattr(self._stream, "chunks", None)
        if isinstance(chunks, list) and len(chunks) > 2 * KEPT_CHUNKS:  # the first and the last chunks have the usage
            del chunks[2:-KEPT_CHUNKS]

    async def aclose(self) -> None:
        """Close the connection."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()
        if self._lines is not None:
            await self._lines.aclose()

    def _listened(self, source: Any) -> Any:
        frame = getattr(source, "ag_frame", None)
        self._parser = frame.f_locals.get("self") if frame is not None else source
        _meter(getattr(source, "response", None), self._answer)
        lines = getattr(source, "streaming_response", None)
        if hasattr(lines, "__aiter__"):
            if any(each.__module__.startswith(ANTHROPIC) for each in type(source).__mro__):
                self._answer.blocks = AnthropicBlocks()
            self._lines = source.streaming_response = _Lines(lines, self._answer)
            return source
        if hasattr(source, "__aiter__"):
            self._chunks_heard = True
            return _Chunks(source, self._answer, observed=self._observed)
        return source  # a client of the provider's own, which litellm reads in a thread


class _Lines:
    """The lines of a stream that litellm parses itself: Anthropic's events, Gemini's candidates, OpenAI's chunks elsewhere."""

    def __init__(self, lines: Any, answer: ModelAnswer) -> None:
        # litellm's iterators over lines have no way to close the connection.
        frame = getattr(lines, "ag_frame", None)
        self._response = frame.f_locals.get("self") if frame is not None else None
        _meter(self._response, answer)
        self._source = lines
        self._lines: AsyncIterator[Any] = aiter(lines)
        self._answer = answer
        self._known = False
        self._garbled = False

    @property
    def understood(self) -> bool:
        """Whether the provider's own words could be noted: some line had a form that is known here, and no line was garbled."""
        return self._known and not self._garbled

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        line = await anext(self._lines)
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        if isinstance(text, str) and text.startswith(DATA) and not self._note(text[len(DATA) :].strip()):
            raise StopAsyncIteration
        return line

    async def aclose(self) -> None:
        for closing in (self._source, self._response):
            close = getattr(closing, "aclose", None)
            if close is not None:
                await close()

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text) if text not in ("", "[DONE]") else None
        except (ValueError, RecursionError):
            self._garbled = True  # litellm may join this line with the next, which would be a gap here
            self._answer.blocks = None
            return None

    def _note(self, text: str) -> bool:
        event = self._parsed(text)
        match event:
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                self._known = True
                self._answer.ended(reason)
            case {"type": str()} if self._answer.blocks is not None:
                self._known = True
                return self._answer.heard(brought=self._answer.blocks.add(event, len(text)))
            case {"choices": [*choices]}:
                self._known = True
                for choice in choices:
                    _hear_choice(self._answer, choice)
            case {"candidates": [*candidates]}:
                self._known = True
                for candidate in candidates:
                    _hear_candidate(self._answer, candidate)
            case {"promptFeedback": {"blockReason": str()}}:
                self._known = True
                self._answer.ended("content_filter")
        return self._answer.heard()


class _Metered(httpx.AsyncByteStream):
    """The bytes of a response, up to a line that is too long: clients join a line before anyone can look at it."""

    def __init__(self, stream: httpx.AsyncByteStream, answer: ModelAnswer) -> None:
        self._stream = stream
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            if not self._answer.received(data):
                return
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


def _made_text(parser: object) -> bool:
    """Whether litellm has turned the call of `json_tool_call`, which imitates a `response_format`, into text."""
    made = getattr(parser, "converted_response_format_tool", None)  # only Anthropic's parser says which call it was
    return bool(getattr(parser, "json_mode", None) if made is None else made)


def _meter(response: object, answer: ModelAnswer) -> None:
    if isinstance(response, httpx.Response) and isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Metered(response.stream, answer)


class _Over(BaseException):
    """The answer has come whole, and litellm need not be asked for the end. It catches each `Exception`."""


class _Chunks:
    """The chunks of any other stream, as the provider's client parsed them."""

    def __init__(self, source: Any, answer: ModelAnswer, *, observed: bool) -> None:
        self._source = source
        self._chunks: AsyncIterator[Any] = aiter(source)
        self._answer = answer
        self._plain = not observed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            if self._plain and self._answer.told:
                raise _Over from None
            raise
        if type(chunk).__module__.startswith(OPENAI):
            self._answer.used(chunk.usage)
        else:
            self._plain = False
        if isinstance(chunk, dict):  # litellm's own form for some providers
            self._answer.ended(chunk.get("finish_reason"))
        for choice in getattr(chunk, "choices", None) or ():
            _hear_choice(self._answer, choice)
        if not self._answer.heard():
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        for name in ("aclose", "close"):
            close = getattr(self._source, name, None)
            if close is not None:
                closing = close()
                if closing is not None:
                    await closing
                return


def _hear_choice(answer: ModelAnswer, choice: object) -> None:
    """Note the end or refusal in the first choice of OpenAI's form, an object or JSON; `n` in model_options makes more."""
    if _of(choice, "index"):
        return
    answer.ended(_of(choice, "finish_reason"))
    refusal = _of(_of(choice, "delta"), "refusal")
    if isinstance(refusal, str) and refusal:
        answer.refused(refusal)


def _hear_candidate(answer: ModelAnswer, candidate: object) -> None:
    if not _of(candidate, "index"):
        answer.ended(_of(candidate, "finishReason"))


def _of(holder: object, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
