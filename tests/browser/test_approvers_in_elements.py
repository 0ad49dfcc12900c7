"""Calls that several people decide, in `<holdfast-approval>` in a real browser: who may, votes, comments, refusals."""

import pytest
from deciding_people import behind_a_proxy, for_two, signed_in
from holdfast_page import expect, opened, refused, the

from holdfast.client import Approve, Deny, Principal, Proof
from holdfast.client.async_client import acting_for

HOSTILE = "<img src=x onerror=mishap()>\u202e"
EVE = Principal("eve", roles=["finance"], proof=Proof.PROXY)


@pytest.fixture(scope="module")
def server():
    with behind_a_proxy(heartbeat_s=0.2) as running:
        yield running


@pytest.fixture
async def page(page):
    yield page
    await page.unroute_all(behavior="ignoreErrors")  # what is on its way when a page closes has no answer


async def card_of(page, server, who, name):
    await signed_in(page, who)
    await opened(page, server.url, name)
    return the(page, "approval").get_by_role("group", name="refund")


async def test_a_vote_is_said_and_the_card_waits_until_somebody_else_agrees(server, page):
    writer = for_two(server, "e-vote")
    card = await card_of(page, server, "bo", "e-vote")
    await expect(card).to_contain_text("It may be decided by 2 of role:finance, but not who asked")
    await expect(card).to_contain_text("0 of 2 have agreed")
    await expect(card.get_by_text("Also allow later calls")).to_have_count(
        0
    )  # of what several decide, nothing runs without asking
    await card.get_by_role("button", name="Approve").click()

    await expect(card.get_by_role("status")).to_have_text("1 of 2 have agreed, you too. It waits for others.")
    await expect(card.locator("[part=votes]")).to_have_text("1 of 2 have agreed: bo")
    await expect(card.get_by_role("button", name="Deny")).to_be_enabled()
    assert len(writer.suspension_ids) == 1

    eve = acting_for(server.client, EVE)
    server.run(eve.resolve(writer.suspension_ids[0], Approve(), conversation_id="e-vote"))
    await expect(card.get_by_role("status")).to_contain_text("Approved by eve")
    assert await page.evaluate("told.map(([name]) => name)") == ["resolved"]


async def test_whoever_may_not_decide_and_whoever_has_agreed_before_read_so_plainly(server, page):
    writer = for_two(server, "e-refused")
    card = await card_of(page, server, "ana", "e-refused")
    await card.get_by_role("button", name="Approve").click()
    await expect(card.get_by_role("alert")).to_have_text(
        "You may not decide this: 'ana' sent the message that led to this call"
    )

    eve = acting_for(server.client, EVE)
    server.run(eve.resolve(writer.suspension_ids[0], Approve(), conversation_id="e-refused"))
    card = await card_of(page, server, "eve", "e-refused")
    await card.get_by_role("button", name="Approve").click()
    await expect(card.get_by_role("alert")).to_have_text("You have agreed already. 1 of 2 have agreed.")
    await card.get_by_role("button", name="Deny").click()
    await card.get_by_role("button", name="Deny").click()
    await expect(card.get_by_role("status")).to_contain_text("Denied by you")
    refused(page)


async def test_who_is_on_it_and_comments_appear_as_they_come_and_are_never_html(server, page):
    writer = for_two(server, "e-notes")
    card = await card_of(page, server, "bo", "e-notes")
    await expect(card).to_contain_text("0 of 2 have agreed")
    (suspension_id,) = writer.suspension_ids
    conversation = acting_for(server.client, EVE).conversation("e-notes")
    server.run(conversation.assign(suspension_id))
    await expect(card.locator("[part=assigned]")).to_have_text("eve has taken it on.")
    server.run(conversation.comment(suspension_id, f"Which order? {HOSTILE}"))
    await expect(card.get_by_role("list", name="Comments").get_by_role("listitem")).to_contain_text(
        "Which order? <img src=x onerror=mishap()>\\u202e"
    )
    await expect(card.locator("[part=assigned]")).to_be_visible()
    server.run(conversation.assign(suspension_id, None))
    await expect(card.locator("[part=assigned]")).to_have_count(0)
    server.run(acting_for(server.client, EVE).resolve(suspension_id, Deny("no"), conversation_id="e-notes"))
    await expect(card.get_by_role("status")).to_contain_text("Denied by eve")
