"""The errors by which a worker refuses a request; they cross Ray, and unexpected errors cross only as redacted text."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.actors.workers import WorkPaused
from holdfast.agent.suspend import Suspend
from holdfast.errors import HoldfastError

from .process_secrets import ProcessSecrets

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
            raise Unforeseen(self.secrets.removed_from(error)) from None

    return carried_out


async def shared(task: asyncio.Task[_T]) -> _T:
    """The task's result; a caller that stops waiting does not end the task."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise Dropped("it was dropped") from None
        raise
