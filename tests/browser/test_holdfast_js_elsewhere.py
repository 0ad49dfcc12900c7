"""`holdfast.js` in a page of another origin, with page tokens that end: the elements and the tools of the client go on."""

import asyncio
import time

import pytest
from holdfast_page import expect, held, left, other_origin, refused, the, waited
from served import served
from writer import call, finish

from holdfast.persistence import AccessScope
from holdfast.server import Authentication

SCRIPT = """
import { connect } from "%(url)s/static/holdfast.js";

window.asked = 0;
const token = async () => {
  asked += 1;
  return (await fetch("/token", { method: "POST" })).json();
};
window.conversation = connect({ url: "%(url)s", token, conversationId: "far-1" }).conversation();
conversation.attach({ locate: () => "far away" });
for (const node of document.querySelectorAll("main > :not(h1)")) node.conversation = conversation;
"""


@pytest.fixture
def shop():
    with other_origin() as found:
        yield found


async def test_a_page_of_another_origin_goes_on_when_its_token_ends(page, shop):
    with served(authentication=Authentication(origins=(shop,))) as server:
        writer = held(server, "far-1", "refund", "locate", text="Hello from afar.")
        _, key = server.run(server.client.access.create_key("shop", list(AccessScope)))
        tokens = []

        async def lent(route):
            body = {"conversation_id": "far-1", "ttl_s": 600 if tokens else 1, "kinds": ["approval", "client_exec"]}
            made = await page.request.post(
                f"{server.url}/v1/page-tokens", data=body, headers={"Authorization": f"Bearer {key}"}
            )
            tokens.append((await made.json())["token"])
            await route.fulfill(json=await made.json())

        script = SCRIPT % {"url": server.url}
        await page.route(f"{shop}/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
        await page.route(f"{shop}/token", lent)
        await page.goto(f"{shop}/page")
        await expect(the(page, "messages").get_by_text("Hello from afar.")).to_be_visible()

        give_up = time.monotonic() + 20
        held_by = {"Authorization": f"Bearer {tokens[0]}"}
        while (await page.request.get(f"{server.url}/v1/conversations/far-1", headers=held_by)).status != 401:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)
        await the(page, "approval").get_by_role("button", name="Approve").click()
        await expect(the(page, "approval").get_by_text("Approved by you")).to_be_visible()
        server.run(writer.do(finish(), call("locate")))
        await expect(the(page, "messages").get_by_text("locate · done")).to_have_count(2)
        assert len(tokens) == 2
        assert {event.principal.id for event in writer.events if event.kind == "suspension_settled"} == {"shop"}
        assert all(token not in page.url for token in tokens)
        await waited(page, "asked", 2)
        await left(page, server)
    refused(page)
