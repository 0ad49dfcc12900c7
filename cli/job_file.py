"""The file that `holdfast submit` takes: one JSON object a line, all checked before anything starts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.agent import App
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

from .errors import InvalidLines

DIGEST_LENGTH = 12
MOST_LINES = 20
_KEYS = ("agent", "messages", "conversation_id", "context", "attended")
_FIX = "correct it and submit again; nothing was started"


@dataclass(frozen=True, slots=True)
class Job:
    """One conversation to run: its agent, the user's messages in order, and whether a person is there to ask."""

    line: int
    conversation_id: str
    agent: str
    messages: tuple[str, ...]
    context: Any = None
    attended: bool = True

    def message_id(self, index: int) -> str:
        """The message id of a message, so that a second run of the file repeats nothing."""
        return f"{self.conversation_id}:m{index}"


class _Wrong(Exception):
    """An invalid line; the message names the field and the fix."""


def read(path: Path, app: App) -> list[Job]:
    """The jobs of a file. A line without a conversation id gets one from the file's digest and the line's number."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(str(path), f"it cannot be read ({error.strerror or error})", "name a file that can") from error
    digest = hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]
    jobs: dict[str, Job] = {}
    wrong = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            job = _job(number, line, digest, app)
        except _Wrong as error:
            wrong.append(f"line {number}: {error}")
            continue
        before = jobs.setdefault(job.conversation_id, job)
        if before is not job:
            wrong.append(f"line {number}: conversation_id: line {before.line} has {job.conversation_id!r} already; use another")
    if wrong:
        raise InvalidLines(str(path), f"{len(wrong)} of its lines cannot be used", _FIX, tuple(wrong[:MOST_LINES]))
    if not jobs:
        raise InvalidInput(str(path), "there is no line in it", 'write one object a line: {"agent": ..., "messages": [...]}')
    return list(jobs.values())


def _job(number: int, line: bytes, digest: str, app: App) -> Job:
    try:
        value = jsontext.loads(line.decode())
    except UnicodeDecodeError as error:
        raise _Wrong(f"it is not UTF-8 ({error.reason} at byte {error.start}); save the file as UTF-8") from error
    except jsontext.NotJson as error:
        raise _Wrong(f"it is not JSON ({error}); write one object a line") from error
    if not isinstance(value, dict):
        raise _Wrong(f"it is {_kind(value)}; write one object a line")
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise _Wrong(f"{unknown[0]!r:.60} is no key of a job; use {', '.join(_KEYS)}")
    names = [known.name for known in app.agents]
    agent, use = value.get("agent"), f"name one of {', '.join(map(repr, names))}"
    if not isinstance(agent, str):
        raise _Wrong(f"agent: {'it is missing' if 'agent' not in value else f'it is {_kind(agent)}'}; {use}")
    if agent not in names:
        raise _Wrong(f"agent: the app declares no agent {agent!r:.60}; {use}")
    try:
        conversation_id = check_conversation_id(value.get("conversation_id", f"{digest}-{number}"))
    except InvalidInput as error:
        raise _Wrong(str(error)) from error
    messages = _messages(value, app.agent(agent).spec.limits.message_bytes)
    attended = value.get("attended", True)
    if not isinstance(attended, bool):
        raise _Wrong(f"attended: it is {_kind(attended)}; give true or false")
    return Job(number, conversation_id, agent, messages, value.get("context"), attended)


def _messages(value: Mapping[str, Any], limit_bytes: int) -> tuple[str, ...]:
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        problem = "they are missing" if "messages" not in value else f"they are {_kind(messages)}"
        raise _Wrong(f"messages: {problem}; give a list of the user's texts, one at least")
    for index, text in enumerate(messages):
        if not isinstance(text, str):
            raise _Wrong(f"messages[{index}]: it is {_kind(text)}; give the user's text")
        if jsontext.size_bytes(text) > limit_bytes:
            raise _Wrong(f"messages[{index}]: it has more than {limit_bytes} bytes; shorten it, or raise Limits.message_bytes")
    return tuple(messages)


def _kind(value: object) -> str:
    if value == []:
        return "an empty list"
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
