"""The application below a path of another one."""

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount
from writer import begin, reply

from holdfast.server import create_app

from .conftest import OPEN, Api


async def test_it_can_be_mounted_and_names_its_own_places(client, stack):
    outer = Starlette(routes=[Mount("/agents", create_app(client, authentication=OPEN, hosts=["desk.example.com"]))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="https://desk.example.com") as http:
        assert (await http.get("/agents/health")).json() == {"status": "ok"}
        assert (await http.get("/agents/openapi.json")).json()["servers"] == [{"url": "/agents"}]
        assert (await http.get("/agents/nothing")).json()["code"] == "not_found"
        same = {"Origin": "https://desk.example.com"}
        body = {"agent": "desk", "text": "x", "conversation_id": "c-2"}
        assert (await http.post("/agents/v1/conversations", json=body, headers=same)).status_code == 201

    body = {"agent": "desk", "text": "x", "conversation_id": "c-3"}
    place = "/agents/v1/conversations"
    async with Api(outer).stream("POST", place, body=body, accept="text/event-stream", host="desk.example.com") as stream:
        await stack.writers["c-3"].do(begin(), reply("Hi."))
        await stream.until(lambda: stream.complete)
        assert stream.headers["location"] == f"{place}/c-3"
