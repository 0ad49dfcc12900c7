"""The request to a model: the transcript's messages as its provider takes them, and the spec's tools.

A transcript's message has more than providers take: its reasoning, its finish reason, and parts for one provider only.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import AgentSpec, Executor, ToolSpec
from holdfast.conversation.terms.reply import DESCRIPTION, FINAL_ANSWER
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

from . import anthropic_blocks, kept_parts

SENT = ("role", "content", "tool_calls", "tool_call_id", "name")
"""The keys of a message that every provider takes; many refuse unknown keys."""
OF_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
"""The options that say how tools are called."""
DECLARED = frozenset({"bedrock", "bedrock_converse"})
"""The interfaces, besides Anthropic's, that refuse calls in the transcript unless their tools are declared."""


def messages(transcript: Sequence[dict[str, Any]], *, instructions: str, route: str, anthropic: bool) -> list[dict[str, Any]]:
    """The messages to send, instructions first; the transcript's stay as they are.

    `route` names the provider's interface: parts for one provider go back only on the route that they came from. `anthropic`:
    the interface is Anthropic's, on whatever route.
    """
    sent: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    answered = _answered(transcript) if anthropic else frozenset()
    open_from = _open_from(transcript)
    for place, message in enumerate(transcript):
        if message["role"] == "assistant" and anthropic:
            sent += _to_anthropic(message, answered, last=place >= open_from)
            continue
        plain = _plain(message)
        provider = message.get("provider") or {}
        sent += _signed(plain, message, provider) if provider.get("route") == route else [plain]
    return sent


def container(transcript: Sequence[Mapping[str, Any]]) -> str | None:
    """The container in which Anthropic's code waits for the results at the end of the transcript, if any."""
    last: Mapping[str, Any] = next((message for message in reversed(transcript) if message["role"] != "tool"), {})
    found = (last.get("provider") or {}).get("container")
    return found if isinstance(found, str) else None


def tools(spec: AgentSpec, hidden: Callable[[ToolSpec], bool] = lambda _: False) -> list[dict[str, Any]]:
    """The spec's tools as a provider takes them, without hidden ones; those that the provider executes as declared."""
    return [_tool(spec, tool.name) for tool in spec.tools if not hidden(tool)]


def without_tools(
    options: Mapping[str, Any], tools: list[dict[str, Any]], *, route: str, anthropic: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a request that offers no tools, and what it says of them.

    Where calls in the transcript must have their tools declared, these stay. Anthropic's interface is told that none may be
    called; the others have no word for that.
    """
    kept = {name: value for name, value in options.items() if name not in OF_TOOLS}
    if not tools or not (anthropic or route in DECLARED):
        return kept, {}
    return kept, {"tools": tools, **({"tool_choice": "none"} if anthropic else {})}


def final_answer(schema: JsonText) -> dict[str, Any]:
    """The built-in call that gives the reply, as providers take it; `schema` is the agent's `reply`."""
    function = {"name": FINAL_ANSWER, "description": DESCRIPTION, "parameters": jsontext.loads(schema)}
    return {"type": "function", "function": function}


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """The message with tool calls that every provider takes back: a legal name, and arguments that parse.

    The model's own text stays in the log; the result of the call has told the model what was wrong.
    """
    plain = {key: message[key] for key in SENT if key in message}  # a copy: litellm may change what it is given
    if isinstance(plain.get("content"), list):
        plain["content"] = copy.deepcopy(plain["content"])
    if "tool_calls" in plain:
        plain["tool_calls"] = [_call(called) for called in plain["tool_calls"]]
    return plain


def _signed(plain: dict[str, Any], message: Mapping[str, Any], provider: Mapping[str, Any]) -> list[dict[str, Any]]:
    # litellm turns thinking without a signature into text.
    blocks = [dict(block) for block in provider.get("thinking_blocks", ()) if block.get("signature", True)]
    if blocks:
        plain["thinking_blocks"] = blocks
    if "reasoning_details" in provider:
        details, reasoning = provider["reasoning_details"], message.get("reasoning_content") or ""
        plain["reasoning_details"] = kept_parts.details_whole(details, reasoning)
    for called, signature in zip(plain.get("tool_calls", ()), provider.get("signatures", ()), strict=False):
        if signature:
            called["provider_specific_fields"] = {"thought_signature": signature}
    return kept_parts.messages(provider["parts"], plain) if provider.get("parts") else [plain]


def _call(called: dict[str, Any]) -> dict[str, Any]:
    name, arguments = called["function"]["name"], called["function"]["arguments"]
    try:
        jsontext.loads(arguments)
    except jsontext.NotJson:
        arguments = "{}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"
    return {**called, "function": {"name": name, "arguments": arguments}}


def _open_from(transcript: Sequence[Mapping[str, Any]]) -> int:
    """The place of the first assistant message that the provider continues, with or without results of our calls."""
    place = len(transcript)
    for role in ("tool", "assistant"):
        while place and transcript[place - 1]["role"] == role:
            place -= 1
    return place


def _answered(transcript: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The ids of the calls that Anthropic executed and answered, in the same message or in a continuation."""
    return frozenset(
        str(block["tool_use_id"])
        for message in transcript
        for block in (message.get("provider") or {}).get("anthropic") or ()
        if str(block.get("type")).endswith(anthropic_blocks.RESULT) and "tool_use_id" in block
    )


def _to_anthropic(message: dict[str, Any], answered: frozenset[str], *, last: bool) -> list[dict[str, Any]]:
    """The messages to send for an assistant message, which litellm joins; `last`: the provider continues it."""
    plain = _plain(message)
    blocks = anthropic_blocks.whole((message.get("provider") or {}).get("anthropic") or (), message)
    if not blocks:
        return [plain]
    return [_block_message(block, plain) for block in anthropic_blocks.acceptable(blocks, answered, last=last)]


def _block_message(block: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == anthropic_blocks.OURS:
        called = plain["tool_calls"][block["index"]]
        caller = block.get(anthropic_blocks.CALLER)
        if caller is None:
            return {"role": "assistant", "content": None, "tool_calls": [called]}
        function = called["function"]  # litellm's form of a call has no place for who made it
        call = {"id": called["id"], "name": function["name"], "input": jsontext.loads(function["arguments"])}
        block = {"type": anthropic_blocks.OURS, **call, anthropic_blocks.CALLER: caller}
    # litellm rebuilds the blocks that it knows and drops others, but passes those under this name on as they are.
    return {"role": "assistant", "content": None, "provider_specific_fields": {"compaction_blocks": [block]}}


def _tool(spec: AgentSpec, name: str) -> dict[str, Any]:
    tool = spec.tool(name)
    if tool is None or (tool.executor is Executor.PROVIDER and tool.definition is not None):
        return dict(jsontext.loads(tool.definition)) if tool is not None and tool.definition is not None else {}
    function = {"name": tool.name, "description": tool.description, "parameters": jsontext.loads(tool.parameters)}
    return {"type": "function", "function": function}
