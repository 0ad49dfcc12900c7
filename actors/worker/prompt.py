"""The request to a model: the transcript's messages as its provider takes them, and the spec's tools.

A message of the transcript has more than providers take: its reasoning, how it was cut off, and parts for one provider only.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import AgentSpec, Executor, ToolSpec, jsontext

from . import anthropic_blocks

SENT = ("role", "content", "tool_calls", "tool_call_id", "name")
"""The keys of a message that every provider takes; many providers refuse a key that they do not know."""


def messages(transcript: Sequence[dict[str, Any]], *, instructions: str, route: str, anthropic: bool) -> list[dict[str, Any]]:
    """The messages to send, instructions first.

    Args:
        transcript: The messages of the transcript, which are left as they are.
        instructions: The system message, if not empty.
        route: The name of the provider's interface; parts for one provider only go back on the route that they came from.
        anthropic: Whether the interface is Anthropic's, on whatever route.
    """
    sent: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    run: list[dict[str, Any]] = []
    for place, message in enumerate(transcript):
        if message["role"] == "assistant" and anthropic:
            run.append(message)
            if place + 1 == len(transcript) or transcript[place + 1]["role"] != "assistant":
                sent += _to_anthropic(run, last=place + 1 == len(transcript))
                run = []
            continue
        plain = _plain(message)
        provider = message.get("provider") or {}
        if provider.get("route") == route:
            _add_signed(plain, provider)
        sent.append(plain)
    return sent


def tools(spec: AgentSpec, hidden: Callable[[ToolSpec], bool] = lambda _: False) -> list[dict[str, Any]]:
    """The spec's tools as a provider takes them, but for the hidden ones; those that the provider executes as declared."""
    return [_tool(spec, tool.name) for tool in spec.tools if not hidden(tool)]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """The message with tool calls that every provider takes back: a legal name, and arguments that parse.

    The text that the model really wrote stays in the log; the result of the call has told the model what was wrong.
    """
    plain = {key: message[key] for key in SENT if key in message}  # a copy: litellm may change what it is given
    if "tool_calls" in plain:
        plain["tool_calls"] = [_call(called) for called in plain["tool_calls"]]
    return plain


def _add_signed(plain: dict[str, Any], provider: Mapping[str, Any]) -> None:
    """Add the thinking that led to the message and to its calls, as litellm takes it."""
    if "thinking_blocks" in provider:
        plain["thinking_blocks"] = [dict(block) for block in provider["thinking_blocks"]]
    for called, signature in zip(plain.get("tool_calls", ()), provider.get("signatures", ()), strict=False):
        if signature:
            called["provider_specific_fields"] = {"thought_signature": signature}


def _call(called: dict[str, Any]) -> dict[str, Any]:
    name, arguments = called["function"]["name"], called["function"]["arguments"]
    try:
        jsontext.loads(arguments)
    except jsontext.NotJson:
        arguments = "{}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"
    return {**called, "function": {"name": name, "arguments": arguments}}


def _to_anthropic(run: Sequence[dict[str, Any]], *, last: bool) -> list[dict[str, Any]]:
    """The messages to send for successive assistant messages, which litellm joins; `last`: the provider goes on from them."""
    wholes = [anthropic_blocks.whole((message.get("provider") or {}).get("anthropic") or (), message) for message in run]
    answered = frozenset(
        str(block["tool_use_id"])
        for blocks in wholes
        for block in blocks
        if str(block.get("type")).endswith(anthropic_blocks.RESULT) and "tool_use_id" in block
    )
    sent: list[dict[str, Any]] = []
    for message, blocks in zip(run, wholes, strict=True):
        plain = _plain(message)
        if not blocks:
            sent.append(plain)
            continue
        sent += [_block_message(block, plain) for block in anthropic_blocks.acceptable(blocks, answered, last=last)]
    return sent


def _block_message(block: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == anthropic_blocks.OURS:
        return {"role": "assistant", "content": None, "tool_calls": [plain["tool_calls"][block["index"]]]}
    # litellm rebuilds the blocks that it knows and drops others, but passes those under this name on as they are.
    return {"role": "assistant", "content": None, "provider_specific_fields": {"compaction_blocks": [block]}}


def _tool(spec: AgentSpec, name: str) -> dict[str, Any]:
    tool = spec.tool(name)
    if tool is None or (tool.executor is Executor.PROVIDER and tool.definition is not None):
        return dict(jsontext.loads(tool.definition)) if tool is not None and tool.definition is not None else {}
    function = {"name": tool.name, "description": tool.description, "parameters": jsontext.loads(tool.parameters)}
    return {"type": "function", "function": function}
