"""Scopes in `<holdfast-approval>` and grants over `holdfast.js` in a real browser, where the page's token may give them."""

import pytest
from holdfast_page import ALONE, expect, held, opened, refused, the, waited
from served import served

from holdfast.conversation import CallTarget
from holdfast.conversation.records.commands import ProposedCall
from holdfast.server import Authentication

KINDS = ["approval", "elicitation", "client_exec", "lost", "review"]
HOSTILE = "src/<img src=x onerror=mishap()>"


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


@pytest.fixture
async def page(page):
    yield page
    await page.unroute_all(behavior="ignoreErrors")  # what is on its way when a page closes has no answer


def touching(server, name, *paths):
    """The writer of a conversation whose calls wait, one for each path."""
    calls = [
        ProposedCall(
            tool_call_id=f"call_{number}",
            name="refund",
            arguments=f'{{"n":{number}}}',
            targets=(CallTarget(kind="path", value=path, level="write"),),
        )
        for number, path in enumerate(paths)
    ]
    return held(server, name, *calls)


def given(writer):
    return [(one.grant.kind, one.grant.pattern, one.grant.level) for one in writer.events if one.kind == "grant_given"]


def unfolded(page):
    """The first card, and what unfolds in it."""
    return the(page, "approval").get_by_role("group", name="refund").first


async def test_what_a_call_touches_is_allowed_with_one_click_and_lets_the_others_go(server, page):
    writer = touching(server, "ge-one", "src/a.py", "src/a.py", "lib/c.py")
    await opened(page, server.url, "ge-one")
    card = unfolded(page)
    await card.get_by_text("Also allow later calls").click()
    await card.get_by_role("button", name="Approve, and from now on src/a.py").click()

    await expect(card.get_by_role("status")).to_contain_text("Approved by you")
    await expect(the(page, "approval").get_by_text("Allowed by a grant")).to_be_visible()
    assert given(writer) == [("path", "src/a.py", "write")]
    (grant,) = writer.state.grants
    assert grant.ends_at is not None  # an hour, unless another time was chosen


async def test_a_bad_pattern_is_told_beside_its_field_and_a_better_one_is_taken(server, page):
    writer = touching(server, "ge-bad", "src/a.py")
    await opened(page, server.url, "ge-bad")
    card = unfolded(page)
    await card.get_by_text("Also allow later calls").click()
    await card.get_by_text("Something else").click()
    await card.get_by_label("Pattern").fill("**")
    await card.get_by_role("button", name="Approve, and allow this").click()

    await expect(card.get_by_text("covers every path")).to_be_visible()
    await expect(card.get_by_label("Pattern")).to_have_attribute("aria-invalid", "true")
    assert given(writer) == []

    await card.get_by_label("Pattern").fill("src/**")
    await card.get_by_label("Up to which level").select_option("read")
    await card.get_by_label("For how long").select_option("")
    await card.get_by_role("button", name="Approve, and allow this").click()
    await expect(card.get_by_role("status")).to_contain_text("Approved by you")

    assert given(writer) == [("path", "src/**", "read")]
    assert writer.state.grants[0].ends_at is None
    refused(page)


async def test_a_value_is_shown_as_text_and_allowed_as_it_stands(server, page):
    writer = touching(server, "ge-hostile", "app/[id].tsx")
    hostile = touching(server, "ge-html", HOSTILE)
    await opened(page, server.url, "ge-html")
    await unfolded(page).get_by_text("Also allow later calls").click()
    assert await the(page, "approval").locator("img").count() == 0
    assert given(hostile) == []

    await opened(page, server.url, "ge-hostile")
    card = unfolded(page)
    await card.get_by_text("Also allow later calls").click()
    await card.get_by_role("button", name="Approve, and from now on app/[id].tsx").click()
    await expect(card.get_by_role("status")).to_contain_text("Approved by you")

    assert given(writer) == [("path", r"app/\[id\].tsx", "write")]


@pytest.mark.parametrize(("kinds", "offered"), [(KINDS[:3], 0), (KINDS, 1)])
async def test_only_a_page_that_decides_all_kinds_offers_scopes(page, kinds, offered):
    with served(heartbeat_s=0.2, authentication=Authentication()) as server:
        touching(server, "ge-kinds", "src/a.py")
        _, key = server.run(server.client.access.create_key("shop", ["read", "start", "decide"]))
        body = {"conversation_id": "ge-kinds", "kinds": kinds}
        made = await page.request.post(f"{server.url}/v1/page-tokens", data=body, headers={"Authorization": f"Bearer {key}"})
        await opened(page, server.url, "ge-kinds", script=ALONE)
        await page.evaluate(
            """([name, token]) => {
                document.querySelector("holdfast-approval").conversation = holdfast.connect({ token }).conversation(name);
            }""",
            ["ge-kinds", (await made.json())["token"]],
        )
        await expect(unfolded(page).get_by_role("button", name="Approve", exact=True)).to_be_visible()
        await expect(unfolded(page).get_by_text("Also allow later calls")).to_have_count(offered)
        await page.goto("about:blank")
        server.drain()


async def test_a_page_lists_and_revokes_grants(server, page):
    writer = touching(server, "ge-list", "src/a.py", "lib/c.py")
    await opened(page, server.url, "ge-list")
    await page.evaluate(
        """async () => {
            const [call] = (await conversation.state()).pending;
            const scope = { kind: "path", pattern: "src/**", level: "write", ends_s: 60 };
            await conversation.resolve(call, holdfast.approve(undefined, { reason: "mine", scope }));
            window.before = await conversation.grants();
            const [{ grant_id: id }] = window.before;
            window.receipts = [
                await conversation.revoke(id, { reason: "enough", requestId: "r-1" }),
                await conversation.revoke(id, { reason: "enough", requestId: "r-1" }),
            ];
            window.after = await conversation.grants();
        }"""
    )

    await waited(page, "after.length", 0)
    assert await page.evaluate("before.map(({ pattern, level }) => [pattern, level])") == [["src/**", "write"]]
    assert await page.evaluate("receipts.map(({ duplicate }) => duplicate)") == [False, True]
    (event,) = [one for one in writer.events if one.kind == "grant_revoked"]
    assert event.reason == "enough"
