"""The request for a summary: its instructions, and the messages as data in an envelope of Holdfast's.

A text among them is nobody's word to the model that summarises. All is pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.conversation.terms.parts import in_words
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import to_summarize
from holdfast.conversation.text.jsontext import JsonText
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
    texts = [_shown(message, notes=notes and place == 0) for place, message in enumerate(messages)]
    return [{"role": "user", "content": to_summarize(texts)}]


def tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """About how many tokens messages have in a request for a summary."""
    return sum(text_tokens(_shown(message)) for message in messages)


def _shown(message: Mapping[str, Any], *, notes: bool = False) -> JsonText:
    """A message as the model that summarises reads it; what Holdfast has said in it is no person's word."""
    role = "notes" if notes else "holdfast" if "misfit" in message else message["role"]
    said = {"role": jsontext.dumps(role)}
    if message["role"] == "tool":
        said["tool"] = jsontext.dumps(message.get("name", ""))
    if message.get("content") is not None:
        words = in_words(message["content"])
        said["content"] = _written(words) if message["role"] == "tool" else jsontext.dumps(words)
    if "tool_calls" in message:
        said["calls"] = f"[{','.join(map(_call, message['tool_calls']))}]"
    return _joined(said)


def _call(call: Mapping[str, Any]) -> JsonText:
    asked = call["function"]
    return _joined({"tool": jsontext.dumps(asked["name"]), "arguments": _written(asked["arguments"])})


def _written(text: str) -> JsonText:
    """A result or arguments as they are if they are an object: as a text within JSON they would have twice as many quotes."""
    try:
        written = isinstance(jsontext.loads(text), dict)
    except jsontext.NotJson:
        written = False
    return text if written else jsontext.dumps(text)


def _joined(said: Mapping[str, JsonText]) -> JsonText:
    """An object of texts that are JSON already: no bound of depth or number counts for all of them together."""
    return f"{{{','.join(f'{jsontext.dumps(name)}:{text}' for name, text in said.items())}}}"
