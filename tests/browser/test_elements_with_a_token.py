"""The elements in a real browser with a page token: they work with what the page's user may see, and show nothing else."""

import httpx
import pytest
from holdfast_page import ALONE, SPEC, expect, opened, refused, the, waited
from served import served
from writer import Writer, assign, begin, call, comment, resolve, start

from holdfast.conversation import Approvers, Deny, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.server import Authentication

KIM = Principal("kim-secret", roles=["finance-secret"], proof=Proof.KEY)
SHOWN = """() => [...document.querySelectorAll("main > :not(h1)")].map((one) => one.shadowRoot.textContent).join("\\n")"""
CONNECTED = """async ([name, token]) => {
  const conversation = holdfast.connect({ token }).conversation(name);
  window.ran = [];
  conversation.attach({ locate: async (args) => { ran.push(args); return "here"; } });
  for (const one of document.querySelectorAll("main > :not(h1)")) one.conversation = conversation;
}"""


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2, authentication=Authentication()) as running:
        yield running


@pytest.fixture
async def page(page):
    yield page
    await page.unroute_all(behavior="ignoreErrors")  # what is on its way when a page closes has no answer


def written(server, name):
    """The writer of a conversation with an approval for certain people, a question, and a call of the client."""

    async def made():
        writer = server.stack.writers[name] = await Writer.of(server.store, name)
        writer.spec = SPEC
        gated = ProposedCall(
            tool_call_id="gated",
            name="refund",
            arguments='{"order":"A1042"}',
            prompt="prompt-secret",
            ruled=RuleVerdict(effect=RuleEffect.ASK, rule="rule-secret", reason="reason-secret"),
            approvers=Approvers("role:finance-secret").terms,
        )
        await writer.do(start("Hello.", principal=KIM, spec=SPEC), begin(), call(gated, ("ask", '{"q":"Which?"}'), "locate"))
        await writer.do(assign("kim-secret", principal=KIM), comment("comment-secret", principal=KIM))
        return writer

    return server.run(made())


async def opened_with(page, server, name, kinds):
    """A page whose token decides these kinds."""
    _, key = server.run(server.client.access.create_key("shop", ["read", "start", "decide"]))
    body = {"conversation_id": name, "kinds": kinds, "principal": "ana"}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as back_end:
        lent = (await back_end.post(f"{server.url}/v1/page-tokens", json=body)).raise_for_status().json()
    await opened(page, server.url, name, script=ALONE)
    await page.evaluate(CONNECTED, [name, lent["token"]])


async def test_a_customers_page_answers_what_is_asked_of_it_and_shows_nobody_else(server, page):
    writer = written(server, "t-customer")
    await opened_with(page, server, "t-customer", ["elicitation", "client_exec"])
    waiting = the(page, "approval").get_by_role("group", name="refund")
    await expect(waiting).to_contain_text("It waits for somebody who may decide it.")
    await expect(waiting.get_by_role("button")).to_have_count(0)
    await expect(the(page, "elicitation").get_by_role("group", name="ask")).to_contain_text("Which?")
    await waited(page, "ran.length", 1)
    assert "secret" not in await page.evaluate(SHOWN)

    question = the(page, "elicitation").get_by_role("group", name="ask")
    await question.get_by_role("textbox").fill("blue")
    await question.get_by_role("button", name="Send").click()
    await expect(question.get_by_role("status")).to_contain_text("by you")
    server.run(writer.do(resolve(Deny("Too much."), "gated", principal=KIM)))
    await expect(waiting.get_by_role("status")).to_contain_text("Denied")
    assert "secret" not in await page.evaluate(SHOWN)
    refused(page)


async def test_a_page_that_decides_nothing_runs_no_tool_and_offers_no_form(server, page):
    written(server, "t-looks")
    await opened_with(page, server, "t-looks", ["lost"])
    for element, tool in (("approval", "refund"), ("elicitation", "ask")):
        card = the(page, element).get_by_role("group", name=tool)
        await expect(card).to_contain_text("It waits for somebody who may decide it.")
        await expect(card.locator("form, button, textarea")).to_have_count(0)
    await expect(the(page, "running")).to_contain_text("locate")
    assert await page.evaluate("ran") == []
    refused(page)
