"""The handlers of a client: each carries out the calls of a tool, and its result or error becomes the decision on the call."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.agent.context import Reporting
from holdfast.conversation import Answer, Fail
from holdfast.conversation.text import jsontext
from holdfast.daemon import in_daemon
from holdfast.errors import InvalidInput
from holdfast.redaction import PLAIN

from .operation import judged
from .results import PendingCall

RESULT_BYTES = 64 * 1024 * 1024
"""The most bytes of a result's JSON text that are sent at all; the agent's `Limits.result_bytes` says what is taken."""
ERROR_CHARS = 800
"""The most characters of an error that the model reads: in bytes, fewer than the default `Limits.note_bytes`."""


@dataclass(frozen=True, kw_only=True)
class ClientContext(Reporting):
    """The call that a client's handler carries out.

    Attributes:
        call: The call, as it was claimed.
        attempt: 1 at first, and one more each time that the call was given back by a client, or lost with one.
    """

    call: PendingCall[Any]
    attempt: int


ClientHandler: TypeAlias = Callable[[dict[str, Any], ClientContext], Any]
"""A function of a call's arguments and its `ClientContext`, async or not. It returns a JSON value, or raises."""


def handlers_of(handlers: object) -> dict[str, ClientHandler]:
    """The handlers by tool, checked."""
    if not isinstance(handlers, Mapping):
        raise InvalidInput("handlers", f"{handlers!r:.60} is no mapping", 'give a handler for each tool: {"locate": locate}')
    for name, handler in handlers.items():
        if not callable(handler):
            problem = f"{type(handler).__name__} cannot be called"
            raise InvalidInput(f"handlers[{name!r:.60}]", problem, "give a function of the arguments and a ClientContext")
    return dict(handlers)


async def decision_of(handler: ClientHandler, context: ClientContext) -> Answer | Fail:
    """The decision that a handler's result or error stands for. A blocking handler runs in a daemon thread."""
    try:
        value = await _result_of(handler, context)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failed("the handler was cancelled")  # it raised the error by itself
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is the call's error
        return failed(PLAIN.said(error, ERROR_CHARS))
    return await judged(lambda: answer_of(value), value)


def answer_of(value: Any) -> Answer | Fail:
    """The answer of this value, if it is JSON and not too large; else the failure that says so."""
    try:
        size = len(value) if isinstance(value, str | bytes) else 0
        size = size if size > RESULT_BYTES else jsontext.size_bytes(jsontext.dumps(value))
    except jsontext.NotJson as error:
        return failed(f"the handler's result is no JSON: {error}")
    if size > RESULT_BYTES:
        return failed(f"the handler's result has {size} bytes, {RESULT_BYTES} are allowed")
    return Answer(value)


def failed(why: str) -> Fail:
    """The failure with this reason, cut to what the model may read."""
    text = jsontext.clean(why)
    return Fail(text if len(text) <= ERROR_CHARS else f"{text[: ERROR_CHARS - 1]}…")


async def _result_of(handler: ClientHandler, context: ClientContext) -> Any:
    arguments = dict(context.call.arguments)
    body = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004 - an object's own
    if inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(handler):
        found = handler(arguments, context)
    else:
        found, error = await in_daemon(_attempt, handler, arguments, context)
        if error is not None:
            raise error
    if not inspect.isawaitable(found):
        return found
    try:
        return await found
    except SystemExit as error:  # it would end the client's event loop
        raise _ended(error) from error


def _attempt(handler: ClientHandler, arguments: dict[str, Any], context: ClientContext) -> tuple[Any, BaseException | None]:
    """The outcome as a value: what ends a thread must not end the event loop."""
    try:
        return handler(arguments, context), None
    except Exception as error:  # noqa: BLE001 - raised again on the event loop
        return None, error
    except BaseException as error:  # noqa: BLE001 - as above
        return None, _ended(error)


def _ended(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the handler raised {PLAIN.said(error, ERROR_CHARS)}")
