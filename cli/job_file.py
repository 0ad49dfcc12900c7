"""The file that `holdfast submit` takes: one JSON object a line, all checked before anything starts."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from holdfast.agent import App
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.terms.parts import check_size, content_of
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

from .errors import InvalidLines

DIGEST_LENGTH = 12
MOST_LINES = 20
_FIX = 'correct it and submit again (a line is such as {"agent": "desk", "messages": ["hello"]}); nothing was started'


class Line(BaseModel):
    """One line: a conversation's agent, the user's messages in order, and whether a person is there to ask."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    agent: str
    messages: Annotated[list[Any] | tuple[Any, ...], Field(min_length=1)]
    conversation_id: Annotated[str, BeforeValidator(check_conversation_id)] = ""
    context: Any = None
    attended: bool = True


class Job(Line):
    """The conversation to run for a line; `line` is the line's number."""

    line: int

    def message_id(self, index: int) -> str:
        """The message id of a message, so that a second run of the file repeats nothing."""
        return f"{self.conversation_id}:m{index}"


def read(path: Path, app: App) -> list[Job]:
    """The jobs of a file. A line without a conversation id gets one from the file's digest and the line's number."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(str(path), f"it cannot be read ({error.strerror or error})", "name a file that can") from error
    digest = hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]
    jobs: dict[str, Job] = {}
    wrong = []
    for number, text in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = _line(text, app)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            wrong.append(f"line {number}: {'.'.join(map(str, first['loc'])) or 'it':.60}: {first['msg']}")
        except (UnicodeDecodeError, jsontext.NotJson) as error:
            wrong.append(f"line {number}: it is not JSON in UTF-8 ({error})")
        except InvalidInput as error:
            wrong.append(f"line {number}: {error}")
        else:
            name = line.conversation_id or f"{digest}-{number}"
            job = Job(line=number, **line.model_dump() | {"conversation_id": name})
            if (before := jobs.setdefault(name, job)) is not job:
                wrong.append(f"line {number}: conversation_id: line {before.line} has {name!r} already; use another")
    if wrong:
        raise InvalidLines(str(path), f"{len(wrong)} of its lines cannot be used", _FIX, tuple(wrong[:MOST_LINES]))
    if not jobs:
        raise InvalidInput(str(path), "there is no line in it", 'write one object a line: {"agent": ..., "messages": [...]}')
    return list(jobs.values())


def _line(text: bytes, app: App) -> Line:
    line = Line.model_validate(jsontext.loads(text.decode()))
    names = [known.name for known in app.agents]
    if line.agent not in names:
        raise InvalidInput(
            "agent", f"the app declares no agent {line.agent!r:.60}", f"name one of {', '.join(map(repr, names))}"
        )
    most = app.agent(line.agent).spec.limits.message_bytes
    for index, message in enumerate(line.messages):
        field = f"messages.{index}"
        check_size(content_of(message, field), most, field, "shorten it, or raise Limits.message_bytes")
    return line
