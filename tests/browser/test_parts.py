"""Images and files of messages in a real browser: data is shown, and nothing is fetched from elsewhere."""

import zlib

import pytest
from holdfast_page import expect, held, opened, the
from served import served
from waiting_calls import APP, waiting

from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart


def chunk(name, data):
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


HEAD = chunk(b"IHDR", (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\x08\x02\x00\x00\x00")
PICTURE = b"\x89PNG\r\n\x1a\n" + HEAD + chunk(b"IDAT", zlib.compress((b"\x00" + b"\xff\x00\x00" * 3) * 2)) + chunk(b"IEND", b"")
"""Three by two red dots."""
ELSEWHERE = "https://files.example/secret.png"
PARTS = (
    TextPart.of("What is **it**? <img src=x>"),
    ImagePart.of(PICTURE),
    ImagePart.of(ELSEWHERE),
    FilePart.of(b"%PDF-1.7", filename="<b>a.pdf"),
)


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        yield running
        running.drain()


def noted(page):
    """The addresses that the page asks for from here on."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


async def test_the_inbox_shows_images_of_data_alone(server, page):
    waiting(server, "c-1", text=PARTS)
    asked = noted(page)
    for place in ("inbox", "conversations/c-1"):
        await page.goto(f"{server.url}/{place}")
        if place == "inbox":
            await page.locator(".row", has_text="c-1").locator("a").click()
        message = page.locator(".message-user")
        await expect(message).to_contain_text(f"Image at {ELSEWHERE}")
        await expect(message).to_contain_text("File <b>a.pdf")
        await expect(message.locator("strong")).to_have_text("it")
        await expect(message.locator("img")).to_have_count(1)
        assert await message.locator("img").evaluate("async (node) => (await node.decode(), node.naturalWidth)") == 3

    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []


async def test_the_elements_show_images_of_data_alone(server, page):
    asked = noted(page)
    held(server, "c-2", text=PARTS)
    await opened(page, server.url, "c-2")
    messages = the(page, "messages")

    await expect(messages.locator(".user").first).to_have_text("What is **it**? <img src=x>\n[image]\n[file <b>a.pdf]")
    image = messages.get_by_role("img", name="image")
    await expect(image).to_have_count(1)
    assert await image.evaluate("async (node) => (await node.decode(), node.naturalWidth)") == 3
    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []
