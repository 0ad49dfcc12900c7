"""Pages as clients on the real stack: browsers and a terminal race for the same calls, die in the middle of one, and leave."""

import asyncio
import contextlib
import json
import shlex
import sys
import time

import pytest
from browser import browsing
from holdfast_page import opened
from server_process import serving

from holdfast.testing import call, calls

WITHIN_S = 60
ANSWERS = """(by) => {
  window.ran = 0;
  conversation.attach({
    where: async () => {
      ran += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return { by };
    },
  });
}"""
HANGS = """(options) => {
  window.attempts = [];
  const where = (_, { attempt }) => new Promise((resolve) => {
    attempts.push(attempt);
    window.give = resolve;
  });
  conversation.attach({ where }, options);
}"""


@pytest.fixture
async def server(stack):
    async with serving(stack) as running:
        yield running


async def until(found, wanted, what):
    """Wait until what is found is as wanted."""
    give_up = time.monotonic() + WITHIN_S
    while (now := await found()) != wanted:
        assert time.monotonic() < give_up, f"{what} is {now}, not {wanted}"
        await asyncio.sleep(0.1)


async def attached(server, browser, name, script, given):
    """A page of a browser that is attached to a conversation."""
    page = await browser.new_page()
    await opened(page, server.url, name)
    await page.evaluate(script, given)
    return page


async def clients(store, name):
    """How many clients are present."""
    now = await store.now()
    return len([one for one in await store.present(name) if one.until > now])


async def greeted(server, stack, name, *answers):
    """A conversation that has said hello: its next message is answered so."""
    text = stack.scenarios.add(name, "Hello.", *answers)
    body = {"agent": "support", "text": text, "conversation_id": name}
    started = await server("POST", "/v1/conversations", 201, json=body)
    await server.rested(name, started["seq"])


async def asked(server, name):
    """Send the second message."""
    await server("POST", f"/v1/conversations/{name}/messages", json={"text": "And now?"})


async def replied(server, name):
    """The reply to the second message, once it is there: while a call waits for a client, a long poll returns at once."""

    async def completed():
        turns = (await server("GET", f"/v1/conversations/{name}/turns"))["items"]
        return [turn["status"] for turn in turns]

    await until(completed, ["completed"] * 2, "the turns")
    return (await server("GET", f"/v1/conversations/{name}"))["reply"]


async def results(server, name):
    """What the model has read of the calls, in its order."""
    items = (await server("GET", f"/v1/conversations/{name}/messages"))["items"]
    return [json.loads(one["content"]) for one in items if one["role"] == "tool"]


@contextlib.asynccontextmanager
async def terminal(stack, server, name, acts):
    """`holdfast attach` with a program that notes each of its runs."""
    program = f"open({str(acts)!r}, 'a').write('acted\\n'); print('{{\"by\": 3}}')"
    command = shlex.join([sys.executable, "-c", program])
    process = stack.python("-m", "holdfast.cli", "attach", name, "--url", server.url, "--tool", "where", "--exec", command)
    try:
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate)


@pytest.mark.gate
async def test_two_browsers_and_a_terminal_race_for_the_same_calls_and_one_acts_on_each(stack, server, store, tmp_path):
    acts = tmp_path / "acts"
    acts.touch()
    await greeted(server, stack, "race-three", calls(*[call("where", {})] * 10), "All are here.")
    async with browsing() as first, browsing() as second, terminal(stack, server, "race-three", acts):
        browsers = enumerate([first, second])
        pages = [await attached(server, browser, "race-three", ANSWERS, by) for by, browser in browsers]
        await until(lambda: clients(store, "race-three"), 3, "the number of clients")
        await asked(server, "race-three")
        assert await replied(server, "race-three") == "All are here."
        ran = [await page.evaluate("ran") for page in pages]
    by = [one["result"]["by"] for one in await results(server, "race-three")]
    assert [by.count(0), by.count(1), by.count(3)] == [*ran, len(acts.read_text().splitlines())]
    assert len(by) == 10


@pytest.mark.slow
async def test_a_browser_that_dies_in_the_middle_of_a_call_leaves_it_to_another(stack, server, store):
    await greeted(server, stack, "dies-one", call("where", {}), "It is here.")
    async with browsing() as first, browsing() as second:
        page = await attached(server, first, "dies-one", HANGS, {})
        await asked(server, "dies-one")
        await until(lambda: page.evaluate("attempts"), [1], "the attempts of the first")
        other = await attached(server, second, "dies-one", HANGS, {})
        await until(lambda: clients(store, "dies-one"), 2, "the number of clients")
        session = await page.context.new_cdp_session(page)
        with contextlib.suppress(Exception):  # there is nobody to answer
            await asyncio.wait_for(session.send("Page.crash"), 2)
        await until(lambda: other.evaluate("attempts"), [2], "the attempts of the second")
        await other.evaluate("give({ by: 2 })")
        assert await replied(server, "dies-one") == "It is here."
    assert await results(server, "dies-one") == [{"ok": True, "untrusted": True, "result": {"by": 2}}]


@pytest.mark.slow
async def test_what_waits_for_a_page_that_ends_with_its_calls_is_cancelled_once_it_is_closed(stack, server, store):
    await greeted(server, stack, "leaves-one", call("where", {}), "They left.")
    async with browsing() as browser:
        page = await attached(server, browser, "leaves-one", HANGS, {"onDetach": "cancel"})
        await asked(server, "leaves-one")
        await until(lambda: page.evaluate("attempts"), [1], "the attempts")
        await page.close()
        assert await replied(server, "leaves-one") == "They left."
    (told,) = await results(server, "leaves-one")
    assert (told["ok"], "left" in told["error"]) == (False, True)
