"""Listening to a provider's stream before litellm reads it.

litellm ends every stream without an error with a finish reason: "stop" if the provider gave none. It also reports "stop" for
null in Anthropic's stream, for chunks without one in Gemini's, and for unknown reasons in most streams. So this module notes
what the provider itself says. It raises no errors: litellm would take them for the provider's.

Once an answer is whole, litellm does not read the stream's end, unless there are callbacks, a budget or a cache: it would build
the answer and its cost again in a thread, and load a tokenizer to estimate missing token counts.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import httpx

from . import anthropic_blocks, plain_requests
from .anthropic_blocks import AnthropicBlocks
from .chat_chunks import RESPONSES, ResponsesEvents, cohere_chunk
from .gemini_parts import GeminiParts
from .model_answer import SAME, ModelAnswer
from .plain_chunks import PlainChunks

ANTHROPIC = "litellm.llms.anthropic."
COHERE = "litellm.llms.cohere."
GEMINI = "litellm.llms.vertex_ai.gemini."
BRIDGE = "litellm.completion_extras.litellm_responses_transformation."
"""litellm's modules whose streams are read in a special way here."""
OPENAI = "openai.types.chat."
DATA = "data:"
DONE = "[DONE]"
UNREADABLE = "malformed_function_call"
"""Google's word for an unreadable call."""
BEDROCK = "AWSEventStreamDecoder"
"""litellm's class that decodes Bedrock's events to chunks, one by one, in `_chunk_parser`."""
KEPT_CHUNKS = 10_000
"""How many of an answer's last chunks litellm keeps at least, for its usage and for logging callbacks."""


class ProviderStream:
    """One stream of litellm's; the answer notes what the provider sends before litellm reads it.

    `made` makes litellm's chunk of one in OpenAI's form. `observed`: litellm has callbacks for whole answers, so it must read
    each to its end. `direct`: plain chunks are read without litellm.
    """

    def __init__(
        self, stream: Any, answer: ModelAnswer, made: Callable[..., Any], *, observed: bool = True, direct: bool = False
    ) -> None:
        self._made = made
        self._stream = stream
        self._chunks: AsyncIterator[Any] = aiter(stream)
        self._answer = answer
        self._observed = observed
        self._direct = direct
        self._plain: PlainChunks | None = None
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
        try:
            if self._plain is not None and (chunk := await self._plain.plain()) is not None:
                return chunk
            self._forget()
            return await anext(self._chunks)
        except (StopAsyncIteration, _Over):
            if not (self._chunks_heard or (self._lines is not None and self._lines.understood)):
                self._answer.ended(getattr(self._stream, "received_finish_reason", None))
            self._answer.call_made_text = _made_text(self._parser)
            raise StopAsyncIteration from None

    def _forget(self) -> None:
        """Drop the text and chunks that litellm collects: it joins all text again for each chunk, and keeps every chunk."""
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
        parsers = [each.__module__ for each in type(source).__mro__]
        if hasattr(lines, "__aiter__"):
            return self._read(source, lines, lambda place: any(parser.startswith(place) for parser in parsers))
        if hasattr(source, "__aiter__"):
            self._chunks_heard = True
            _listen_to_bedrock(self._parser, self._answer)
            self._plain = PlainChunks.of(source, self._stream, self._answer, self._made) if self._direct else None
            if self._plain is not None:
                plain_requests.spare(source)
            return _Chunks(self._plain or source, self._answer, observed=self._observed)
        return source  # a client of the provider's own, which litellm reads in a thread

    def _read(self, source: Any, lines: Any, parsed_in: Callable[[str], bool]) -> Any:
        self._lines = _Lines(lines, self._answer)
        if parsed_in(COHERE):
            return self._translated(cohere_chunk, self._lines)
        if parsed_in(BRIDGE):
            events = ResponsesEvents()
            self._answer.parts, self._answer.interface = events.kept, RESPONSES
            return self._translated(events.chunk, self._lines)
        if parsed_in(ANTHROPIC):
            self._answer.blocks = AnthropicBlocks()
        if parsed_in(GEMINI):
            self._lines.gemini = GeminiParts()
            self._answer.parts = self._lines.gemini.kept
        source.streaming_response = self._lines
        return _parsed(source, self._answer, observed=self._observed)

    def _translated(self, chunk: Callable[[Any], Any], lines: "_Lines") -> Any:
        chunks = _translated(lines.events(), chunk, self._made, self._answer)
        return _parsed(chunks, self._answer, observed=self._observed)


class _Lines:
    """The lines of a stream that litellm parses itself: Anthropic's events, Gemini's candidates, OpenAI's chunks elsewhere."""

    def __init__(self, lines: Any, answer: ModelAnswer) -> None:
        # litellm's iterators over lines have no way to close the connection.
        frame = getattr(lines, "ag_frame", None)
        self._response = frame.f_locals.get("self") if frame is not None else getattr(lines, "response", None)
        _meter(self._response, answer)
        self.gemini: GeminiParts | None = None
        self._source = lines
        self._lines: AsyncIterator[Any] = aiter(lines)
        self._answer = answer
        self._known = False
        self._garbled = False
        self._begun = False
        self._waiting: deque[Any] = deque()
        """Lines that litellm is still to read, in place of one that came."""

    @property
    def understood(self) -> bool:
        """Whether the provider's own words could be noted: some line had a known form, and none was garbled."""
        return self._known and not self._garbled

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._waiting:
            return self._waiting.popleft()
        line = await anext(self._lines)
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        if not (isinstance(text, str) and text.startswith(DATA)):
            return line
        text = text[len(DATA) :].strip()
        if text == DONE:  # litellm makes an empty chunk of it and reads no further
            raise StopAsyncIteration
        event = self._parsed(text)
        mended = self._mended(event)
        lines = [line] if mended is None else [f"{DATA} {json.dumps(one)}" for one in mended]
        for one, written in zip(mended or [event], lines, strict=True):
            if not self._note(one, len(written)):
                raise StopAsyncIteration
        self._waiting.extend(lines[1:])
        return lines[0]

    def _mended(self, event: Any) -> list[dict[str, Any]] | None:
        """Events equivalent to this one that litellm reads correctly; None if it reads this one correctly."""
        match event:
            case {"x_groq": {"usage": dict(usage)}} if not event.get("usage"):
                return [event | {"usage": usage}]
            case {"candidates": [*_]} if self.gemini is not None:
                return [event] if self.gemini.mend(event) else None
            case {"type": "message_start" | "content_block_start"} if self._answer.blocks is not None:
                return anthropic_blocks.in_deltas(event)
        return None

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        async for line in self._lines:
            text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
            if isinstance(text, str):
                event = self._parsed(text[len(DATA) :].strip()) if text.startswith(DATA) else None
            else:
                event = line.model_dump(mode="json", warnings=False)
            if isinstance(event, dict):
                self._known = True
                if not self._answer.heard():
                    return
                yield event

    async def aclose(self) -> None:
        for closing in (self._source, self._response):
            close = getattr(closing, "aclose", None)
            if close is not None:
                await close()

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text) if text not in ("", DONE) else None
        except (ValueError, RecursionError):
            self._garbled = True  # litellm may join this line with the next, which would be a gap here
            self._answer.blocks = None
            return None

    def _note(self, event: Any, size: int) -> bool:
        match event:
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                self._answer.ended(reason)
                if self._answer.blocks is not None:
                    self._answer.blocks.within(event["delta"])
                    self._answer.used_output(_of(event.get("usage"), "output_tokens"))
            case {"type": "message_start"} if self._answer.blocks is not None:
                if self._begun:
                    self._answer.restarted()
                    self._answer.blocks = AnthropicBlocks()
                self._begun = True
                self._answer.blocks.within(event.get("message"))
                return self._answer.heard()
            case {"type": str()} if self._answer.blocks is not None:
                self._known = True
                return self._answer.heard(brought=self._answer.blocks.add(event, size))
            case {"choices": [*choices]}:
                for choice in choices:
                    _hear_choice(self._answer, choice)
            case {"candidates": [*candidates]}:
                for candidate in candidates:
                    if not _of(candidate, "index"):
                        self._answer.ended(_of(candidate, "finishReason"))
                if self.gemini is not None and self.gemini.unreadable:
                    self._answer.ended(UNREADABLE)
            case {"promptFeedback": {"blockReason": str()}}:
                self._answer.ended("content_filter")
            case _:
                return self._answer.heard()
        self._known = True
        return self._answer.heard()


async def _parsed(source: Any, answer: ModelAnswer, *, observed: bool) -> AsyncIterator[Any]:
    """The chunks parsed from lines; notes which ones have the provider's token count."""
    async for chunk in source:
        if _of(chunk, "usage"):
            answer.counted()
        yield chunk
    if answer.told and not observed:
        raise _Over


async def _translated(
    events: AsyncIterator[Any], chunk: Callable[[Any], Any], made: Callable[..., Any], answer: ModelAnswer
) -> AsyncIterator[Any]:
    """Litellm's chunks, made from the events of a provider that litellm's own parser reads wrongly."""
    async for event in events:
        found = chunk(event)
        if found is not None:
            (choice,) = found["choices"]
            _hear_choice(answer, choice)
            choice["finish_reason"] = choice["finish_reason"] and SAME.get(choice["finish_reason"].lower(), "stop")
            whole = made(**found)
            answer.used(getattr(whole, "usage", None))
            yield whole


class _Metered(httpx.AsyncByteStream):
    """The bytes of a response, up to a line that is too long: clients buffer a whole line first."""

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
    """The answer is whole, and litellm need not read the end. A BaseException, since litellm catches every `Exception`."""


class _Chunks:
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
            if _of(chunk, "usage"):
                self._answer.counted()
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


def _listen_to_bedrock(parser: Any, answer: ModelAnswer) -> None:
    """If the parser is Bedrock's, note what litellm's chunks omit: the calls that Bedrock executes, and its stop reasons."""
    if type(parser).__name__ != BEDROCK:
        return
    parse = parser._chunk_parser  # noqa: SLF001 - the only place where an event is seen whole

    def heard(chunk_data: dict[str, Any]) -> Any:
        match chunk_data:
            case {"start": {"toolUse": {"type": "server_tool_use", "toolUseId": str(call_id)}}}:
                answer.executed.add(call_id)
            case {"stopReason": str(reason)}:
                answer.ended(reason)
        if "usage" not in chunk_data:
            return parse(chunk_data=chunk_data)
        chunk = parse(chunk_data={"metrics": {}, **chunk_data})  # by `metrics` the parser recognizes such an event
        answer.used(getattr(chunk, "usage", None))
        return chunk

    parser._chunk_parser = heard  # noqa: SLF001


def _hear_choice(answer: ModelAnswer, choice: object) -> None:
    """Note the finish reason or refusal in the first choice of OpenAI's form; `n` in model_options makes more choices."""
    if _of(choice, "index"):
        return
    answer.ended(_of(choice, "finish_reason"))
    delta = _of(choice, "delta")
    answer.detailed(_of(delta, "reasoning_details"))
    refusal = _of(delta, "refusal")
    if isinstance(refusal, str) and refusal:
        answer.refused(refusal)


def _of(source: object, name: str) -> Any:
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)
