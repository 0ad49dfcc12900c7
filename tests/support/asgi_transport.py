"""Requests of httpx straight to an ASGI application, in the same loop; answers come as they are sent, so streams stream."""

import asyncio

import httpx


class AsgiTransport(httpx.AsyncBaseTransport):
    """Calls an application. `lose` is how many of the next answers are lost, after the application has done its work."""

    def __init__(self, app):
        self.app = app
        self.lose = 0
        self.requests = []
        self._tasks = set()

    async def handle_async_request(self, request):
        """The answer to one request."""
        self.requests.append(request)
        await request.extensions["trace"]("http11.send_request_headers.started", {})
        call = _Call(request.url.raw_path, request, await request.aread())
        task = asyncio.ensure_future(self.app(call.scope, call.receive, call.send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.lose:
            self.lose -= 1
            await task
            raise httpx.ReadError("the answer is lost", request=request)
        status, headers = await call.begun
        return httpx.Response(status, headers=headers, stream=call)


class _Call(httpx.AsyncByteStream):
    def __init__(self, raw_path, request, body):
        path, _, query = raw_path.partition(b"?")
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": request.method,
            "path": request.url.path,
            "raw_path": path,
            "query_string": query,
            "scheme": request.url.scheme,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "root_path": "",
        }
        self.begun = asyncio.get_running_loop().create_future()
        self._body = [{"type": "http.request", "body": body, "more_body": False}]
        self._chunks = asyncio.Queue()
        self._left = asyncio.Event()

    async def receive(self):
        if self._body:
            return self._body.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.begun.set_result((message["status"], message["headers"]))
            return
        self._chunks.put_nowait(message.get("body", b""))
        if not message.get("more_body", False):
            self._chunks.put_nowait(None)

    async def __aiter__(self):
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def aclose(self):
        self._left.set()
