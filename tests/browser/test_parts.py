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


async def test_a_page_sends_parts_which_wait_in_the_list_as_they_are_shown_later(server, page):
    held(server, "c-3", ("locate", "{}"))
    await opened(page, server.url, "c-3")
    await expect(the(page, "messages").locator(".user").first).to_have_text("Hello.")  # what comes now is told as an event
    said = [part.model_dump(exclude_none=True) for part in (TextPart.of("And this?"), ImagePart.of(PICTURE))]

    await page.evaluate("(parts) => conversation.send(parts, { messageId: 'm-2' })", said)

    queued = the(page, "messages").locator(".queued")
    await expect(queued.first).to_have_text("And this?")
    await expect(queued.get_by_role("img", name="image")).to_have_count(1)
    events = [event for _, event in server.run(server.store.read("c-3", after=0, limit=50))]
    accepted = [event for event in events if event.kind == "message_accepted"]
    assert [part.type for part in accepted[-1].text] == ["text", "image_url"]


async def test_a_handler_of_a_page_returns_an_image(server, page):
    held(server, "c-4", ("locate", "{}"))
    await opened(page, server.url, "c-4")
    said = [ImagePart.of(PICTURE).model_dump(exclude_none=True)]

    await page.evaluate("(parts) => { conversation.attach({ locate: () => parts }); }", said)

    await expect(the(page, "messages").get_by_text("locate · done")).to_be_visible()
    events = [event for _, event in server.run(server.store.read("c-4", after=0, limit=50))]
    (result,) = [event for event in events if event.kind == "call_resolved"]
    assert (result.untrusted, result.attached) == (True, (ImagePart.of(PICTURE),))
    assert result.content == '{"ok":true,"result":[{"type":"image_url","attached":1}],"untrusted":true}'
