"""The built-in tool with which a model reads on in a result that it was sent a preview of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from holdfast.conversation.terms.context import READ_RESULT
from holdfast.conversation.text.excerpt import FIND_CHARACTERS, PAGE_CHARACTERS

from .tool import Tool

LARGEST_OFFSET = 1_000_000_000
LONGEST_CALL = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call of the tool asks for: at most `limit` characters from `offset`, or the places of `find` from there."""

    call: str
    offset: int
    limit: int
    find: str


class ReadResult(Tool):
    """The tool of an agent whose long results are sent as previews. A worker reads the conversation's log for its calls.

    Attributes:
        tokens: The most tokens of what is read at once.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__(name=READ_RESULT, callback=_read)
        self.tokens = tokens

    def reading(self, arguments: Mapping[str, Any]) -> Reading:
        """What a call with these arguments asks for; `InvalidArguments` if they do not fit."""
        return Reading(**(arguments if self._parameters is None else self._parameters.values(arguments)))


async def _read(
    call: Annotated[str, Field(max_length=LONGEST_CALL)],
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET)] = 0,
    limit: Annotated[int, Field(ge=1, le=PAGE_CHARACTERS)] = PAGE_CHARACTERS,
    find: Annotated[str, Field(max_length=FIND_CHARACTERS)] = "",
) -> None:
    """Read more of an earlier result of which you were shown a preview.

    Args:
        call: The `call` of the preview.
        offset: The character to begin at; a preview has those before its `shown`.
        limit: How many characters at most.
        find: Instead of a page, show the places of this exact text from `offset` on.
    """
    del call, offset, limit, find
    raise RuntimeError("read_result has no body of its own: a worker reads the conversation's log")
