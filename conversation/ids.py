"""Ids: which are accepted from outside, and how the machine makes its own."""

import base64
import hashlib
import re
from collections.abc import Callable, Collection, Sequence

from holdfast.errors import InvalidConversationId, InvalidInput

CONVERSATION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The name of a tool, as in OpenAI's format."""
CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
REWRITTEN = "hf_"
"""The prefix of rewritten call ids. A model's own id with this prefix is rewritten too, so a model can foresee none."""
CHILD = "d-"
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,200}")


def check_conversation_id(conversation_id: object) -> str:
    """The conversation id itself, once it is checked against `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`."""
    if isinstance(conversation_id, str) and CONVERSATION_ID.fullmatch(conversation_id):
        return conversation_id
    shown = repr(conversation_id)
    raise InvalidConversationId(
        "conversation_id",
        f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not a conversation id",  # noqa: PLR2004 - a line's width
        "use 1 to 128 letters, digits, '.', '_', ':' or '-', beginning with a letter or digit",
    )


def check_request_id(field: str, value: object, error: type[InvalidInput]) -> str:
    """The idempotency key itself, once it is checked (else `error`): 1 to 200 printable ASCII characters without spaces."""
    if isinstance(value, str) and REQUEST_ID.fullmatch(value):
        return value
    problem = f"{value!r:.60} is not an id"
    raise error(field, problem, "use 1 to 200 printable ASCII characters without spaces, or leave it out")


def conversation_id_from(message_id: str) -> str:
    """The conversation id that `start` derives from a message id alone, so that one id is enough to retry."""
    return "c-" + digest("conversation", message_id)


def turn_id(number: int) -> str:
    """The id of a conversation's n-th turn, from 1."""
    return f"t{number}"


def compaction_id(seq: int) -> str:
    """What stands in place of a turn's id while a conversation is summarised between turns; `seq` is that of the request."""
    return f"c{seq}"


def is_compaction_id(name: str, *, last: int) -> bool:
    """Whether a name is such an id, of an entry of the log up to `last`."""
    return name[:1] == "c" and is_turn_id(f"t{name[1:]}", last=last)


def is_turn_id(name: str, *, last: int) -> bool:
    """Whether a name is the id of a turn up to number `last`."""
    number = name[1 : len(turn_id(last)) + 1]
    return number.isascii() and number.isdigit() and 1 <= int(number) <= last and name == turn_id(int(number))


def suspension_id(conversation_id: str, tool_call_id: str, ordinal: int, arguments: str) -> str:
    """The id of a call's n-th suspension; it stands for the arguments that were shown."""
    return "s-" + digest(conversation_id, tool_call_id, str(ordinal), arguments)


def child_id(suspension_id: str) -> str:
    """The id of the conversation that a suspended call is delegated to."""
    return CHILD + digest("child", suspension_id)


def may_be_child(conversation_id: str) -> bool:
    """Whether the id is like one of `child_id`; who starts a conversation may choose such an id, too."""
    return conversation_id.startswith(CHILD)


def digest(*parts: str, length: int = 20) -> str:
    """A short lower-case digest of the parts, 5 bits a character."""
    return base64.b32encode(sha256_of(*parts)).decode().lower()[:length]


def sha256_of(*parts: str) -> bytes:
    """The SHA-256 over the parts with their lengths: the same text split differently has another one."""
    return hashlib.sha256(packed(*parts)).digest()


def packed(*parts: str) -> bytes:
    """The parts with their lengths, as hashes and signatures take them."""
    raw = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join([piece for one in raw for piece in (len(one).to_bytes(8, "big"), one)])


def payload_digest(kind: str, *parts: str, **later: str | None) -> str:
    """The digest by which two starts, messages or decisions count as the same.

    Receipts keep it for ever. A field that a later release adds is therefore passed by name and left out if not given, so a
    repetition is still recognised after an upgrade.
    """
    return digest(kind, *parts, *(f"{name}={value}" for name, value in sorted(later.items()) if value is not None))


def unique_call_ids(proposed: Sequence[str], used: Collection[str], scope: str, key: Callable[[str], str]) -> list[str]:
    """Call ids unique in the conversation for ever: a proposed id is kept if it is well-formed and new, else rewritten.

    Args:
        proposed: The model's ids, in its order; they may be empty, too long or repeated.
        used: Keys of the ids that the conversation has used.
        scope: A text that makes rewritten ids unique (conversation and effect).
        key: The function from an id to its key in `used`.
    """
    unique: dict[str, None] = {}
    for index, call_id in enumerate(proposed):
        fresh = call_id
        taken = fresh in unique or fresh.startswith(REWRITTEN) or key(fresh) in used
        if taken or not CALL_ID.fullmatch(fresh):
            fresh = REWRITTEN + digest(scope, str(index), call_id)
        unique[fresh] = None
    return list(unique)
