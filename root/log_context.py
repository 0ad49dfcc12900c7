"""What a log line is about, beside its message: set where it is known, and read by whoever writes the line."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

CONVERSATION: ContextVar[str] = ContextVar("holdfast_conversation", default="")
"""The id of the conversation at work."""
EFFECT: ContextVar[str] = ContextVar("holdfast_effect", default="")
"""The id of the effect that is carried out: a model call or a run."""
REQUEST: ContextVar[str] = ContextVar("holdfast_request", default="")
"""The id of the HTTP request that led here. It is stored nowhere."""
TRACE: ContextVar[str] = ContextVar("holdfast_trace", default="")
"""The id of the trace that the work belongs to, where it is traced."""
ABOUT: Mapping[str, ContextVar[str]] = {"conversation": CONVERSATION, "effect": EFFECT, "request": REQUEST, "trace": TRACE}


@contextmanager
def about(**values: str) -> Iterator[None]:
    """Have the log lines of what is done here, and of tasks that begin here, say what they are about (names of `ABOUT`)."""
    tokens = [(ABOUT[name], ABOUT[name].set(value)) for name, value in values.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


def about_nothing() -> AbstractContextManager[None]:
    """Have tasks that begin here say of nothing what they are about: they serve more than the one who has them begin."""
    return about(**dict.fromkeys(ABOUT, ""))
