"""The marks by which providers cache what a request begins with, in litellm's words (`cache_control`).

Anthropic looks for what it has cached only some blocks back from a mark, so a request whose last answer and results are many
blocks has one more where the request before it ended.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

MARK = {"type": "ephemeral"}
MOST_MARKS = 4
"""How many marks a request may have, those of its tools included."""
BLOCKS_BACK = 20
"""How many blocks Anthropic looks back from a mark, the marked one included."""
MARKED: Mapping[str, Collection[str]] = {
    "bedrock": ("claude", "amazon.nova"),
    "openrouter": ("claude",),
    "databricks": ("claude",),
}
"""By route, the models whose marks litellm turns into what their provider wants, by a part of their name.

Other routes drop marks, or their providers cache without any.
"""
_NOVA = "amazon.nova"
"""The models that refuse a mark behind a result, and look back from none."""


def takes_marks(model: str, *, route: str, anthropic: bool, says: Callable[[str, str, str], Any]) -> bool:
    """Whether requests to a model are marked.

    `anthropic`: its interface is Anthropic's; `says` gives a fact of litellm's table about a model at a route.
    """
    named = any(part in model.lower() for part in MARKED.get(route, ()))
    return anthropic or (named and says(model, route, "supports_prompt_caching") is True)


def marked(
    sent: Sequence[dict[str, Any]], tools: Sequence[Mapping[str, Any]], model: str, *, anthropic: bool
) -> list[dict[str, Any]]:
    """The messages with marks behind the instructions and the last one, and where the request before ended if that is far.

    Only `anthropic` interfaces take a mark behind an image or a file; elsewhere it stands behind the last text of a message.
    """
    ends = _behind_people(sent) if _NOVA in model.lower() else _behind_requests(sent)
    places = [*ends[:1], *([0] if sent and sent[0]["role"] == "system" else []), *ends[1:]]
    chosen = places[: max(MOST_MARKS - sum("cache_control" in tool for tool in tools), 0)]
    return [_marked(message, anthropic=anthropic) if place in chosen else message for place, message in enumerate(sent)]


def _behind_requests(sent: Sequence[Mapping[str, Any]]) -> list[int]:
    """The place of the last message, and of the last one of the request before if too many blocks have come since."""
    if not sent or sent[-1]["role"] not in ("user", "tool"):
        return []
    before = len(sent) - 1
    for role in (("user", "tool"), ("assistant",)):
        while before >= 0 and sent[before]["role"] in role:
            before -= 1
    far = sum(_blocks(message) for message in sent[before + 1 :]) >= BLOCKS_BACK
    return [len(sent) - 1, before] if far and before >= 0 and sent[before]["role"] in ("user", "tool") else [len(sent) - 1]


def _behind_people(sent: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of the last two messages that neither are results nor follow any, the last one first."""
    roles = [None, *(message["role"] for message in sent)]
    return [place for place in range(len(sent) - 1, -1, -1) if roles[place + 1] == "user" and roles[place] != "tool"][:2]


def _blocks(message: Mapping[str, Any]) -> int:
    content, fields = message.get("content"), message.get("provider_specific_fields") or {}
    if message["role"] == "tool":
        return 1
    return (
        (len(content) if isinstance(content, list) else int(bool(content)))
        + len(message.get("tool_calls") or ())
        + len(message.get("thinking_blocks") or ())
        + len(fields.get("compaction_blocks") or ())
    )


def _marked(message: dict[str, Any], *, anthropic: bool) -> dict[str, Any]:
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list):
        return {**message, "cache_control": MARK}
    last = max((place for place, part in enumerate(content) if anthropic or part.get("type") == "text"), default=None)
    parts = [{**part, "cache_control": MARK} if place == last else part for place, part in enumerate(content)]
    return {**message, "content": parts}
