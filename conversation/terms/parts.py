"""What a message says: a text, or parts of it as in OpenAI's chat format: texts, images and files.

An image or a file is given by an https URL, which Holdfast never fetches, or by its data, as a `data:` URL in base64.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError

from holdfast.conversation.record import Record
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidDecision, InvalidInput, InvalidMessage

MOST_PARTS = 64
LONGEST_URL = 8192
"""The longest https URL, in characters: signed ones of object stores have some two thousand."""

_BEGINNINGS: Mapping[str, Callable[[bytes], bool]] = {
    "image/png": lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda data: data.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda data: data.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP",
    "application/pdf": lambda data: data.startswith(b"%PDF-"),
}
"""By media type: whether data begin as that type's do. Its images are those that a part may be."""
_IMAGES = tuple(kind for kind in _BEGINNINGS if kind.startswith("image/"))
_DATA = re.compile(r"data:([a-z]+/[a-z0-9][a-z0-9.+-]{0,100});base64,")
_URL = re.compile(r"https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][\x21-\x5b\x5d-\x7e]*)?")
_NAME = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]{1,255}")


class TextPart(Record):
    """A text among the parts of a message.

    Attributes:
        text: The text, not empty.
    """

    type: Literal["text"]
    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The part of a text."""
        return cls(type="text", text=text)


class ImageUrl(Record):
    """Where an image is, and how closely the model is to look at it.

    Attributes:
        url: An https URL, which Holdfast never fetches, or `data:image/png;base64,...` (png, jpeg, gif or webp).
        detail: How closely; None leaves it to the provider.
    """

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(Record):
    """An image among the parts of a message or of a tool's result."""

    type: Literal["image_url"]
    image_url: ImageUrl

    @classmethod
    def of(cls, image: str | bytes, *, detail: Literal["auto", "low", "high"] | None = None) -> Self:
        """The part of an image: its https URL, its `data:` URL, or its bytes (png, jpeg, gif or webp)."""
        return cls(type="image_url", image_url=ImageUrl(url=_data_url(image, _IMAGES, "image"), detail=detail))


class FileData(Record):
    """A file: its data or its URL, one of the two.

    Attributes:
        file_data: `data:application/pdf;base64,...`.
        file_url: An https URL, which Holdfast never fetches.
        filename: The file's name, for the model.
    """

    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class FilePart(Record):
    """A file among the parts of a message or of a tool's result; most models take PDF alone."""

    type: Literal["file"]
    file: FileData

    @classmethod
    def of(cls, file: str | bytes, *, filename: str | None = None) -> Self:
        """The part of a file: its https URL, its `data:` URL, or the bytes of a PDF, an image or a text in UTF-8."""
        url = _data_url(file, (*_BEGINNINGS, "text/plain"), "file")
        given = {"file_url": url} if url.startswith("https:") else {"file_data": url}
        return cls(type="file", file=FileData(**given, filename=filename))


Attachment: TypeAlias = Annotated[ImagePart | FilePart, Field(discriminator="type")]
"""A part that is no text."""
Part: TypeAlias = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]
Content: TypeAlias = str | tuple[Part, ...]
"""What a message says."""
GivenContent: TypeAlias = str | Sequence[Part | Mapping[str, Any]]
"""What a message says, as callers give it: parts may be dictionaries in OpenAI's format."""
_PARTS: Mapping[str, type[TextPart | ImagePart | FilePart]] = {"text": TextPart, "image_url": ImagePart, "file": FilePart}


def content_of(value: object, field: str = "text", *, refusal: type[InvalidInput] = InvalidMessage) -> Content:
    """A text, or the parts in a list of parts or of dictionaries in OpenAI's format, checked; only their size is not."""
    if isinstance(value, str):
        try:
            return jsontext.check_text(value)
        except jsontext.NotJson as error:
            raise refusal(field, str(error), "give text that can be encoded as UTF-8") from error
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray | memoryview):
        raise refusal(field, f"{type(value).__name__} is neither a string nor a list of parts", "give one of them")
    if not 1 <= len(value) <= MOST_PARTS:
        raise refusal(field, f"it has {len(value)} parts", f"give 1 to {MOST_PARTS}")
    return tuple(_part_of(one, f"{field}[{place}]", refusal) for place, one in enumerate(value))


def check_size(content: Content, most_bytes: int, field: str, fix: str) -> None:
    """Refuse (`InvalidMessage`) a content that is longer than `most_bytes`."""
    size = jsontext.size_bytes(content) if isinstance(content, str) else size_of(content)
    if size > most_bytes:
        raise InvalidMessage(field, f"it has {size} bytes, {most_bytes} are allowed", fix)


def in_chat_format(content: Content) -> str | list[dict[str, Any]]:
    """The content as OpenAI's chat format has it."""
    return content if isinstance(content, str) else [part.model_dump(exclude_none=True) for part in content]


def size_of(parts: Sequence[TextPart | ImagePart | FilePart]) -> int:
    """The size of parts in bytes: of everything that they say, in UTF-8."""
    return sum(map(jsontext.size_bytes, said_by(parts)))


def said_by(parts: Sequence[TextPart | ImagePart | FilePart]) -> tuple[str, ...]:
    """Everything that parts say, in an order that their types fix: what their digests are made of."""
    return tuple(said for part in parts for said in (part.type, *_said(part)))


def _said(part: TextPart | ImagePart | FilePart) -> tuple[str, ...]:
    match part:
        case TextPart():
            return (part.text,)
        case ImagePart():
            return (part.image_url.url, part.image_url.detail or "")
        case FilePart():
            return (part.file.file_data or "", part.file.file_url or "", part.file.filename or "")


def result_of(value: object) -> tuple[Any, tuple[ImagePart | FilePart, ...]]:
    """What a tool returned, as a value for its envelope and the attachments: parts, one or a list of nothing else.

    In the value, an attachment is its type and its number. Any other value is returned as it is, without attachments.
    """
    given = _parts_in(value)
    if not given:
        return value, ()
    shown, attached = list[Any](), list[ImagePart | FilePart]()
    for part in content_of(given, "result", refusal=InvalidInput):
        if isinstance(part, ImagePart | FilePart):
            attached.append(part)
            shown.append({"type": part.type, "attached": len(attached)})
        elif isinstance(part, TextPart):
            shown.append(part.model_dump())
    return shown, tuple(attached)


def client_result_of(value: Any) -> tuple[Any, tuple[ImagePart | FilePart, ...]]:
    """What a client returned as JSON, likewise: a list of nothing but parts in the chat format, an image or a file among them.

    Raises:
        InvalidDecision: It is such a list, and a part cannot be used.
    """
    given = value if isinstance(value, list) else []
    kinds = [one.get("type") if isinstance(one, Mapping) else None for one in given]
    if not all(kind in tuple(_PARTS) for kind in kinds) or all(kind == "text" for kind in kinds):
        return value, ()
    return result_of(content_of(value, "decision.value", refusal=InvalidDecision))


def plain(value: Any) -> Any:
    """Parts, one or a list of nothing else, in the chat format; any other value as it is."""
    return in_chat_format(tuple(_parts_in(value))) if _parts_in(value) else value


def _parts_in(value: object) -> Sequence[TextPart | ImagePart | FilePart]:
    given = value if isinstance(value, list | tuple) else (value,)
    return given if all(isinstance(one, TextPart | ImagePart | FilePart) for one in given) else ()


def in_words(content: str | Sequence[Mapping[str, Any]]) -> str:
    """A content in the chat format, for a reader of text: an image is `[image]`, a file `[file]` with its name."""
    return content if isinstance(content, str) else "\n".join(map(_words, content))


def _words(part: Mapping[str, Any]) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url"}:
            return "[image]"
        case {"type": "file", "file": {"filename": str(name)}}:
            return f"[file {name}]"
    return "[file]"


def _data_url(given: str | bytes, kinds: Sequence[str], what: str) -> str:
    if isinstance(given, str):
        return given
    kind = next((kind for kind in kinds if kind in _BEGINNINGS and _BEGINNINGS[kind](given)), None)
    if kind is None and "text/plain" in kinds and _is_text(given):
        kind = "text/plain"
    if kind is None:
        raise InvalidMessage(
            what, f"its {len(given)} bytes are none of {', '.join(kinds)}", "give data:<media type>;base64,<data>"
        )
    return f"data:{kind};base64,{base64.b64encode(given).decode()}"


def _is_text(data: bytes) -> bool:
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


def _part_of(value: object, field: str, refusal: type[InvalidInput]) -> TextPart | ImagePart | FilePart:
    if not isinstance(value, TextPart | ImagePart | FilePart):
        kind = value.get("type") if isinstance(value, Mapping) else None
        if not isinstance(kind, str) or kind not in _PARTS:
            shown = f"{type(value).__name__} is no part" if kind is None else f"{kind!r:.60} is no type of part"
            raise refusal(
                f"{field}.type" if kind is not None else field, shown, f'give {{"type": ...}}, one of {", ".join(_PARTS)}'
            )
        try:
            value = _PARTS[kind].model_validate(value, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join((field, *map(str, first["loc"])))
            raise refusal(f"{where:.200}", str(first["msg"]), "write it as OpenAI's chat format does") from error
    _check(value, field, refusal)
    return value


def _check(part: TextPart | ImagePart | FilePart, field: str, refusal: type[InvalidInput]) -> None:
    match part:
        case TextPart():
            if not content_of(part.text, f"{field}.text", refusal=refusal):
                raise refusal(f"{field}.text", "it is empty", "leave the part out")
        case ImagePart():
            url, where = part.image_url.url, f"{field}.image_url.url"
            if url.startswith("data:"):
                _check_data(url, where, refusal, _IMAGES)
            else:
                _check_url(url, where, refusal)
        case FilePart():
            given = (part.file.file_data, part.file.file_url)
            if given.count(None) != 1:
                raise refusal(f"{field}.file", "it has not exactly one of file_data and file_url", "give one of the two")
            if part.file.file_data is not None:
                _check_data(part.file.file_data, f"{field}.file.file_data", refusal)
            else:
                _check_url(str(part.file.file_url), f"{field}.file.file_url", refusal)
            name = part.file.filename
            if name is not None and not _NAME.fullmatch(name):
                fix = "use 1 to 255 characters without slashes and control characters"
                raise refusal(f"{field}.file.filename", "it is no name of a file", fix)


def _check_url(url: str, field: str, refusal: type[InvalidInput]) -> None:
    if len(url) > LONGEST_URL:
        raise refusal(field, f"it has {len(url)} characters, {LONGEST_URL} are allowed", "use a shorter one")
    if not _URL.fullmatch(url):
        fix = "give https://..., without a user, or data:<media type>;base64,<data>"
        raise refusal(field, "it is no https URL in ASCII", fix)


def _check_data(url: str, field: str, refusal: type[InvalidInput], kinds: Sequence[str] | None = None) -> None:
    """Refuse what is not data of its media type, which is one of `kinds` (None: any)."""
    found = _DATA.match(url)
    if found is None:
        raise refusal(
            field, "it is no data URL in base64", "write data:<media type>;base64,<data>, without parameters or breaks"
        )
    kind = found[1]
    if kinds is not None and kind not in kinds:
        raise refusal(field, f"{kind} is no type of image that models take", f"use {', '.join(kinds)}")
    try:
        data = binascii.a2b_base64(url[found.end() :], strict_mode=True)
    except ValueError as error:
        raise refusal(field, f"its base64 cannot be decoded ({error})", "encode the data again") from error
    if not (_is_text(data) if kind.startswith("text/") else _BEGINNINGS.get(kind, bool)(data)):
        raise refusal(field, f"the data are not {kind}", "name the type that the data have")
