"""A model server on loopback that answers from a script or from recordings, and fails on demand.

It speaks OpenAI's chat completions and Anthropic's messages.

    with ModelServer(script=[call("refund", {"order": 7}), say("Done.")]) as server:
        litellm.completion(model="openai/gpt-4o-mini", api_base=server.url, api_key="x", messages=[...])

As a process: `python -m holdfast.testing.model_server --replay FILE.jsonl` prints its URL and serves until SIGTERM.
"""

import argparse
import asyncio
import json
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from typing import Any, Self, TypeAlias

from aiohttp import web

from holdfast.testing.anthropic_messages import AnthropicCompletion
from holdfast.testing.model_faults import Break, Failure, Pace, Schedule
from holdfast.testing.transcripts import Answers, Completion, Message, NoAnswer, Replay, Request, Script, read_script

_MAX_REQUEST_BYTES = 256 * 1024 * 1024
_SHUTDOWN_S = 0.1  # after this time, requests that are held or slow are cut off
_ERROR_TYPES: dict[int, str] = {  # litellm reads "invalid_request_error" as 400, whatever the status
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.CONFLICT: "conflict_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}

_Answering: TypeAlias = Completion | AnthropicCompletion


class _Broken(Exception):
    """The connection was broken on purpose."""


class ModelServer:
    """A model server in a thread of its own: `POST {url}/chat/completions`, and `POST {anthropic_url}/v1/messages`.

    It is a context manager, blocking (`with`) and async (`async with`). All methods may be called from any thread, also
    before the server starts. After a stop it can be started again: at the same URL, with the unused answers of its script.

    Faults: a request is first held, if holding is on. Then it takes the next failure or broken connection in the order they
    were set, else it is answered at the pace that is set. An answer that was not sent whole stays the script's next one. Where
    a fault has `times`, None means all requests until `clear`, and less than 1 raises `ValueError`.

    Args:
        script: The answers, in order, or a function of the request's body. Without answers left, the status is 400.
        replay: Recorded transcripts, or a `Replay` of them. If no transcript continues the request, the status is 400.
        port: The port on 127.0.0.1; 0 takes a free one.

    Raises:
        ValueError: Not exactly one of `script` and `replay` is given, or one of them is malformed.
    """

    def __init__(
        self, *, script: Answers | None = None, replay: Replay | Iterable[Sequence[Message]] | None = None, port: int = 0
    ) -> None:
        self._source: Script | Replay
        if script is not None and replay is None:
            self._source = Script(script)
        elif replay is not None and script is None:
            self._source = replay if isinstance(replay, Replay) else Replay(replay)
        else:
            raise ValueError("give a ModelServer either script= or replay=")
        self._port = port
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] | None = None
        self._changed = threading.Condition()  # guards everything below; told when a request arrives or is held
        self._requests: list[Request] = []
        self._answering = 0
        self._held: deque[Future[None]] = deque()
        self._holds: Schedule[bool] = Schedule()
        self._failures: Schedule[Failure | Break] = Schedule()
        self._paces: Schedule[Pace] = Schedule()

    # Life

    @property
    def url(self) -> str:
        """The address to give a client as `api_base`, such as `http://127.0.0.1:41234/v1`.

        Raises:
            RuntimeError: The server has not been started and its port is not known yet.
        """
        if not self._port:
            raise RuntimeError("the ModelServer has no URL before it is started: use it in a with block")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The address to give a client of Anthropic's as `api_base`, such as `http://127.0.0.1:41234`; raises as `url` does."""
        return self.url.removesuffix("/v1")

    def start(self) -> None:
        """Listen; returns as soon as `url` answers.

        Raises:
            RuntimeError: The server runs already.
            OSError: The port is taken.
        """
        if self._thread is not None:
            raise RuntimeError(f"the ModelServer at {self.url} runs already")
        listening: Future[None] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening)), name="model-server", daemon=True)
        thread.start()
        listening.result()
        self._thread = thread

    def stop(self) -> None:
        """Close every connection and stop listening; returns when that is done. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None and self._end is not None:
            self._end()
            thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # Requests seen

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order of their arrival; held, failed and broken off ones are included."""
        with self._changed:
            return list(self._requests)

    def wait_requests(self, count: int, timeout_s: float = 30.0) -> list[Request]:
        """Block until `count` requests have arrived since the server was made, and return all of them.

        Raises:
            TimeoutError: Fewer requests arrived in time.
        """
        self._wait(
            lambda: len(self._requests) >= count, timeout_s, lambda: f"{len(self._requests)} of {count} requests arrived"
        )
        return self.requests

    async def arrived(self, count: int, timeout_s: float = 30.0) -> list[Request]:
        """The async form of `wait_requests`."""
        return await asyncio.to_thread(self.wait_requests, count, timeout_s)

    def wait_held(self, count: int, timeout_s: float = 30.0) -> None:
        """Block until `count` requests are held at once; `TimeoutError` if fewer are after `timeout_s`."""
        self._wait(lambda: len(self._held) >= count, timeout_s, lambda: f"{len(self._held)} of {count} requests are held")

    async def held(self, count: int, timeout_s: float = 30.0) -> None:
        """The async form of `wait_held`."""
        await asyncio.to_thread(self.wait_held, count, timeout_s)

    def wait_idle(self, timeout_s: float = 30.0) -> None:
        """Block until no request is being answered: each was answered whole, or its client has hung up.

        Raises:
            TimeoutError: A request is still being answered after `timeout_s`.
        """
        self._wait(lambda: not self._answering, timeout_s, lambda: f"{self._answering} requests are still being answered")

    def _wait(self, reached: Callable[[], bool], timeout_s: float, instead: Callable[[], str]) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, timeout_s):
                raise TimeoutError(f"{instead()} at the model server after {timeout_s} s")

    async def idle(self, timeout_s: float = 30.0) -> None:
        """The async form of `wait_idle`."""
        await asyncio.to_thread(self.wait_idle, timeout_s)

    # Faults

    def hold(self, times: int | None = None) -> None:
        """Hold the next `times` requests until `release`; None: all. They get no byte before."""
        with self._changed:
            self._holds.put(True, times)

    def release(self, count: int | None = None) -> None:
        """Release the `count` requests that are held longest, and keep holding others; None: release all, and stop holding."""
        with self._changed:
            if count is None:
                self._holds.clear()
            number = len(self._held) if count is None else min(count, len(self._held))
            going = [self._held.popleft() for _ in range(number)]
        for future in going:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def fail(
        self,
        status: int,
        *,
        times: int | None = 1,
        retry_after: float | str | None = None,
        message: str | None = None,
        code: str | None = None,
        body: dict[str, Any] | str | None = None,
    ) -> None:
        """Answer the next `times` requests with an error.

        Args:
            status: The HTTP status.
            times: How many requests.
            retry_after: The `Retry-After` header: seconds, or a date as text.
            message: The OpenAI-style error's message.
            code: The OpenAI-style error's code, such as `context_length_exceeded`.
            body: The whole body instead: JSON, or text as it is.
        """
        if body is None:
            body = _error_body(status, message or f"the model server was told to fail with {status}", code)
        failure = Failure(
            status=status,
            headers={} if retry_after is None else {"Retry-After": str(retry_after)},
            text=body if isinstance(body, str) else json.dumps(body),
        )
        with self._changed:
            self._failures.put(failure, times)

    def break_connection(self, *, after_chunks: int = 0, times: int | None = 1) -> None:
        """Close the connection of the next `times` requests after `after_chunks` chunks of the stream.

        At most, all chunks before `[DONE]` are sent; with 0, not even the first byte is. An unstreamed answer breaks off in the
        middle of its body.
        """
        with self._changed:
            self._failures.put(Break(after_chunks), times)

    def end_stream(self, *, after_chunks: int = 0, times: int | None = 1) -> None:
        """End the stream of the next `times` requests early, without an error, after `after_chunks` chunks (Anthropic: events).

        The HTTP response is whole; the rest of the answer is missing, its `[DONE]` included. An unstreamed answer is sent
        whole.
        """
        with self._changed:
            self._failures.put(Break(after_chunks, clean=True), times)

    def slow(self, *, first_token_s: float = 0.0, between_chunks_s: float = 0.0, times: int | None = None) -> None:
        """Delay the next `times` answers.

        Args:
            first_token_s: Seconds before the first chunk; a stream's status and headers are out by then.
            between_chunks_s: Seconds between one chunk and the next.
            times: How many answers.
        """
        with self._changed:
            self._paces.put(Pace(first_token_s, between_chunks_s), times)

    def clear(self) -> None:
        """Forget all faults, and let the held requests go on."""
        with self._changed:
            self._failures.clear()
            self._paces.clear()
        self.release()

    # Inside

    async def _serve(self, listening: Future[None]) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", partial(self._handle, form=Completion))
        app.router.add_post("/v1/messages", partial(self._handle, form=AnthropicCompletion))
        app.router.add_route("*", "/{path:.*}", _not_found)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S)
        try:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", self._port)
            await site.start()
        except Exception as error:  # noqa: BLE001 - start() raises it
            listening.set_exception(error)
        else:
            self._port = runner.addresses[0][1]
            self._end = lambda: loop.call_soon_threadsafe(stopped.set)
            listening.set_result(None)
            await stopped.wait()
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request, form: type[_Answering]) -> web.StreamResponse:
        self._count(1)
        try:
            return await self._handled(request, form)
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._changed:
            self._answering += more
            self._changed.notify_all()

    async def _handled(self, request: web.Request, form: type[_Answering]) -> web.StreamResponse:
        try:
            body = _checked(await request.json())
        except ValueError as error:
            return _error(HTTPStatus.BAD_REQUEST, f"malformed request: {error}")
        await self._admit(Request(body, time.time(), request.headers.get("Authorization")))
        with self._changed:
            failure = self._failures.draw()
            pace = (self._paces.draw() if failure is None else None) or Pace()
        if isinstance(failure, Failure):
            return web.Response(
                status=failure.status, headers=failure.headers, text=failure.text, content_type="application/json"
            )
        if failure is not None and failure.after_chunks == 0 and not failure.clean:
            return _hang_up(request, web.StreamResponse())
        return await self._answer(request, lambda message: form(body, message), body, pace, failure)

    async def _admit(self, seen: Request) -> None:
        """Record the request, and hold it if holding is on."""
        released: Future[None] | None = None
        with self._changed:
            self._requests.append(seen)
            if self._holds.draw():
                released = Future()
                self._held.append(released)
            self._changed.notify_all()
        if released is not None:
            try:
                await asyncio.wrap_future(released)
            finally:  # a client that hung up is held no longer
                with self._changed:
                    if released in self._held:
                        self._held.remove(released)

    async def _answer(
        self,
        request: web.Request,
        formed: Callable[[Message], _Answering],
        body: dict[str, Any],
        pace: Pace,
        broken: Break | None,
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        send = _stream if body.get("stream") is True else _send
        try:
            with ExitStack() as lent:
                try:
                    message = lent.enter_context(self._source.lend(body))
                except NoAnswer as error:
                    return _error(HTTPStatus.BAD_REQUEST, str(error), "no_answer")
                except Exception as error:  # noqa: BLE001 - a user's function; a 5xx would be retried
                    return _error(HTTPStatus.BAD_REQUEST, f"no answer: {type(error).__name__}: {error}", "script_error")
                await send(request, response, formed(message), pace, broken)
        except _Broken:
            return response if broken is not None and broken.clean else _hang_up(request, response)
        except ConnectionError:  # the client has hung up, and its answer is back in the script
            return response
        return response


async def _stream(
    request: web.Request, response: web.StreamResponse, completion: _Answering, pace: Pace, broken: Break | None
) -> None:
    response.content_type = "text/event-stream"
    await response.prepare(request)
    await asyncio.sleep(pace.first_token_s)
    for number, frame in enumerate(completion.frames()):
        if number:
            await asyncio.sleep(pace.between_chunks_s)
        if broken is not None and number == broken.after_chunks:
            break
        await response.write(frame)
    if broken is not None:
        if broken.clean:
            await response.write_eof()
        raise _Broken
    await response.write(completion.end)
    await response.write_eof()


async def _send(
    request: web.Request, response: web.StreamResponse, completion: _Answering, pace: Pace, broken: Break | None
) -> None:
    await asyncio.sleep(pace.first_token_s)
    body = json.dumps(completion.whole()).encode()
    response.content_type = "application/json"
    response.content_length = len(body)
    await response.prepare(request)
    if broken is not None and not broken.clean:
        await response.write(body[: len(body) // 2])
        raise _Broken
    await response.write(body)
    await response.write_eof()


def _hang_up(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after what was written; aiohttp still wants a response."""
    if request.transport is not None:
        request.transport.close()
    return response


def _checked(body: Any) -> dict[str, Any]:
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("the body must be a JSON object with a list of `messages`")
    return dict(body)


def _error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return {"error": {"message": message, "type": _ERROR_TYPES.get(status, kind), "param": None, "code": code}}


def _error(status: int, message: str, code: str | None = None) -> web.Response:
    return web.json_response(_error_body(status, message, code), status=status)


async def _not_found(request: web.Request) -> web.Response:
    return _error(
        HTTPStatus.NOT_FOUND, f"no {request.method} {request.path} here, only POST /v1/chat/completions and POST /v1/messages"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; the first line on standard output is the URL."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.model_server", description=main.__doc__)
    answers = parser.add_mutually_exclusive_group(required=True)
    answers.add_argument("--replay", nargs="+", metavar="FILE.jsonl", help="recorded transcripts, one a line")
    answers.add_argument("--script", metavar="FILE.json", help="a list of assistant messages or strings")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; a free one when left out")
    options = parser.parse_args(arguments)
    try:
        server = (
            ModelServer(replay=Replay.from_files(*options.replay), port=options.port)
            if options.replay
            else ModelServer(script=read_script(options.script), port=options.port)
        )
        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before the thread starts, which inherits it
        with server:
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            signal.sigwait(ends)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
