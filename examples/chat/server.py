"""The back end of the chat: it serves the page, and lends each visitor a token for a conversation of their own.

Run it from the folder `examples`, with a key for the model, or without one: then a model is played.

    python -m chat.server

Holdfast is mounted under `/agents` of the same server. The API key with which page tokens are made stays here.
"""

import argparse
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from holdfast import AsyncClient
from holdfast.server import create_app
from holdfast.testing import ModelServer, call, say

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
FILES = {"/": "index.html", "/chat.js": "chat.js", "/chat.css": "chat.css"}
VISITOR = "visitor"
SCOPES = ["read", "start", "decide", "client"]
"""What a page may do; `client`: run the tools of the client."""


class Chat:
    """The application: its visitors, and what it may do at Holdfast."""

    def __init__(self, client: AsyncClient, key: str) -> None:
        self._client = client
        self._holdfast = create_app(client)
        transport = httpx.ASGITransport(self._holdfast)  # in earnest: the address of your server
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        self._visitors: dict[str, str] = {}  # the conversation of each; in earnest: with the sessions of your application

    def application(self) -> Starlette:
        """The ASGI application."""
        pages = [Route(path, _file) for path in FILES]
        return Starlette(routes=[*pages, Route("/token", self.token, methods=["POST"]), Mount("/agents", self._holdfast)])

    async def token(self, request: Request) -> Response:
        """A token for the conversation of whoever is signed in: never for one that the request names."""
        if request.headers.get("sec-fetch-site") != "same-origin":
            return JSONResponse({"detail": "this is for the chat's own page"}, status_code=403)
        visitor = request.cookies.get(VISITOR, "")
        if visitor not in self._visitors:
            visitor = secrets.token_urlsafe()
            self._visitors[visitor] = (await self._client.start("shop", "Order what is in my cart, please.")).id
        wanted = {"conversation_id": self._visitors[visitor], "scopes": SCOPES, "ttl_s": 600}
        wanted["kinds"] = ["approval", "elicitation", "client_exec"]  # it is the visitor's own order that is approved
        made = await self._http.post("/v1/page-tokens", json=wanted | {"principal": "a visitor"})
        made.raise_for_status()
        response = JSONResponse({name: made.json()[name] for name in ("token", "expires_at", "conversation_id")})
        response.headers["Cache-Control"] = "no-store"
        response.set_cookie(VISITOR, visitor, httponly=True, samesite="strict")
        return response


async def _file(request: Request) -> Response:
    return FileResponse(HERE / FILES[request.url.path], headers={"Content-Security-Policy": POLICY})


def played(request: dict[str, Any]) -> dict[str, Any]:
    """What a model would say, by how many results it has in this turn."""
    spoken = [message["role"] for message in request["messages"]]
    results = spoken[::-1][: spoken[::-1].index("user")].count("tool")
    steps = [
        call("cart", {}),
        call("ask_day", {"question": "On which day shall it come?"}),
        call("order", {"item": "Darjeeling", "quantity": 2, "day": "Friday"}),
        say("Two packets of Darjeeling\nwill be with you on Friday."),
    ]
    return steps[min(results, 3)]


def api_key() -> str:
    """The key with which page tokens are made; a new one where none is given."""
    if given := os.environ.get("CHAT_API_KEY"):
        return given
    scopes = [argument for scope in SCOPES for argument in ("--scope", scope)]
    make = [sys.executable, "-m", "holdfast.cli", "keys", "create", "--name", "chat", "--expires", "1d", *scopes]
    return subprocess.run(make, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - this very program


async def serve(port: int) -> None:
    """Serve the chat until it is told to stop."""
    async with AsyncClient.connect("chat.app:app") as client:
        application = Chat(client, api_key()).application()
        with socket.create_server(("127.0.0.1", port)) as listening:
            print(f"The chat is at http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
            await uvicorn.Server(uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)).serve(
                sockets=[listening]
            )


if __name__ == "__main__":
    import asyncio

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, default=8000)
    port = arguments.parse_args().port
    if "OPENAI_API_KEY" in os.environ:
        asyncio.run(serve(port))
    else:
        with ModelServer(script=played) as model:
            os.environ |= {"OPENAI_API_BASE": model.url, "OPENAI_API_KEY": "none"}
            asyncio.run(serve(port))
