"""The page that the documentation shows works as it stands there, under the policy that it names."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from holdfast_page import SPEC, expect, held, refused, the
from served import served
from stack_fixture import eventually
from writer import call, finish

from holdfast.conversation import Executor, ToolSpec
from holdfast.server.static_files import static_files

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "page.md").read_text()


def block(kind, first, page=PAGE):
    """The block of a kind that begins so."""
    found = [
        source for source in re.findall(rf"^```{kind}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if source.startswith(first)
    ]
    assert len(found) == 1, found
    return found[0]


def answering(response):
    return lambda route: route.fulfill(**response)


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


async def test_the_page_of_the_documentation_shows_what_is_said_and_decides(server, page):
    writer = held(server, "docs-1", "refund", text="Refund my mug.")
    policy = " ".join(block("text", "default-src").split())
    html = f"<!doctype html><html lang=en><title>x</title><link rel=icon href=data:,>{block('html', '<!-- page.html')}"
    script = block("js", "// page.js")
    lent = {"token": "hfp_lent", "expires_at": 4102444800000, "conversation_id": "docs-1"}
    found = {
        "page": {
            "body": html,
            "content_type": "text/html",
            "headers": {"Content-Security-Policy": f"{policy} ; img-src data:"},
        },
        "page.js": {"body": script, "content_type": "text/javascript"},
        "token": {"json": lent},
    }
    for name, response in found.items():
        await page.route(f"{server.url}/{name}", answering(response))
    await page.goto(f"{server.url}/page")
    await expect(the(page, "messages").get_by_text("Refund my mug.")).to_be_visible()
    await the(page, "approval").get_by_role("button", name="Approve").click()
    await expect(the(page, "approval").get_by_text("Approved by you")).to_be_visible()
    assert writer.state.calls[0].suspension is None
    server.run(writer.do(finish(), call("locate")))
    await expect(the(page, "running").get_by_text("waits for a client")).to_be_visible()
    refused(page)


async def test_the_page_of_the_guide_runs_the_tools_of_its_agent(server, page):
    text = (DOCS / "guides" / "run-a-tool-in-the-browser.md").read_text()
    tools = tuple(ToolSpec(name=name, executor=Executor.CLIENT) for name in ("marked", "replace"))
    writer = held(server, "docs-2", spec=SPEC.model_copy(update={"tools": tools}))
    html = f"<!doctype html><html lang=en><title>x</title><link rel=icon href=data:,>{block('html', '<!-- editor.html', text)}"
    lent = {"token": "hfp_lent", "expires_at": 4102444800000, "conversation_id": "docs-2"}
    await page.route(f"{server.url}/editor", answering({"body": html, "content_type": "text/html"}))
    script = block("js", "// editor.js", text)
    await page.route(f"{server.url}/editor.js", answering({"body": script, "content_type": "text/javascript"}))
    await page.route(f"{server.url}/token", answering({"json": lent}))
    await page.goto(f"{server.url}/editor")
    await page.get_by_label("Text").evaluate("(field) => field.setSelectionRange(6, 13)")
    server.run(writer.do(call("marked")))
    resolved = lambda: [json.loads(event.content) for event in writer.events if event.kind == "call_resolved"]  # noqa: E731
    await asyncio.to_thread(eventually, resolved, 15, "the answer")
    server.run(writer.do(call(("replace", '{"words":"the cat"}'))))
    await expect(page.get_by_label("Text")).to_have_value("I saw the cat.")
    await asyncio.to_thread(eventually, lambda: len(resolved()) == 2, 15, "the second answer")
    assert [one["result"] for one in resolved()] == ["teh cat", "replaced"]


def test_the_documentation_names_each_part_and_variable():
    sources = "".join(file.content.decode() for name, file in static_files().items() if name.startswith("holdfast"))
    used = set(re.findall(r"var\((--holdfast-[a-z-]+)", sources))
    parts = {part for said in re.findall(r'class: [`"]([a-z ]+)', sources) for part in said.split()}

    assert used == set(re.findall(r"`(--holdfast-[a-z-]+)`", PAGE))
    templates = (Path(__file__).parents[2] / "server" / "pages" / "templates").glob("*.html")
    parts |= {part for one in templates for part in re.findall(r' part="([a-z-]+)"', one.read_text())}
    named = set(re.findall(r"`([a-z-]+)`", PAGE))
    assert parts - named == set()
