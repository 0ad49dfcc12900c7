"""A receiver of webhooks in a process of its own: it answers `/answers`, never answers `/hangs`, and says what came when."""

import asyncio
import json
import sys
import time

from aiohttp import web


async def _serve() -> None:
    came: dict[str, float] = {}

    async def answers(request: web.Request) -> web.Response:
        await request.read()
        came.setdefault(request.headers.get("webhook-id", f"plain-{len(came)}"), time.time())
        return web.Response(text="ok")

    async def hangs(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async def said(_: web.Request) -> web.Response:
        found, times = dict(came), sorted(came.values())
        return web.json_response({"count": len(found), "first": times[0] if times else 0, "last": times[-1] if times else 0})

    async def forget(_: web.Request) -> web.Response:
        came.clear()
        return web.Response()

    app = web.Application()
    app.add_routes(
        [web.post("/answers", answers), web.post("/hangs", hangs), web.get("/said", said), web.post("/forget", forget)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
