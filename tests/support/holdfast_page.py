"""An application's page with the elements of `holdfast.js`, on the origin of a server under test, and what the server holds."""

import asyncio
import contextlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from playwright.async_api import expect
from stack_fixture import eventually
from writer import Writer, begin, call, start

from holdfast.conversation import AgentSpec, Approval, Executor, Limits, ToolSpec
from holdfast.conversation.text import jsontext

WITHIN_S = 15
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, no style but what scripts adopt, and no text that becomes HTML."""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A page of an application</title><link rel="icon" href="data:,"><script type="module" src="/page.js"></script></head>
<body><main><h1>Chat</h1><holdfast-messages></holdfast-messages><holdfast-running></holdfast-running>
<holdfast-approval></holdfast-approval><holdfast-elicitation></holdfast-elicitation></main></body></html>"""

SCRIPT = """
import * as holdfast from "/static/holdfast.js";

const client = holdfast.connect({ conversationId: new URLSearchParams(location.search).get("conversation") });
const conversation = client.conversation();
const told = [];
for (const name of ["resolved", "error"]) {
  document.addEventListener(`holdfast-${name}`, ({ detail: { decision, error } }) => {
    told.push([name, decision ?? null, error?.message ?? null]);
  });
}
Object.assign(window, { holdfast, client, conversation, told });
for (const node of document.querySelectorAll("main > :not(h1)")) node.conversation = conversation;
"""

ALONE = """
import * as holdfast from "/static/holdfast.js";
Object.assign(window, { holdfast, conversation: null });
"""
"""What a page has that brings the module alone."""

SCHEMAS = {
    "ask": {"type": "string"},
    "survey": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer", "minimum": 0},
            "weight": {"type": "number"},
            "member": {"type": "boolean"},
            "colour": {"enum": ["red", "green"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "more": {"type": "object"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["name", "age", "member", "colour"],
        "additionalProperties": False,
    },
}
SPEC = AgentSpec(
    name="desk",
    model="test/model",
    tools=(
        ToolSpec(name="refund", approval=Approval.REQUIRED),
        ToolSpec(name="charge"),
        *(ToolSpec(name=name, executor=Executor.HUMAN, response_schema=jsontext.dumps(one)) for name, one in SCHEMAS.items()),
        ToolSpec(name="locate", executor=Executor.CLIENT),
        ToolSpec(name="stamp", executor=Executor.CLIENT, response_schema='{"type":"integer"}'),
    ),
    limits=Limits(max_model_calls=1000, approval_timeout_s=3600, answer_timeout_s=3600, client_timeout_s=3600),
)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def other_origin():
    """The origin of an application, whose every path is the page; for its other answers the test stands in."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def held(server, name, *calls, text="Hello.", prompt=None, spec=SPEC):
    """The writer of a conversation whose model has asked for these calls; without any, it has not answered."""

    async def written():
        writer = server.stack.writers[name] = await Writer.of(server.store, name)
        writer.spec = spec
        await writer.do(start(text, spec=spec), begin())
        if calls:
            await writer.do(call(*calls, prompt=prompt))
        return writer

    return server.run(written())


async def opened(page, url, name, *, script=SCRIPT):
    """Open an application's page that shows a conversation, under a strict policy."""
    headers = {"Content-Security-Policy": POLICY}
    await page.route(f"{url}/page?*", lambda route: route.fulfill(body=PAGE, content_type="text/html", headers=headers))
    await page.route(f"{url}/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    await page.goto(f"{url}/page?conversation={name}")
    await waited(page, "window.conversation !== undefined", True)
    return page


async def waited(page, expression, value):
    """Wait until an expression of the page has a value. It is asked for again and again: the policy forbids a page to."""
    give_up = time.monotonic() + WITHIN_S
    while (found := await page.evaluate(f"() => {expression}")) != value:
        assert time.monotonic() < give_up, f"{expression} is {found}, not {value}"
        await asyncio.sleep(0.02)


async def left(page, server):
    """Close a page, and wait until the server has noticed: a stream that is open would outlive its loop."""
    await page.close()
    await asyncio.to_thread(eventually, lambda: server.streams == 0, WITHIN_S, "the end of the streams")


def refused(page):
    """Forget what the browser says of requests that were refused or not answered, which a test asked for."""
    page.mishaps[:] = [one for one in page.mishaps if "Failed to load resource" not in one and "net::ERR_" not in one]


def the(page, name):
    """An element of the page by its name, with a wait of `expect` for what is in it."""
    return page.locator(f"holdfast-{name}")


__all__ = ["expect", "held", "left", "opened", "other_origin", "refused", "the", "waited"]
