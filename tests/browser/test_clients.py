"""Pages that run the client's tools: of several, one claims a call and acts; one that goes gives back what it has claimed."""

import asyncio
import json

import httpx
import pytest
from holdfast_page import ALONE, SPEC, expect, held, left, opened, other_origin, refused, the, waited
from served import served
from writer import call, rule

from holdfast.conversation import Approval, Executor, ToolSpec
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.events import CallClaimed, CallGivenBack, SuspensionSettled
from holdfast.server import Authentication

ANSWERS = """(name) => {
  window.ran = []; window.outcomes = [];
  const locate = async (_, { call }) => {
    ran.push(call.suspension_id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return name;
  };
  const onSettled = ({ outcome, error }) => outcomes.push([outcome, error?.reason ?? null]);
  window.attached = conversation.attach({ locate }, { onSettled });
}"""
HANGS = """(options) => {
  window.attempts = [];
  const locate = (_, context) => new Promise((resolve) => {
    attempts.push(context.attempt);
    Object.assign(window, { give: resolve, context });
  });
  window.attached = conversation.attach({ locate }, options ?? {});
}"""
OPEN = "() => { window.open(location.href); }"
"""Opens a tab that begins with a copy of the page's storage, as a duplicated one does."""
GIVES_NOTHING_BACK = """() => {
  const real = window.fetch;
  window.fetch = (url, ...rest) => (url.includes("/give-back") ? Promise.reject(new TypeError("cut off")) : real(url, ...rest));
}"""
"""As if the page were to die: nothing goes out as it closes. What it sends while it closes passes by playwright's routes."""
CLIENT = "sessionStorage.getItem('holdfast.client')"


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


async def tab(page, server, name, script=ANSWERS, given=None):
    """A page of a conversation that runs its calls."""
    await opened(page, server.url, name)
    await page.evaluate(script, given)
    return page


async def present(server, name, clients):
    """Wait until so many clients are present; their ids."""
    async with asyncio.timeout(15):
        while True:
            now = server.run(server.store.now())
            found = {one.client_id for one in server.run(server.store.present(name)) if one.until > now}
            if len(found) == clients:
                return found
            await asyncio.sleep(0.02)


def fulfilling(**response):
    return lambda route: route.fulfill(**response)


def told(writer, kind):
    return [event for event in writer.events if isinstance(event, kind)]


async def ended(writer, number):
    """Wait until so many suspensions are settled; their events."""
    async with asyncio.timeout(15):
        while len(found := told(writer, SuspensionSettled)) < number:
            await asyncio.sleep(0.02)
    return found


async def test_of_two_tabs_one_acts_on_each_call(server, page):
    writer = held(server, "race-1")
    other = await page.context.new_page()
    for one, name in ((page, "first"), (other, "second")):
        await tab(one, server, "race-1", given=name)
    assert len(await present(server, "race-1", 2)) == 2
    server.run(writer.do(call(*["locate"] * 10)))
    await ended(writer, 10)
    ran = await page.evaluate("ran"), await other.evaluate("ran")
    assert sorted([*ran[0], *ran[1]]) == sorted(event.suspension_id for event in told(writer, CallClaimed))
    assert len(told(writer, CallClaimed)) == 10
    for one, acted, name in ((page, ran[0], "first"), (other, ran[1], "second")):
        await waited(one, "outcomes.filter(([outcome]) => outcome === 'answer').length", len(acted))
        assert await one.evaluate("outcomes.every(([outcome]) => outcome === 'answer' || outcome === 'stale')")
        bodies = [event.body for event in told(writer, SuspensionSettled) if event.suspension_id in acted]
        assert bodies == [f'"{name}"'] * len(acted)
    refused(page)


async def test_of_two_tabs_that_claim_at_once_one_is_told_that_it_is_claimed(server, page):
    writer = held(server, "race-2", "locate")
    other = await page.context.new_page()
    await other.route("**/events?*", lambda _: None)  # it hears of the other's claim by the refusal of its own alone
    going = []
    await other.route("**/claim", lambda route: going.append(route))  # noqa: PLW0108 - playwright marks the function
    await tab(other, server, "race-2", given="second")
    async with asyncio.timeout(15):
        while not going:
            await asyncio.sleep(0.02)
    await tab(page, server, "race-2", HANGS)
    await waited(page, "window.attempts", [1])
    await going[0].continue_()
    await waited(other, "outcomes", [["stale", "claimed"]])
    assert await other.evaluate("ran") == []
    await page.evaluate("give('here')")
    await ended(writer, 1)
    await other.unroute_all(behavior="ignoreErrors")


async def test_a_call_that_another_client_has_claimed_is_left_alone_and_shown_where_it_is(server, page):
    writer = held(server, "where-1", "locate")
    await tab(page, server, "where-1", HANGS)
    await waited(page, "window.attempts?.length", 1)
    other = await tab(await page.context.new_page(), server, "where-1")
    (first,) = await present(server, "where-1", 2) - {await other.evaluate(CLIENT)}
    await expect(the(page, "running").get_by_text("in this page")).to_be_visible()
    await expect(the(other, "running").get_by_text(f"at {first}")).to_be_visible()
    await page.evaluate("context.reportProgress({ step: 1 }, { message: 'looking', loaded: 1, total: 4 })")
    await expect(the(other, "running").get_by_text("looking")).to_be_visible()
    assert await other.evaluate("ran") == []

    await page.evaluate("give('here')")
    (settled,) = await ended(writer, 1)
    assert (settled.by, settled.body) == ("answer", '"here"')


async def test_a_reload_in_the_midst_gives_the_call_back_and_claims_it_again(server, page):
    writer = held(server, "reload-1", "locate")
    await tab(page, server, "reload-1", HANGS)
    await waited(page, "window.attempts", [1])
    client = await page.evaluate(CLIENT)
    await page.reload()
    await waited(page, "window.conversation !== undefined", True)
    await page.evaluate(HANGS)
    await waited(page, "window.attempts", [2])
    assert await page.evaluate(CLIENT) == client
    assert [event.client_id for event in told(writer, CallClaimed)] == [client, client]
    (back,) = told(writer, CallGivenBack)
    assert (back.client_id, back.began) == (client, True)
    await page.evaluate("give('here')")
    await ended(writer, 1)
    refused(page)


async def test_what_a_page_that_was_cut_off_had_claimed_is_given_back_after_its_reload(server, page):
    writer = held(server, "reload-2", "locate")
    await tab(page, server, "reload-2", HANGS)
    await page.evaluate(GIVES_NOTHING_BACK)
    await waited(page, "window.attempts", [1])
    await page.goto("about:blank")
    assert told(writer, CallGivenBack) == []
    await tab(page, server, "reload-2", HANGS)
    await waited(page, "window.attempts", [2])
    refused(page)


async def test_a_duplicated_tab_is_a_client_of_its_own(server, page):
    held(server, "copy-1", "locate")
    await tab(page, server, "copy-1", HANGS)
    await waited(page, "window.attempts", [1])
    async with page.context.expect_page() as opening:
        await page.evaluate(OPEN)
    copy = await opening.value
    await copy.wait_for_load_state()
    assert await copy.evaluate(CLIENT) == await page.evaluate(CLIENT)
    await tab(copy, server, "copy-1", HANGS)
    ids = await present(server, "copy-1", 2)
    assert ids == {await page.evaluate(CLIENT), await copy.evaluate(CLIENT)}
    assert await copy.evaluate("attempts") == []
    await page.close()
    await waited(copy, "window.attempts", [2])


async def test_an_approved_call_is_run_by_the_page_once_the_rules_have_let_it_through(server, page):
    tools = (ToolSpec(name="locate", executor=Executor.CLIENT, approval=Approval.REQUIRED),)
    writer = held(server, "checked-1", "locate", spec=SPEC.model_copy(update={"tools": tools}))
    await tab(page, server, "checked-1", given="here")
    await the(page, "approval").get_by_role("button", name="Approve").click()
    await expect(the(page, "running").get_by_text("is checked")).to_be_visible()
    assert await page.evaluate("ran") == []
    server.run(writer.do(rule(writer.state.calls[0].tool_call_id, RuleEffect.ALLOW)))
    await waited(page, "outcomes", [["answer", None]])


async def test_detaching_gives_back_what_is_not_finished(server, page):
    writer = held(server, "detach-1", "locate")
    await tab(page, server, "detach-1", HANGS)
    await waited(page, "window.attempts", [1])
    await page.evaluate("attached.detach()")
    assert await page.evaluate("context.signal.aborted")
    assert [event.began for event in told(writer, CallGivenBack)] == [True]
    await present(server, "detach-1", 0)
    await page.evaluate(HANGS)
    await waited(page, "window.attempts", [2])
    await page.evaluate(f"conversation.cancelPending({{ clientId: {CLIENT} }})")
    (settled,) = await ended(writer, 1)
    assert settled.by == "cancellation"
    await waited(page, "context.signal.aborted", True)


async def test_a_page_whose_calls_end_with_it_takes_them_up_after_a_reload_and_gives_nothing_back_as_it_closes(server, page):
    writer = held(server, "cancel-1", "locate")
    for attempt in (1, 2):
        await tab(page, server, "cancel-1", HANGS, {"onDetach": "cancel"})
        await waited(page, "window.attempts", [attempt])
    await left(page, server)
    (gone,) = server.run(server.store.present("cancel-1"))
    assert (gone.on_detach, gone.until <= server.run(server.store.now())) == ("cancel", True)
    assert len(told(writer, CallGivenBack)) == 1


ELSEWHERE = """
import * as holdfast from "%(url)s/static/holdfast.js";
const client = holdfast.connect({ url: "%(url)s", token: %(token)s });
Object.assign(window, { holdfast, conversation: client.conversation("%(name)s") });
"""


async def test_of_two_pages_of_different_origins_one_acts_on_each_call(page):
    with (
        other_origin() as shop,
        other_origin() as bank,
        served(authentication=Authentication(origins=(shop, bank)), heartbeat_s=0.2) as server,
    ):
        writer = held(server, "origins-1")
        pages = page, await page.context.new_page()
        for one, origin in zip(pages, (shop, bank), strict=True):
            token = json.dumps(await lent(server, "origins-1", ["read", "client"]))
            script = ELSEWHERE % {"url": server.url, "token": token, "name": "origins-1"}
            await one.route(f"{origin}/page.js", fulfilling(body=script, content_type="text/javascript"))
            await one.goto(f"{origin}/page")
            await waited(one, "window.conversation !== undefined", True)
            await one.evaluate(ANSWERS, origin)
        assert len(await present(server, "origins-1", 2)) == 2
        server.run(writer.do(call(*["locate"] * 10)))
        await ended(writer, 10)
        ran = [await one.evaluate("ran") for one in pages]
        assert sorted([*ran[0], *ran[1]]) == sorted(event.suspension_id for event in told(writer, CallClaimed))
        await pages[1].close()
        await left(page, server)
    refused(page)


LENT = """async ([name, token]) => {
  window.conversation = holdfast.connect({ token }).conversation(name);
  for (const one of document.querySelectorAll("main > :not(h1)")) one.conversation = conversation;
}"""


async def lent(server, name, scopes, kinds=("client_exec",)):
    """The reply of the server that lends a page a token."""
    _, key = server.run(server.client.access.create_key("shop", ["read", "start", "decide", "client"]))
    body = {"conversation_id": name, "scopes": scopes, "kinds": kinds, "principal": "ana"}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as back_end:
        return (await back_end.post(f"{server.url}/v1/page-tokens", json=body)).raise_for_status().json()


LENDS = {  # by the scopes of a page's token: whether it claims, and whether it answers
    ("read", "client"): (True, True),
    ("read", "client", "decide"): (True, True),
    ("read", "decide"): (False, True),
    ("read",): (False, False),
}


async def test_a_page_does_what_its_token_lends(page):
    with served(authentication=Authentication(), heartbeat_s=0.2) as server:
        for number, (scopes, (claims, answers)) in enumerate(LENDS.items()):
            name = f"token-{number}"
            writer = held(server, name, "locate")
            token = await lent(server, name, scopes)
            for given in (token, token["token"]):  # with and without the scopes that it has
                await opened(page, server.url, name, script=ALONE)
                await page.evaluate(LENT, [name, given])
                await page.evaluate(ANSWERS, "here")
                if answers:
                    await waited(page, "outcomes", [["answer", None]])
                    server.run(writer.do(call("locate")))
                    await waited(page, "outcomes.length", 2)
                    server.run(writer.do(call("locate")))
                else:
                    await expect(the(page, "running").get_by_text("locate")).to_be_visible()
                    assert await page.evaluate("ran") == []
            assert {event.principal.id for event in told(writer, CallClaimed)} == ({"ana"} if claims else set())
        await left(page, server)
    refused(page)
