"""A model's answer, put together from the pieces of its stream and bounded while they come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation import FailureReason, Limits
from holdfast.conversation.text import jsontext

from .anthropic_blocks import AnthropicBlocks
from .kept_parts import KeptParts, ReasoningDetails

EMPTY_CHUNKS = 10_000
"""How many pieces of a stream may bring no content: role, usage, keepalive."""
LONGEST_ESCAPE = 6
LINE_ROOM = 64 * 1024
"""`LONGEST_ESCAPE`: the most bytes that JSON takes for one byte of text; `LINE_ROOM`: further bytes of a line."""
ID_CHARS = 200
NAME_CHARS = 256
REASON_CHARS = 100
"""How many characters are kept of a call's id, its tool's name and the finish reason; meaningful ones are shorter."""
EXECUTED = "srvtoolu_"
"""Id prefix of calls that Anthropic executes itself, on every route."""

SIGNED = "__thought__"
"""The mark between a call's id and the signature of its thought, in the ids that litellm makes for Gemini."""

SAME = {
    **{word: word for word in ("stop", "length", "tool_calls", "function_call", "content_filter", "pause_turn")},
    **dict.fromkeys(("end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"), "stop"),
    **dict.fromkeys(("stop_token", "end_of_text", "endoftext", "finished", "done"), "stop"),
    **dict.fromkeys(("tool_use", "tool_call"), "tool_calls"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("incomplete", "max_length", "max_new_tokens", "token_limit"), "length"),
    **dict.fromkeys(("content_filtered", "refusal", "safety", "recitation", "language", "blocklist"), "content_filter"),
    **dict.fromkeys(("prohibited_content", "spii", "image_safety", "sensitive", "error_toxic"), "content_filter"),
    **dict.fromkeys(("guardrail_intervened", "escalation"), "content_filter"),
    **dict.fromkeys(("other", "no_image", "image_recitation", "image_other", "image_prohibited_content"), "content_filter"),
    "compaction": "pause_turn",
}
"""OpenAI's (or Anthropic's) finish reason, by the provider's word in lower case."""
NO_REASONS = ("", "FINISH_REASON_UNSPECIFIED")
FAILED = frozenset(
    {
        *("error", "network_error", "malformed_function_call", "malformed_response", "unexpected_tool_call"),
        *("missing_thought_signature", "insufficient_system_resource", "abort", "aborted"),
        *("cancelled", "canceled", "user_cancel", "failed", "timeout", "time_limit", "error_limit"),
        *("too_many_tool_calls", "malformed_model_output", "malformed_tool_use"),
    }
)
"""Finish reasons, in lower case, by which providers report a failure: then there is no answer."""
KNOWN = frozenset(SAME.values())
"""The finish reasons of a whole answer. An answer with an unknown one is accepted only without calls."""
CALLING = frozenset({"tool_calls", "function_call"})
CUT = frozenset({"length", "content_filter"})


class Broken(Exception):
    """The stream brought no whole answer; the call is made again."""


class TooMuch(Exception):
    """The answer exceeds the agent's limits; `reason` says which."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(slots=True)
class AnswerCall:
    """A tool call as the model wrote it."""

    tool_call_id: str = ""
    names: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def name(self) -> str:
        """The tool's name, cut off at `NAME_CHARS` characters."""
        return jsontext.clean("".join(self.names)[:NAME_CHARS])

    @property
    def arguments(self) -> str:
        """The text of the arguments."""
        return jsontext.clean("".join(self.pieces))


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a call: the call's index in the answer, the tool's name so far, and the piece of the arguments."""

    index: int
    tool: str
    text: str


@dataclass(slots=True)
class _Thinking:
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    sealed: dict[str, Any] = field(default_factory=dict)

    def block(self) -> dict[str, Any]:
        return self.sealed or {"type": "thinking", "thinking": "".join(self.pieces), "signature": self.signature}


class ModelAnswer:
    """One answer of a model.

    `add` takes litellm's chunks of the stream; `received`, `heard`, `ended` and `refused` note what the provider itself sent.
    """

    def __init__(self, limits: Limits) -> None:
        self.blocks: AnthropicBlocks | None = None
        self.parts: KeptParts | None = None
        self.interface = ""
        """The provider's interface by which the answer came, unless it is the usual one."""
        self.details = ReasoningDetails()
        self.executed: set[str] = set()
        """The ids of the calls that the provider executes itself, if its stream names them."""
        self.restarts = 0
        """How often the provider has restarted the answer in its stream."""
        self.call_made_text = False
        """Whether litellm has turned the call that imitates a `response_format` into text."""
        self._limits = limits
        self._ended: str | None = None
        self._size = 0
        self._line = 0
        self._chunks = 0
        self.usage: Any = None
        """The provider's count of tokens, in litellm's form, if any."""
        self._output: tuple[object] | None = None
        self._exact = self._counted = False
        self._clear()

    def _clear(self) -> None:
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._thinking: list[_Thinking] = []
        self._calls: list[AnswerCall] = []
        self._at: dict[int, AnswerCall] = {}
        self._executed = 0

    # Noted from the provider's own stream.

    def received(self, data: bytes) -> bool:
        """Count bytes as they come; false once the answer is too large, or a line longer than any allowed answer."""
        end = data.rfind(b"\n")
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        if self._line > LINE_ROOM + LONGEST_ESCAPE * self._limits.reply_bytes:
            self._size = max(self._size, self._limits.reply_bytes + 1)
        return self._fits

    def heard(self, *, brought: int = 0) -> bool:
        """Count a piece of the provider's stream, and `brought` bytes that litellm does not hand on; false to stop reading."""
        self._chunks += 1
        self._size += brought
        return not self._barren and self._fits

    def ended(self, reason: object) -> None:
        """Note the provider's finish reason; of several, one that reports a cut or a failure counts."""
        if isinstance(reason, str) and reason not in NO_REASONS and self._ended not in CUT and not self._failed:
            self._ended = SAME.get(reason.lower(), reason)

    def used(self, usage: object) -> None:
        """Note the provider's count of tokens, which replaces litellm's."""
        if usage:
            self.usage, self._exact = usage, True

    def used_output(self, tokens: object) -> None:
        """Note Anthropic's last count of the answer's tokens; litellm's may be the first one, or an estimate."""
        self._output = None if tokens else (tokens,)

    def counted(self) -> None:
        """Note that the provider has counted tokens; otherwise litellm's count is an estimate."""
        self._counted = True

    def restarted(self) -> None:
        """Forget the answer so far, since the provider has restarted it."""
        self._clear()
        self._ended = None
        self.restarts += 1

    @property
    def told(self) -> bool:
        """Whether the finish reason is known and no count of tokens is still to come."""
        return self._ended is not None and (self._exact or not self._counted)

    def detailed(self, details: object) -> None:
        """Note OpenRouter's `reasoning_details`."""
        self._size += self.details.add(details)

    def refused(self, text: str) -> None:
        """Note a piece of a refusal, which OpenAI sends instead of text."""
        self._refusal.append(text)
        self._size += _bytes(text)

    # Folded from litellm's chunks.

    def add(self, chunk: Any) -> tuple[str, str, list[CallPiece]]:
        """Add a chunk to the answer; the text, the reasoning and the pieces of calls that it brought."""
        if self._counted and not self._exact:
            self.usage = getattr(chunk, "usage", None) or self.usage
        choice = next((one for one in chunk.choices or () if not getattr(one, "index", 0)), None)
        delta = getattr(choice, "delta", None)
        text, reasoning = _text(delta, "content"), _text(delta, "reasoning_content")
        if text:
            self._texts.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        self._size += _bytes(text) + _bytes(reasoning)
        if self.blocks is None:
            for block in getattr(delta, "thinking_blocks", None) or ():
                self._think(block)
        pieces = [self._add_call(place, part) for place, part in enumerate(getattr(delta, "tool_calls", None) or ())]
        self.check()
        return text, reasoning, [piece for piece in pieces if piece is not None]

    def check(self) -> None:
        """Check the answer so far against the limits."""
        if self._barren:
            raise Broken(f"the stream brought nothing in {EMPTY_CHUNKS} pieces")
        limits = self._limits
        if not self._fits:
            message = f"the model's answer has more than the {limits.reply_bytes} bytes that are allowed (Limits.reply_bytes)"
            raise TooMuch(FailureReason.REPLY_BYTES, message)
        if len(self._calls) - self._executed > limits.max_calls:
            message = f"the model asked for more than the {limits.max_calls} calls that are allowed (Limits.max_calls)"
            raise TooMuch(FailureReason.MAX_CALLS, message)

    def finish(self) -> None:
        """Check that the answer, whose stream has ended, is whole.

        Raises:
            Broken: The provider gave no finish reason, reported a failure, gave an unknown reason for an answer with calls, or
                announced calls and sent none.
            TooMuch: The answer exceeds the limits.
        """
        self.check()
        if self._ended is None:
            raise Broken("the stream ended before the provider said how the answer finished")
        if self._failed:
            raise Broken(f"the provider says that the answer failed (finish_reason {self._ended})")
        if self._ended not in KNOWN and self.calls():
            raise Broken(f"it is unknown whether the answer's calls are whole (finish_reason {self._ended})")
        if self._ended in CALLING and not self._calls and self._texts and self.call_made_text:
            self._ended = "stop"
        if self._ended in CALLING and not self._calls:
            raise Broken(f"the answer ended with finish_reason {self._ended} and without a call")

    # The whole answer.

    @property
    def finish_reason(self) -> str | None:
        """The finish reason; a refusal that was not cut off counts as `content_filter`."""
        if self._refusal and self._ended not in CUT:
            return "content_filter"
        return None if self._ended is None else jsontext.clean(self._ended[:REASON_CHARS])

    @property
    def content(self) -> str | None:
        """The text of the answer, else of the refusal; None without either."""
        pieces = self._texts or self._refusal
        return jsontext.clean("".join(pieces)) if pieces else None

    @property
    def reasoning(self) -> str | None:
        """The thinking that the model showed, if any."""
        return jsontext.clean("".join(self._reasoning)) or None

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """The token counts of the request and the answer; None if the provider gave none."""
        answered = getattr(self.usage, "completion_tokens", None) if self._output is None else self._output[0]
        return _count(getattr(self.usage, "prompt_tokens", None)), _count(answered)

    @property
    def token_details(self) -> tuple[int, int]:
        """How many of the request's tokens came from the provider's cache, and how many of the answer's are thinking."""
        asked, answered = (getattr(self.usage, f"{of}_tokens_details", None) for of in ("prompt", "completion"))
        found = _count(getattr(asked, "cached_tokens", None)), _count(getattr(answered, "reasoning_tokens", None))
        return found[0] or 0, found[1] or 0

    def calls(self) -> list[AnswerCall]:
        """The calls that are ours to answer, in the model's order."""
        return [call for call in self._calls if not self._is_executed(call.tool_call_id)]

    def provider(self, route: str) -> str | None:
        """A JSON object with the parts that only the provider reads, to be sent back on the same route; None without any."""
        found: dict[str, Any] = {}
        if self.blocks is not None:
            blocks = self.blocks.kept(self.content or "", self.reasoning or "", len(self.calls()))
            container = self.blocks.container() if blocks else None
            found = {"anthropic": blocks} if blocks else {}
            found |= {"container": jsontext.clean(container[:ID_CHARS])} if container else {}
        else:
            signatures = [call.signature for call in self.calls()]
            found |= {"thinking_blocks": [one.block() for one in self._thinking]} if self._thinking else {}
            found |= {"signatures": signatures} if any(signatures) else {}
            parts = self.parts.kept(self.content or "") if self.parts is not None else []
            details = self.details.kept(self.reasoning or "")
            found |= {"parts": parts} if parts else {}
            found |= {"reasoning_details": details} if details else {}
            found |= {"route": route + self.interface} if found else {}
        return jsontext.clean(jsontext.dumps(found)) if found else None

    @property
    def _barren(self) -> bool:
        return self._chunks - self._brought > EMPTY_CHUNKS

    @property
    def _brought(self) -> int:
        return self._size + (self.parts.size if self.parts is not None else 0)

    @property
    def _fits(self) -> bool:
        return self._brought <= self._limits.reply_bytes

    @property
    def _failed(self) -> bool:
        return self._ended is not None and self._ended.lower() in FAILED

    def _is_executed(self, call_id: str) -> bool:
        return (
            call_id.startswith(EXECUTED)
            or call_id in self.executed
            or (self.blocks is not None and call_id in self.blocks.executed)
        )

    def _think(self, block: Mapping[str, Any]) -> None:
        text, signature = str(block.get("thinking") or ""), str(block.get("signature") or "")
        if block.get("type") != "thinking":
            self._thinking.append(_Thinking(sealed=dict(block)))
            self._size += sum(_bytes(value) for value in block.values() if isinstance(value, str))
            return
        if not self._thinking or self._thinking[-1].sealed or self._thinking[-1].signature:
            self._thinking.append(_Thinking())
        self._thinking[-1].pieces.append(text)
        self._thinking[-1].signature = signature
        self._size += _bytes(signature)

    def _add_call(self, position: int, part: Any) -> CallPiece | None:
        """Add a piece of a call; returns it if the call is ours to answer."""
        function = getattr(part, "function", None)
        call_id, name, arguments = _text(part, "id"), _text(function, "name"), _text(function, "arguments")
        if not (call_id or name or arguments):
            return None
        index = getattr(part, "index", None)
        index = index if isinstance(index, int) else position
        call = self._at.get(index)
        # Servers that do not number calls send one after the other under the same index.
        if call is None or (name and call_id and call.tool_call_id not in ("", call_id.partition(SIGNED)[0][:ID_CHARS])):
            call = self._at[index] = AnswerCall()
            self._calls.append(call)
        own_id, _, signature = call_id.partition(SIGNED)
        if own_id and not call.tool_call_id:
            call.tool_call_id = jsontext.clean(own_id[:ID_CHARS])
            self._executed += self._is_executed(call.tool_call_id)
        call.signature = call.signature or jsontext.clean(signature)
        if name and sum(map(len, call.names)) < NAME_CHARS:
            call.names.append(name)
        if arguments:
            call.pieces.append(arguments)
        self._size += _bytes(call_id) + _bytes(name) + _bytes(arguments)
        if self._is_executed(call.tool_call_id):
            return None
        place = next(place for place, one in enumerate(self._calls) if one is call)
        index = sum(not self._is_executed(one.tool_call_id) for one in self._calls[:place]) if self._executed else place
        return CallPiece(index, call.name, arguments)


def _text(source: object, name: str) -> str:
    value = getattr(source, name, None)
    return value if isinstance(value, str) else ""


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _count(tokens: object) -> int | None:
    return tokens if type(tokens) is int and 0 <= tokens < 1 << 53 else None
