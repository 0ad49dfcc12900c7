"""Sending messages and tools by OpenAI's SDK as they are.

The SDK compares each value of a request with every type that it might convert. In JSON there is nothing to convert, and with a
long history this took nine tenths of a call's processor time. It sends `extra_body` without looking at it.
"""

from typing import Any

WHOLE = ("messages", "tools")


class _Create:
    def __init__(self, create: Any) -> None:
        self._create = create

    async def __call__(self, **asked: Any) -> Any:
        whole = {name: asked[name] for name in WHOLE if isinstance(asked.get(name), list)}
        extra = whole | (asked.get("extra_body") or {})
        return await self._create(**asked | dict.fromkeys(whole, ()) | {"extra_body": extra})


def spare(source: Any) -> None:
    """Let the client of a stream, which litellm keeps for its next calls, send messages and tools as they are."""
    raw = source._client.chat.completions.with_raw_response  # noqa: SLF001 - litellm does not hand out its clients
    if not isinstance(raw.create, _Create):
        raw.create = _Create(raw.create)
