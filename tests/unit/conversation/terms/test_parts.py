"""The parts of messages: which are accepted, and what they are in words, in the chat format and as a tool's result."""

import base64

import pytest

from holdfast.conversation.terms.parts import (
    LONGEST_URL,
    FilePart,
    ImagePart,
    TextPart,
    content_of,
    in_chat_format,
    in_words,
    result_of,
)
from holdfast.errors import InvalidInput, InvalidMessage

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8
DATA = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PDF = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1.7 ...').decode()}"
TEXT = {"type": "text", "text": "What is it?"}


def image(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


def file(**given):
    return {"type": "file", "file": given}


BAD = {
    "a number": (7, "text", "int is neither a string nor a list of parts"),
    "bytes": (b"x", "text", "bytes is neither"),
    "an object": ({"type": "text", "text": "x"}, "text", "dict is neither"),
    "no parts": ([], "text", "it has 0 parts"),
    "65 parts": ([TEXT] * 65, "text", "it has 65 parts"),
    "a text as a part": (["x"], "text[0]", "str is no part"),
    "a list as a part": ([[TEXT]], "text[0]", "list is no part"),
    "an unknown type": ([TEXT, {"type": "input_audio"}], "text[1].type", "'input_audio' is no type of part"),
    "a type that is no text": ([{"type": 7}], "text[0].type", "7 is no type of part"),
    "no text": ([{"type": "text"}], "text[0].text", "Field required"),
    "an empty text": ([{"type": "text", "text": ""}], "text[0].text", "it is empty"),
    "a lone surrogate": ([{"type": "text", "text": "\ud800"}], "text[0].text", "a lone surrogate"),
    "a number as a text": ([{"type": "text", "text": 7}], "text[0].text", "valid string"),
    "an unknown field": ([{**TEXT, "cache_control": {}}], "text[0].cache_control", "not permitted"),
    "parts in parts": ([{"type": "text", "text": [TEXT]}], "text[0].text", "valid string"),
    "an image that is a text": ([{"type": "image_url", "image_url": DATA}], "text[0].image_url", "dictionary"),
    "http": ([image("http://a.example/x.png")], "text[0].image_url.url", "no https URL"),
    "a user in a URL": ([image("https://u:p@a.example/x.png")], "text[0].image_url.url", "no https URL"),
    "a user alone": ([image("https://u@a.example/x.png")], "text[0].image_url.url", "no https URL"),
    "a file's URL": ([image("file:///etc/passwd")], "text[0].image_url.url", "no https URL"),
    "a blank in a URL": ([image("https://a.example/x y")], "text[0].image_url.url", "no https URL"),
    "a line break in a URL": ([image("https://a.example/\nx")], "text[0].image_url.url", "no https URL"),
    "a backslash in a URL": ([image("https://a.example\\@b.example/")], "text[0].image_url.url", "no https URL"),
    "no host": ([image("https:///x.png")], "text[0].image_url.url", "no https URL"),
    "a long URL": ([image("https://a.example/" + "x" * LONGEST_URL)], "text[0].image_url.url", "8210 characters, 8192 are"),
    "data of another type": ([image(DATA.replace("png", "jpeg"))], "text[0].image_url.url", "the data are not image/jpeg"),
    "an svg": ([image("data:image/svg+xml;base64,PHN2Zz4=")], "text[0].image_url.url", "image/svg\\+xml is no type of image"),
    "data without base64": ([image("data:image/png,x")], "text[0].image_url.url", "no data URL in base64"),
    "data with a parameter": ([image("data:image/png;a=b;base64,AAAA")], "text[0].image_url.url", "no data URL in base64"),
    "data with a break": ([image(DATA[:40] + "\n" + DATA[40:])], "text[0].image_url.url", "cannot be decoded"),
    "base64 of other letters": ([image("data:image/png;base64,AA_-")], "text[0].image_url.url", "cannot be decoded"),
    "base64 beyond ASCII": ([image(DATA + "ä")], "text[0].image_url.url", "cannot be decoded"),
    "base64 behind its padding": ([image("data:image/png;base64,AA==AAAA")], "text[0].image_url.url", "cannot be decoded"),
    "no data": ([file(file_data="data:application/zip;base64,")], "text[0].file.file_data", "the data are not application/zip"),
    "base64 without padding": ([image("data:image/png;base64,AAA")], "text[0].image_url.url", "cannot be decoded"),
    "an unknown detail": ([image(DATA, detail="best")], "text[0].image_url.detail", "'auto', 'low' or 'high'"),
    "an empty file": ([file()], "text[0].file", "not exactly one of file_data and file_url"),
    "a file twice": ([file(file_data=PDF, file_url="https://a.example")], "text[0].file", "not exactly one"),
    "a file's id": ([file(file_id="file-1")], "text[0].file.file_id", "not permitted"),
    "a URL as data": ([file(file_data="https://a.example/x.pdf")], "text[0].file.file_data", "no data URL"),
    "data as a URL": ([file(file_url=PDF)], "text[0].file.file_url", "no https URL|8192"),
    "a pdf that is none": (
        [file(file_data="data:application/pdf;base64,AAAA")],
        "text[0].file.file_data",
        "not application/pdf",
    ),
    "a text that is none": ([file(file_data="data:text/plain;base64,/////w==")], "text[0].file.file_data", "not text/plain"),
    "a path as a name": ([file(file_data=PDF, filename="../x.pdf")], "text[0].file.filename", "no name of a file"),
    "a long name": ([file(file_data=PDF, filename="x" * 256)], "text[0].file.filename", "no name of a file"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_content_is_refused_by_its_field(what):
    value, field, problem = BAD[what]
    with pytest.raises(InvalidMessage, match=problem) as refused:
        content_of(value)
    assert refused.value.field == field
    assert refused.value.fix


def test_parts_are_accepted_as_objects_and_in_the_chat_format_alike():
    made = [TextPart.of("What is it?"), ImagePart.of(PNG, detail="low"), FilePart.of(b"%PDF-1.7 ...", filename="a.pdf")]
    said = [TEXT, image(DATA, detail="low"), file(file_data=PDF, filename="a.pdf")]
    assert content_of(made) == content_of(said) == content_of(tuple(said)) == tuple(made)
    assert in_chat_format(content_of(made)) == said


def test_urls_are_accepted_where_nobody_fetches_them():
    said = [
        image("https://a.example:8443/x.png?sig=%20&a=b#c"),
        image("https://[::1]/x"),
        file(file_url="https://a.example/x.pdf"),
    ]
    assert in_chat_format(content_of(said)) == said


def test_64_parts_are_accepted_and_a_url_of_the_greatest_length():
    assert len(content_of([TEXT] * 64)) == 64
    prefix = "https://a.example/"
    assert content_of([image(prefix + "x" * (LONGEST_URL - len(prefix)))])


def test_a_text_stays_a_text():
    assert content_of("x") == in_chat_format("x") == in_words("x") == "x"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_the_type_of_an_image_is_seen_from_its_bytes(data, kind):
    part = ImagePart.of(data)
    assert part.image_url.url.startswith(f"data:{kind};base64,")
    assert content_of([part]) == (part,)


def test_bytes_that_are_no_image_need_a_type():
    with pytest.raises(InvalidInput, match="none of image/png"):
        ImagePart.of(b"<svg/>")
    with pytest.raises(InvalidInput, match="none of"):
        FilePart.of(b"\xff\xff")
    assert FilePart.of("Grüße".encode()).file.file_data.startswith("data:text/plain;base64,")


def test_an_attachment_is_one_word():
    said = [TEXT, image(DATA), file(file_url="https://a.example/x"), file(file_data=PDF, filename="a.pdf")]
    assert in_words(said) == "What is it?\n[image]\n[file]\n[file a.pdf]"


def test_a_tool_returns_parts_beside_its_envelope():
    picture, pdf = ImagePart.of(PNG), FilePart.of(b"%PDF-1")
    shown = [{"type": "text", "text": "two"}, {"type": "image_url", "attached": 1}, {"type": "file", "attached": 2}]
    assert result_of([TextPart.of("two"), picture, pdf]) == (shown, (picture, pdf))
    assert result_of(picture) == ([{"type": "image_url", "attached": 1}], (picture,))


@pytest.mark.parametrize("value", ["x", None, [], (), [1, 2], {"a": 1}, [image(DATA)], [TextPart.of("x"), 1]])
def test_other_results_stay_as_they_are(value):
    assert result_of(value) == (value, ())


def test_a_result_of_parts_that_are_none_is_refused():
    with pytest.raises(InvalidInput, match=r"result\[0\].image_url.url"):
        result_of([ImagePart.of("http://a.example/x.png")])
