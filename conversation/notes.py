"""The request for a summary: its instructions, and the messages as data in an envelope of Holdfast's.

A text among them is nobody's word to the model that summarises. All is pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.conversation.terms.parts import in_words
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import to_summarize
from holdfast.conversation.text.tokens import text_tokens

PROMPT = (
    "You write notes of a conversation between a person and an assistant that uses tools. The assistant goes on with your "
    "notes in place of the messages. Keep: what the person wants, and every decision and constraint; names, numbers, "
    "identifiers, paths and dates, exactly as they are written; what was found and done, with which result; what failed, "
    "and why; what is left to do. Leave out greetings and repetitions. If the messages begin with earlier notes, yours take "
    "their place: keep what still matters of them. Write short sentences, in the language of the conversation."
)
"""The instructions for summaries, if the agent has none of its own."""


def request(messages: Iterable[Mapping[str, Any]], *, notes: bool) -> list[dict[str, Any]]:
    """The messages of a request for a summary, behind the instructions; the first of those is the last summary if `notes`."""
    shown = [dict(_shown(message)) for message in messages]
    if notes:
        shown[0]["role"] = "notes"
    return [{"role": "user", "content": to_summarize(shown)}]


def tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """About how many tokens messages have in a request for a summary."""
    return sum(text_tokens(jsontext.dumps(dict(_shown(message)))) for message in messages)


def _shown(message: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """A message as the model that summarises reads it; what Holdfast has said in it is no person's word."""
    yield "role", "holdfast" if "misfit" in message else message["role"]
    if message["role"] == "tool":
        yield "tool", message.get("name", "")
    if message.get("content") is not None:
        words = in_words(message["content"])
        yield "content", _read(words) if message["role"] == "tool" else words
    if "tool_calls" in message:
        yield (
            "calls",
            [{"tool": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in message["tool_calls"]],
        )


def _read(result: str) -> Any:
    """A result as JSON, which would have twice as many quotes within a text; as it is if it is no object."""
    try:
        value = jsontext.loads(result)
    except jsontext.NotJson:
        return result
    return value if isinstance(value, dict) else result
