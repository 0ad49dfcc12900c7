"""The errors by which a worker refuses a request, and the secrets that it hides: other errors cross Ray as redacted text."""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.actors import logs
from holdfast.actors.workers import WorkPaused
from holdfast.agent.suspend import Suspend
from holdfast.errors import HoldfastError
from holdfast.redaction import Redaction
from holdfast.settings import UNSHARED

from .work_spans import NO_CONTENT, Content

TRACEBACK = 16_384


class ProcessSecrets:
    """The secrets that this process knows so far; `redaction` removes them."""

    def __init__(self, url: str, *, content: bool) -> None:
        self._unshared = {name: os.environ.pop(name) for name in UNSHARED if name in os.environ}
        self._named: set[str] = set()
        self._url = url
        self._shows_content = content
        self.learn(())

    def learn(self, named: Iterable[str]) -> None:
        """Treat the values of these environment variables as secrets too."""
        self._named.update(named)
        self.redaction = Redaction.of_process({**os.environ, **self._unshared}, self._named, urls=[self._url])
        logs.guard_process(self.redaction)

    @property
    def content(self) -> Content:
        """What spans show of content."""
        return Content(self.redaction) if self._shows_content else NO_CONTENT


_T = TypeVar("_T")
_P = ParamSpec("_P")


class AppBroken(Exception):
    """The app cannot be imported or opened here; the message says why."""


class Dropped(Exception):
    """The request was sent away: its effect was dropped, or its turn has not come yet. The caller can ask again."""


class Succeeded(Exception):
    """This worker was used for long enough, drained, or idle for too long; its successor has taken over."""


class Unforeseen(Exception):
    """An unexpected error in this process; the message has its redacted traceback."""


class _Redacting(Protocol):
    secrets: ProcessSecrets


_W = TypeVar("_W", bound=_Redacting)


def told(
    method: Callable[Concatenate[_W, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_W, _P], Coroutine[Any, Any, _T]]:
    """Replace an unexpected error by its redacted traceback: Ray sends tracebacks, and only this process knows the secrets."""

    @wraps(method)
    async def carried_out(self: _W, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await method(self, *args, **kwargs)
        except (HoldfastError, WorkPaused, AppBroken, Dropped, Succeeded):
            raise
        except (Exception, Suspend) as error:  # noqa: BLE001 - it is raised again as `Unforeseen`
            text = "".join(traceback.format_exception(error))
            raise Unforeseen(self.secrets.redaction.redacted(text, TRACEBACK)) from None

    return carried_out


async def shared(task: asyncio.Task[_T]) -> _T:
    """The task's result; a caller that stops waiting does not end the task."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise Dropped("it was dropped") from None
        raise
