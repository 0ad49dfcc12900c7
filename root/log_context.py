"""The context of log lines (conversation, effect, request, trace): set where it is known, read by the log formatters."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

CONVERSATION: ContextVar[str] = ContextVar("holdfast_conversation", default="")
"""The id of the current conversation."""
EFFECT: ContextVar[str] = ContextVar("holdfast_effect", default="")
"""The id of the current effect: a model call or a run."""
REQUEST: ContextVar[str] = ContextVar("holdfast_request", default="")
"""The id of the HTTP request that led here; stored nowhere."""
TRACE: ContextVar[str] = ContextVar("holdfast_trace", default="")
"""The id of the current trace; empty if there is none."""
ABOUT: Mapping[str, ContextVar[str]] = {"conversation": CONVERSATION, "effect": EFFECT, "request": REQUEST, "trace": TRACE}


@contextmanager
def about(**values: str) -> Iterator[None]:
    """Set the context (names of `ABOUT`) of log lines written in this block, and in tasks started in it."""
    tokens = [(ABOUT[name], ABOUT[name].set(value)) for name, value in values.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


def about_nothing() -> AbstractContextManager[None]:
    """Clear the context for tasks started in this block: they serve others besides the current work."""
    return about(**dict.fromkeys(ABOUT, ""))
