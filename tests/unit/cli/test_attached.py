"""Images and files of `holdfast send`: read before anything is reached."""

import pytest

from holdfast.cli.verbs import _read
from holdfast.conversation.terms.parts import FilePart, ImagePart
from holdfast.errors import InvalidMessage

PNG = b"\x89PNG\r\n\x1a\n"


def read(**given):
    options = {"text": "What is it?", "image": None, "file": None, **given}
    _read(options)
    return options["image"], options["file"]


def test_files_are_read_and_urls_are_passed_on(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    urls = "https://a.example/x.png", "https://a.example/x.pdf"
    images, files = read(image=[str(tmp_path / "a.png"), urls[0]], file=[str(tmp_path / "a.pdf"), urls[1]])
    assert images == [ImagePart.of(PNG), ImagePart.of(urls[0])]
    assert files == [FilePart.of(b"%PDF-1.7", filename="a.pdf"), FilePart.of(urls[1])]


def test_a_message_without_any_stays_a_text():
    assert read() == ([], [])


@pytest.mark.parametrize("name", ["image", "file"])
def test_what_cannot_be_read_or_is_none_is_named(tmp_path, name):
    with pytest.raises(InvalidMessage, match="cannot be read") as refused:
        read(**{name: [str(tmp_path / "missing")]})
    assert refused.value.field == name
    (tmp_path / "odd").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidMessage, match="odd: its 3 bytes are none of"):
        read(**{name: [str(tmp_path / "odd")]})
