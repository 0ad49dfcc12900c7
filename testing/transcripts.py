"""What a model server is asked and answers: scripts written by hand, replays of recorded transcripts, the wire format.

A message is a dict in the OpenAI chat format. An assistant message's tool calls look like
`{"id": "call_1", "type": "function", "function": {"name": "refund", "arguments": '{"order": 7}'}}`.
"""

import hashlib
import heapq
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.conversation.terms.money import MOST_USD

Message: TypeAlias = dict[str, Any]
"""A message in the OpenAI chat format."""

Answers: TypeAlias = Sequence[Message | str] | Callable[[dict[str, Any]], Message | str]
"""A script: assistant messages in their order (a str is plain text), or a function from the request's body to one."""

_COMPARED_ROLES = frozenset({"user", "assistant"})
_PIECES = 8  # content and arguments are streamed in at most so many fragments
_BYTES_PER_TOKEN = 4  # usage is an estimate


COST = "cost_usd"
"""What an answer cost in a rehearsal, beside the provider's count of its tokens; no provider sends it."""
_MORE = ("finish_reason", "reasoning_content", "usage", "events", "blocks", "stop_reason")
"""The keys that an answer may have beside the format's own: `say`, `events` and `blocks` write them."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached the server, whether it was answered, held, failed or broken off.

    Attributes:
        body: The parsed JSON body: `model`, `messages`, `tools` and so on.
        arrived_at_s: When the server had read the whole request, in seconds of Unix time.
        authorization: The `Authorization` header; None without one.
    """

    body: dict[str, Any]
    arrived_at_s: float
    authorization: str | None


class NoAnswer(LookupError):
    """The script or the recordings have no answer to this request; the server replies 400 with this text.

    Either the conversation left the recording (the error's text names the first difference), or the script is too short.
    """


def say(
    text: str, *, finish_reason: str | None = "stop", reasoning: str | None = None, usage: Mapping[str, Any] | None = None
) -> Message:
    """An assistant message of plain text.

    `finish_reason` stands at the stream's end; with None the stream has no end. `reasoning` is the thinking that the model
    shows, sent before the text. `usage` is the provider's count of tokens in OpenAI's form, such as `{"prompt_tokens": 900,
    "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 512}}`; without it a server estimates them, and a
    rehearsal does not know them. `cost_usd` in it is what the answer cost in a rehearsal, where no model has a price.
    """
    message: Message = {"role": "assistant", "content": text}
    more: Message = {"reasoning_content": reasoning} if reasoning is not None else {}
    more |= {} if usage is None else {"usage": dict(usage)}
    return message | more | ({"finish_reason": finish_reason} if finish_reason != "stop" else {})


def events(*frames: Mapping[str, Any] | str) -> Message:
    """An assistant message streamed as these events: the JSON of each, or text as it is, with its blank line."""
    return {"role": "assistant", "content": None, "events": list(frames)}


def call(
    tool: str,
    arguments: Mapping[str, Any] | str,
    id: str | None = None,  # noqa: A002 - the format's word
    *,
    usage: Mapping[str, Any] | None = None,
) -> Message:
    """An assistant message that calls one tool.

    Args:
        tool: The tool's name.
        arguments: The arguments, or their text as it is (also text that is no JSON, which models do write).
        id: The tool call's id; made up if it is left out.
        usage: As `say(usage=...)`.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call_id = _new_call_id() if id is None else id
    tool_call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": text}}
    counted = {} if usage is None else {"usage": dict(usage)}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]} | counted


def calls(*messages: Message, content: str | None = None, usage: Mapping[str, Any] | None = None) -> Message:
    """One assistant message with the tool calls of several: `calls(call("look_up", {}), call("ask", {}))`."""
    tool_calls = [tool_call for message in messages for tool_call in message["tool_calls"]]
    counted = {} if usage is None else {"usage": dict(usage)}
    return {"role": "assistant", "content": content, "tool_calls": tool_calls} | counted


class Script:
    """Answers written by hand, lent to one request after the other.

    Args:
        answers: Assistant messages, used up in the order in which requests are answered; or a function of the request's
            body, called in the server's thread (so it must not block; `ModelServer.hold` is for that).

    Raises:
        ValueError: An answer is no assistant message; the text names its place and the fault.
    """

    def __init__(self, answers: Answers) -> None:
        self._function = answers if callable(answers) else None
        listed = [] if callable(answers) else answers
        self._messages = [complete(answer, f"script[{number}]") for number, answer in enumerate(listed)]
        self._unused = list(range(len(self._messages)))  # a heap: an answer that comes back is the next to go out

    @contextmanager
    def lend(self, request: dict[str, Any]) -> Iterator[Message]:
        """The next answer, for as long as it takes to send it; an exception inside puts it back for the retry.

        `NoAnswer` if all answers are used up.
        """
        if self._function is not None:
            yield complete(self._function(request), "the script's answer")
            return
        if not self._unused:
            raise NoAnswer(f"the script is exhausted: all of its {len(self._messages)} answers are used up")
        number = heapq.heappop(self._unused)
        try:
            yield self._messages[number]
        except BaseException:
            heapq.heappush(self._unused, number)
            raise


class Replay:
    """Answers from recorded transcripts; a pure function of the request, so a retry gets the same answer.

    A request is matched by its user and assistant messages alone: by role, content, and of tool calls the function names
    and the arguments' text. System and tool messages and tool call ids do not count. Each request costs one pass over
    its messages, however many transcripts there are.

    Raises:
        ValueError: Two transcripts start the same and then answer differently, or a message is ill-formed.
    """

    def __init__(self, transcripts: Iterable[Sequence[Message]]) -> None:
        self._next: dict[bytes, Message] = {}
        self._known: set[bytes] = set()
        for number, transcript in enumerate(transcripts):
            self._add(number, transcript)

    @classmethod
    def from_files(cls, *paths: str | Path) -> "Replay":
        """Read JSON Lines files: each line an object with `messages`, or the list of messages itself.

        Raises:
            ValueError: A line is neither (the text names the file and the line), or see the class.
            OSError: A file cannot be read.
        """
        return cls(transcript for path in paths for transcript in _read_transcripts(Path(path)))

    def answer(self, request: dict[str, Any]) -> Message:
        """The recorded assistant message that follows the request's messages, with its recorded tool call ids.

        Raises:
            NoAnswer: No transcript continues these messages; the text says how far one agrees.
        """
        compared = [message for message in request["messages"] if message.get("role") in _COMPARED_ROLES]
        digest = b""
        for number, message in enumerate(compared):
            digest = _extend(digest, message)
            if digest not in self._known:
                raise NoAnswer(
                    f"no recorded transcript matches: of the request's {len(compared)} user and assistant messages the "
                    f"first {number} agree with a recording, then none has {_short(message)}"
                )
        if digest not in self._next:
            raise NoAnswer(
                f"the recording ends here: it has the request's {len(compared)} user and assistant messages, "
                "and no assistant message after them"
            )
        return self._next[digest]

    @contextmanager
    def lend(self, request: dict[str, Any]) -> Iterator[Message]:
        """The same as `answer`, in the shape of `Script.lend`."""
        yield self.answer(request)

    def _add(self, number: int, transcript: Sequence[Message]) -> None:
        digest = b""
        for place, message in enumerate(transcript):
            if message.get("role") not in _COMPARED_ROLES:
                continue
            following = _extend(digest, message)
            if message["role"] == "assistant":
                where = f"transcript {number}, message {place}"
                recorded = self._next.setdefault(digest, complete(message, where))
                if _extend(digest, recorded) != following:
                    raise ValueError(f"{where}: another transcript starts the same and then answers {_short(recorded)}")
            digest = following
            self._known.add(digest)


class Completion:
    """The wire format of the answer to a request's body: a `chat.completion`, or a stream of `chat.completion.chunk`."""

    def __init__(self, request: dict[str, Any], message: Message) -> None:
        self._message = message
        self._finish_reason = message.get("finish_reason", "tool_calls" if message.get("tool_calls") else "stop")
        self._with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        sizes = [max(1, len(json.dumps(part)) // _BYTES_PER_TOKEN) for part in (request, message)]
        estimate = {"prompt_tokens": sizes[0], "completion_tokens": sizes[1]}
        self._usage = _counted(message.get("usage", estimate))
        self._head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request.get("model"),
            "system_fingerprint": None,
        }

    def whole(self) -> dict[str, Any]:
        """The body of an unstreamed answer."""
        message = {key: value for key, value in self._message.items() if key not in ("finish_reason", "usage")}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    @property
    def end(self) -> bytes:
        """The last bytes of a whole stream."""
        return b"" if "events" in self._message else b"data: [DONE]\n\n"

    def frames(self) -> Iterator[bytes]:
        """The stream, event by event."""
        for frame in self._message.get("events") or self.chunks():
            yield (frame if isinstance(frame, str) else f"data: {json.dumps(frame)}\n\n").encode()

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The stream: role, fragments of content, fragments of tool calls, finish reason, and usage on request."""
        for delta in self._deltas():
            yield self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], None)
        if self._finish_reason is not None:
            ending = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": self._finish_reason}
            yield self._chunk([ending], None)
        if self._with_usage:
            yield self._chunk([], self._usage)

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return {**chunk, "usage": usage} if self._with_usage else chunk

    def _deltas(self) -> Iterator[dict[str, Any]]:
        content, tool_calls = self._message["content"], self._message.get("tool_calls", ())
        yield {"role": "assistant", "content": None if content is None else ""}
        for piece in pieces_of(self._message.get("reasoning_content") or ""):
            yield {"reasoning_content": piece}
        for piece in pieces_of(content or ""):
            yield {"content": piece}
        for index, tool_call in enumerate(tool_calls):
            function = tool_call["function"]
            yield {"tool_calls": [{"index": index, **tool_call, "function": {**function, "arguments": ""}}]}
            for piece in pieces_of(function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _counted(usage: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in usage.items() if name != COST}
    return {**said, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}


def pieces_of(text: str, most: int = _PIECES) -> Iterator[str]:
    """The text in fragments of the same size, at most so many."""
    size = -(-len(text) // most) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def read_script(path: str | Path) -> list[Message | str]:
    """Read a script from a JSON file: a list of assistant messages or of strings.

    Raises:
        ValueError: The file holds something else.
        OSError: The file cannot be read.
    """
    script = _parse(Path(path).read_text(encoding="utf-8"), str(path))
    if not isinstance(script, list):
        raise _malformed(str(path), "a script is a JSON list of assistant messages or strings", script)
    return script


def _read_transcripts(path: Path) -> Iterator[list[Message]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            row = _parse(line, f"{path}:{number}")
            messages = row.get("messages") if isinstance(row, dict) else row
            if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
                raise _malformed(f"{path}:{number}", "expected an object with `messages`, or a list of messages", row)
            yield messages


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: not JSON: {error}") from error


def complete(answer: Any, where: str) -> Message:
    """The answer as a whole assistant message: text gets its role, tool calls their ids and types.

    Raises:
        ValueError: The answer is no assistant message; the text names its place (`where`) and the fault.
    """
    message: Any = say(answer) if isinstance(answer, str) else answer
    if not isinstance(message, dict) or message.get("role", "assistant") != "assistant":
        raise _malformed(where, "no assistant message", answer)
    if not isinstance(message.get("content"), str | None):
        raise _malformed(f"{where}.content", "must be a string or null", message["content"])
    usage = message.get("usage", {"prompt_tokens": 0, "completion_tokens": 0})
    if not isinstance(usage, dict) or not all(type(usage.get(f"{of}_tokens")) is int for of in ("prompt", "completion")):
        raise _malformed(f"{where}.usage", "must have prompt_tokens and completion_tokens", usage)
    cost = usage.get(COST, 0)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < MOST_USD:
        raise _malformed(f"{where}.usage.{COST}", "must be US dollars", usage)
    complete: Message = {"role": "assistant", "content": message.get("content")}
    complete |= {key: message[key] for key in _MORE if key in message}
    tool_calls = message.get("tool_calls") or []
    if tool_calls:
        complete["tool_calls"] = [_complete_call(item, f"{where}.tool_calls[{i}]") for i, item in enumerate(tool_calls)]
    return complete


def _complete_call(tool_call: Any, where: str) -> dict[str, Any]:
    function = tool_call.get("function") if isinstance(tool_call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _malformed(where, "has no function name", tool_call)
    if not isinstance(function.get("arguments"), str):
        raise _malformed(f"{where}.function.arguments", "must be JSON text, a string", tool_call)
    return {
        "id": tool_call.get("id") or _new_call_id(),
        "type": "function",
        "function": {"name": function["name"], "arguments": function["arguments"]},
    }


def _malformed(where: str, rule: str, value: Any) -> ValueError:
    return ValueError(f"{where}: {rule}: {_short(value)}")


def _new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _extend(digest: bytes, message: Message) -> bytes:
    """The digest of a transcript, extended by one compared message."""
    functions = [tool_call.get("function") or {} for tool_call in message.get("tool_calls") or []]
    compared = [
        message["role"],
        _text(message.get("content")),
        [[function.get("name"), function.get("arguments")] for function in functions],
    ]
    return hashlib.blake2b(digest + json.dumps(compared).encode(), digest_size=16).digest()


def _text(content: Any) -> str:
    """Content as text; null, absent and empty are the same, and so are a string and its parts."""
    if isinstance(content, list):
        return "".join(part["text"] if part.get("type") == "text" else json.dumps(part) for part in content)
    return content or ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004 - about two lines
