"""Chromium: a person who signs in without scripts, and an application's own page, at another origin, with a page token."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from browser import Mishaps, browsing

from holdfast.persistence import AccessScope
from holdfast.server import Authentication, sign_in_link

from .conftest import served

EVERY = list(AccessScope)


class Blank(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>shop</title>")

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def blank_page():
    """The origin of an application whose page is empty."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
async def browser():
    async with browsing() as found:
        yield found


def key_of(server, *scopes):
    return server.run(server.client.access.create_key("shop", scopes or EVERY))


async def test_a_person_signs_in_and_out_without_scripts(browser):
    with served(authentication=Authentication()) as server:
        _, key = key_of(server, AccessScope.READ)
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await page.goto(f"{server.url}/signin?next=/v1/pending")
        await page.get_by_label("API key").fill("hf_wrong")
        await page.get_by_role("button", name="Sign in").click()
        assert "not accepted" in await page.get_by_role("alert").inner_text()
        await page.get_by_label("API key").fill(key)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{server.url}/v1/pending")
        assert '"items":[]' in await page.content()
        (cookie,) = await context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"] in key) == (True, "Lax", False)
        await page.goto(f"{server.url}/signin")
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"{server.url}/signin")
        assert await context.cookies() == []
        assert (await page.goto(f"{server.url}/v1/pending")).status == 401


async def test_a_person_signs_in_over_the_link(browser):
    with served(authentication=Authentication()) as server:
        page = await browser.new_page()
        mishaps = Mishaps(page)
        await page.goto(sign_in_link(server.app, server.url))
        assert mishaps == []
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"{server.url}/inbox")
        assert (await page.goto(f"{server.url}/v1/pending")).status == 200


ASK = """async ([path, token, options]) => {
  const found = await fetch(path, {...options, headers: {...options?.headers, Authorization: `Bearer ${token}`}});
  return [found.status, await found.text(), found.headers.get("X-Request-Id") !== null];
}"""
FOLLOW = """async ([path, token]) => {
  const found = await fetch(path, {headers: {Authorization: `Bearer ${token}`, "Last-Event-ID": "1"}});
  const reader = found.body.pipeThrough(new TextDecoderStream()).getReader();
  let seen = "";
  while (!seen.includes("call_suspended")) {
    const {value, done} = await reader.read();
    if (done) throw new Error(`it ended: ${seen}`);
    seen += value;
  }
  await reader.cancel();
  return found.headers.get("Content-Type");
}"""


async def test_an_applications_page_works_with_a_page_token_across_origins(browser):
    with blank_page() as origin, served(authentication=Authentication(origins=(origin,))) as server:
        server.waiting("c-1")
        server.waiting("c-2")
        key, text = key_of(server)
        page = await browser.new_page()
        await page.goto(origin)
        place = f"{server.url}/v1/page-tokens"
        made = await page.request.post(place, data={"conversation_id": "c-1"}, headers={"Authorization": f"Bearer {text}"})
        token = (await made.json())["token"]

        status, body, exposed = await page.evaluate(ASK, [f"{server.url}/v1/conversations/c-1", token, {}])
        assert (status, '"conversation_id":"c-1"' in body, exposed) == (200, True, True)
        assert await page.evaluate(FOLLOW, [f"{server.url}/v1/conversations/c-1/events", token]) == (
            "text/event-stream; charset=utf-8"
        )
        sent = {
            "method": "POST",
            "headers": {"Content-Type": "application/json", "Idempotency-Key": "m-9"},
            "body": '{"text":"x"}',
        }
        assert (await page.evaluate(ASK, [f"{server.url}/v1/conversations/c-1/messages", token, sent]))[0] == 200
        for path, status in (("/v1/conversations/c-2", 404), ("/v1/pending", 403), ("/v1/nothing", 404)):
            found = await page.evaluate(ASK, [f"{server.url}{path}", token, {}])
            assert (found[0], found[2]) == (status, True), "errors can be read, too"
        assert (await page.evaluate(ASK, [f"{server.url}/v1/conversations/c-1", "hfp_" + "0" * 64, {}]))[0] == 401

        await page.evaluate("url => import(url)", f"{server.url}/static/htmx.min.js")
        assert await page.evaluate("url => import(url).then(() => true, () => false)", f"{server.url}/static/none.js") is False

        server.run(server.client.access.revoke_key(key.key_id))
        await page.wait_for_function(
            "async ([path, token]) => (await fetch(path, {headers: {Authorization: `Bearer ${token}`}})).status === 401",
            arg=[f"{server.url}/v1/conversations/c-1", token],
            polling=200,
        )


async def test_a_page_of_an_origin_that_is_not_listed_gets_nothing(browser):
    with blank_page() as origin, served(authentication=Authentication(origins=("https://desk.example",))) as server:
        server.waiting("c-1")
        _, text = key_of(server)
        page = await browser.new_page()
        await page.goto(origin)
        refused = "([path, token]) => fetch(path, {headers: {Authorization: `Bearer ${token}`}}).then(() => false, () => true)"
        assert await page.evaluate(refused, [f"{server.url}/v1/conversations/c-1", text])
        assert await page.evaluate("url => import(url).then(() => false, () => true)", f"{server.url}/static/htmx.min.js")
