"""The Python function behind a tool, and how it is run."""

import asyncio
import inspect
import os
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, TypeAlias

from holdfast.errors import ConfigurationError
from holdfast.redaction import said

from .context import ToolContext
from .suspend import suspend_in

InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""A function that runs another one in a thread, as `asyncio.to_thread` does."""


class InvalidArguments(ValueError):
    """The arguments do not fit the tool, and its body did not run; the message says where and why."""


class ValidatorRaised(InvalidArguments):
    """A validator of the app failed for a reason other than the arguments; its exception is the cause."""


class Callback:
    """A tool's function, and the names of the parameters that receive the call's context; the model fills the others."""

    def __init__(self, function: Callable[..., Any], field: str) -> None:
        self.function = function
        self._field = field
        if not callable(function):
            raise ConfigurationError(field, f"{type(function).__name__} cannot be called", "give a function")
        self._body = _body(function)
        if inspect.isgeneratorfunction(self._body) or inspect.isasyncgenfunction(self._body):
            fix = "return the result, and report what comes before it with ToolContext.report_progress (streaming=True)"
            raise ConfigurationError(field, "it is a generator function, and a tool has one result", fix)
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                field, f"its signature cannot be read ({error})", "wrap it in a Python function"
            ) from error
        self._namespace = _namespace(self._body)
        self._refuse_positional()
        self.contexts = tuple(name for name in self.signature.parameters if self._takes_context(name))

    @property
    def docstring(self) -> str | None:
        """The docstring of the function, if any."""
        found: str | None = self._body.__doc__
        return found

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters that the model fills."""
        return {name: found for name, found in self.signature.parameters.items() if name not in self.contexts}

    def hint(self, name: str) -> Any:
        """The annotated type of a parameter, `Any` without one; raises the errors of evaluating the annotation."""
        annotation = self.signature.parameters[name].annotation
        if annotation is inspect.Parameter.empty:
            return Any
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        return typing.get_type_hints(holder, *self._namespace, include_extras=True)[name]

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the function cannot be called with."""
        for name in self.contexts:
            if name in arguments:
                raise InvalidArguments(f"$.{name}: it is not for the model to fill")
        try:
            self.signature.bind(**arguments, **dict.fromkeys(self.contexts))
        except TypeError as error:
            raise InvalidArguments(f"$: {error}") from error

    @property
    def blocks(self) -> bool:
        """Whether the function is not a coroutine function, and so keeps a thread until it returns."""
        return not inspect.iscoroutinefunction(self._body)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, in_thread: InThread = asyncio.to_thread) -> Any:
        """The function's result: a coroutine function is awaited, another runs in a thread with the caller's contextvars."""
        self.check(arguments)
        call = partial(self.function, **arguments, **dict.fromkeys(self.contexts, context))
        try:
            if not self.blocks:
                with _unforked():
                    return await call()
            value, error = await in_thread(_attempt, call)
            if error is not None:
                raise error
            return await value if inspect.isawaitable(value) else value
        except (SystemExit, KeyboardInterrupt) as error:  # on the event loop they would end the worker
            raise _ended(error) from error

    def _refuse_positional(self) -> None:
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                problem = f"its parameter {name!r} is positional-only, but a model names its arguments"
                raise ConfigurationError(self._field, problem, "remove the `/` from its signature")

    def _takes_context(self, name: str) -> bool:
        try:
            return _mentions_context(self.hint(name))
        except (NameError, TypeError, AttributeError, SyntaxError):
            return False  # where types matter, `Parameters` reports it


def _attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The outcome as a value: asyncio's futures cannot carry StopIteration, nor tell a body's CancelledError from their own."""
    try:
        with _unforked():
            return call(), None
    except Exception as error:  # noqa: BLE001 - raised again on the event loop
        return None, error
    except BaseException as error:  # noqa: BLE001 - as above
        return None, error if suspend_in(error) is not None else _ended(error)


@contextmanager
def _unforked() -> Iterator[None]:
    """End a forked child when it leaves the body: it must not go on as a second worker."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)


def _ended(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the tool's body raised {said(error)}")


def _body(function: Any) -> Any:
    """The function behind a `functools.partial` or an object with `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return function


def _namespace(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals and, for a nested function, the locals that its annotations may name."""
    outer: dict[str, Any] = getattr(inspect.unwrap(body), "__globals__", {})
    frames = []
    frame: types.FrameType | None = sys._getframe()  # noqa: SLF001 - as typing.NamedTuple does
    while frame is not None:
        if frame.f_globals is outer and frame.f_locals is not outer:
            frames.append(frame.f_locals)
        frame = frame.f_back
    inner = {name: value for found in reversed(frames) for name, value in found.items()}
    return {"ToolContext": ToolContext, **outer}, inner


def _mentions_context(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _mentions_context(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_mentions_context(option) for option in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, ToolContext)
