"""The content blocks of an answer in Anthropic's stream: kept as they came, and sent back unchanged.

litellm loses the order of text, thinking and calls, and takes a call that Anthropic executed itself for one of ours. Anthropic
verifies signed thinking by its place, and refuses a result whose call does not precede it. Texts are not kept twice: a block's
`length` says how many characters of the message's text, or reasoning, belong to it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.text import jsontext

OURS = "tool_use"
RESULT = "_tool_result"
CALLER = "caller"
"""The field of one of our calls that says which of the provider's code made it."""
TEXTS = {"text": "text", "thinking": "thinking"}
"""The name of the field that holds a block's text, by block type."""


class AnthropicBlocks:
    """Collects the blocks of one answer from the events of its stream."""

    def __init__(self) -> None:
        self.executed: set[str] = set()
        self._container: str | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, event: Mapping[str, Any], size: int) -> int:
        """Add an event of `size` bytes to its block; how many of these bytes litellm does not hand on."""
        index, kind = event.get("index"), event.get("type")
        part = event.get("content_block") if kind == "content_block_start" else event.get("delta")
        if not (isinstance(index, int) and isinstance(part, dict) and isinstance(part.get("type"), str)):
            return 0
        if kind == "content_block_start":
            return self._start(index, part, size)
        if kind == "content_block_delta" and index in self._blocks:
            return self._delta(index, part["type"], part, size)
        return 0

    def within(self, message: object) -> None:
        """Note the container in which Anthropic's code runs, named at the beginning or the end of a message."""
        match message:
            case {"container": {"id": str(container)}}:
                self._container = container

    def container(self) -> str | None:
        """The container in which Anthropic's code waits for our calls, if any."""
        return self._container if any(_is_codes(block) for block in self._blocks.values()) else None

    def _start(self, index: int, block: dict[str, Any], size: int) -> int:
        kind = block["type"]
        self._blocks[index] = dict(block)
        self._pieces[index] = [str(block.get(TEXTS[kind]) or "")] if kind in TEXTS else []
        if kind in (OURS, *TEXTS):
            return 0
        if isinstance(block.get("id"), str):
            self.executed.add(block["id"])
        return size

    def _delta(self, index: int, kind: str, fields: Mapping[str, Any], size: int) -> int:
        block = self._blocks[index]
        match kind, fields:
            case (
                ("text_delta", {"text": str(piece)})
                | ("thinking_delta", {"thinking": str(piece)})
                | ("input_json_delta", {"partial_json": str(piece)})  # of our calls and of the provider's
            ):
                self._pieces[index].append(piece)
                return 0  # litellm hands it on
            case "signature_delta", {"signature": str(piece)}:
                block["signature"] = piece
            case "citations_delta", {"citation": citation}:
                block["citations"] = block.get("citations") or []
                block["citations"].append(citation)
            case _:
                for name, piece in fields.items():  # such as the content of a compaction
                    if name == "type":
                        continue
                    before = block.get(name)
                    block[name] = before + piece if isinstance(before, str) and isinstance(piece, str) else piece
        return size

    def kept(self, content: str, reasoning: str, calls: int) -> list[dict[str, Any]]:
        """The blocks to keep beside the message; none if the message has all that they have."""
        blocks = [self._blocks[index] | {"_": "".join(self._pieces[index])} for index in sorted(self._blocks)]
        plain = all(block["type"] in (OURS, "text") and not (block.get("citations") or block.get(CALLER)) for block in blocks)
        if plain or sum(block["type"] == OURS for block in blocks) != calls:
            return []
        said = {
            kind: "".join(jsontext.clean(block["_"]) for block in blocks if block["type"] == kind) == whole
            for kind, whole in (("text", content), ("thinking", reasoning))
        }
        return [_kept(block, said) for block in blocks]


def _is_codes(block: Mapping[str, Any]) -> bool:
    caller = block.get(CALLER)
    return block.get("type") == OURS and isinstance(caller, dict) and caller.get("type") != "direct"


def in_deltas(event: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The deltas for an event whose content comes in one piece, which litellm does not read; None if litellm reads the event.

    A call that Anthropic's code makes has its arguments in its first event, or in the message's.
    """
    block, message = event.get("content_block"), event.get("message")
    if isinstance(block, dict):
        given = block.get("input") if block.get("type") == OURS else None
        return _begun(event.get("index"), block) if given else None
    content = message.get("content") if isinstance(message, dict) else None
    if not (isinstance(message, dict) and isinstance(content, list) and content):
        return None
    found: list[dict[str, Any]] = [{**event, "message": message | {"content": []}}]
    for index, one in enumerate(content):
        if isinstance(one, dict):
            found += [*_begun(index, one), {"type": "content_block_stop", "index": index}]
    if message.get("stop_reason"):
        usage = message.get("usage") if isinstance(message.get("usage"), dict) else {}
        ending = {"stop_reason": message["stop_reason"], "stop_sequence": message.get("stop_sequence")}
        found.append({"type": "message_delta", "delta": ending, "usage": usage})
    return found


def _begun(index: object, block: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"type": "content_block_start", "index": index}
    if block.get("type") != OURS:
        return [{**start, "content_block": block}]
    delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input") or {})}
    opening = {**start, "content_block": block | {"input": {}}}
    return [opening, {"type": "content_block_delta", "index": index, "delta": delta}]


def _kept(block: dict[str, Any], said: Mapping[str, bool]) -> dict[str, Any]:
    kind, pieces = block["type"], block.pop("_")
    if kind == OURS:
        return {"type": kind} | ({CALLER: block[CALLER]} if block.get(CALLER) else {})
    if kind in TEXTS:
        text = jsontext.clean(pieces)
        block.pop(TEXTS[kind], None)
        return block | ({"length": len(text)} if said[kind] else {TEXTS[kind]: text})
    if pieces:
        try:
            block["input"] = jsontext.loads(pieces)
        except jsontext.NotJson:  # the input was cut off
            block["input"] = {}
    return block


def whole(blocks: Sequence[Mapping[str, Any]], message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks as they came, rebuilt from those kept with a transcript's message; our calls have only an `index`."""
    texts = {"text": message.get("content") or "", "thinking": message.get("reasoning_content") or ""}
    places, calls = dict.fromkeys(texts, 0), 0
    found: list[dict[str, Any]] = []
    for kept in blocks:
        block = dict(kept)
        kind = block.get("type")
        if kind == OURS:
            block["index"] = calls
            calls += 1
        elif kind in TEXTS and isinstance(length := block.pop("length", None), int):
            block[TEXTS[kind]] = texts[kind][places[kind] : places[kind] + length]
            places[kind] += length
        found.append(block)
    return found


def acceptable(blocks: Sequence[dict[str, Any]], answered: frozenset[str], *, last: bool) -> list[dict[str, Any]]:
    """The blocks of a message that Anthropic takes back: an answer that was cut off has incomplete ones.

    `answered` are the ids of the provider's calls with results, here or in continuations; `last`: more results may still come.
    """

    def complete(block: Mapping[str, Any]) -> bool:
        match block:
            case {"type": "thinking"}:
                return bool(block.get("signature"))
            case {"type": "text"}:
                return bool(block.get("text"))
            case {"type": str(kind), "id": str(call_id)} if kind.endswith("_tool_use"):
                return last or call_id in answered
        return True

    return [block for block in blocks if complete(block)]
