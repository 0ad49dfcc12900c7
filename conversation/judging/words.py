"""People's reasons and comments: storable text of bounded length."""

from holdfast.conversation.terms.spec import AgentSpec, Limits
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput


def check_words(text: str, spec: AgentSpec | None, field: str, error: type[InvalidInput]) -> None:
    """Refuse (as `error`, for `field`) text that UTF-8 cannot encode, or that exceeds `Limits.note_bytes`."""
    try:
        jsontext.check_text(text)
    except jsontext.NotJson as problem:
        raise error(field, str(problem), "give text that can be encoded as UTF-8") from problem
    size, most = jsontext.size_bytes(text), (spec.limits if spec is not None else Limits()).note_bytes
    if size > most:
        raise error(field, f"it has {size} bytes, {most} are allowed", "shorten it")
