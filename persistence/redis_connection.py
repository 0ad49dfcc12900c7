"""Connections to Redis: made without driver retries, checked for the store's identity, foreign errors translated."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.errors import ConfigurationError, CorruptStore, StoreUnavailable, WrongStore
from holdfast.redaction import PLAIN, said

from .keys import STORE_ID

SOCKET_TIMEOUT_S = 10.0
"""How long (s) a connection may take to be made, and an operation to be answered."""
MAX_CONNECTIONS = 1 << 16
"""In effect no bound: each blocking read holds a connection, and beyond its own bound (100) the driver would refuse."""


_UNNAMED: dict[str, Any] = {"driver_info": None} if find_spec("redis.driver_info") is not None else {}
"""A newer redis-py reads its own version from disk for each connection and sends it: 2 ms and two commands."""


def client(url: str, expected: Callable[[], str | None], *, blocking: bool = False) -> Any:
    """A client of the server at `url`; nothing is sent yet. `ConfigurationError` if the URL cannot be used.

    Each new connection must find the store id that `expected` returns (None: not known yet). With `blocking`, the URL
    limits no wait for an answer. The driver's own retries are off: only Holdfast knows what is safe to repeat.
    """

    async def check(connection: AbstractConnection) -> None:
        want = expected()
        try:
            await connection.on_connect()
            found = want if want is None else await _store_id(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        if found != want:
            await connection.disconnect(nowait=True)  # else the driver pools the unchecked connection
            raise WrongStore(want or "none", found or "none")

    try:
        made: Any = Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            socket_timeout=None,  # else the driver makes a task for each command; the store limits its operations itself
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            redis_connect_func=check,
            max_connections=MAX_CONNECTIONS,
            protocol=2,
            decode_responses=False,
            **_UNNAMED,
        )
        made.connection_pool.connection_kwargs["protocol"] = 2  # overrides the URL: messages are parsed as of it
        if blocking:  # overrides the URL: waits are timed here, and only the listener may read
            made.connection_pool.connection_kwargs |= {"socket_timeout": None, "health_check_interval": 0}
        made.connection_pool.make_connection()  # raises for an unknown option in the URL's query
    except (ValueError, TypeError) as error:
        scheme = re.match(r"[a-z][a-z0-9+.-]*(?=://)", url)
        problem = f"a URL with {scheme[0] if scheme is not None else 'no scheme'} cannot be used"
        if "@" not in url:  # else the error may quote part of the password
            problem += f" ({PLAIN.redacted(str(error), 200)})"
        raise ConfigurationError("redis_url", problem, "use redis://host:port/0, rediss:// or unix:///path") from None
    return made


async def _store_id(connection: AbstractConnection) -> str:
    await connection.send_command("GET", STORE_ID)
    found = await connection.read_response()
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found or "")


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn the driver's errors into Holdfast's: the one boundary where they are translated.

    The driver sends within `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that coincides with the answer,
    and so a caller's deadline; this context raises it after all.

    Raises:
        StoreUnavailable: The server cannot be reached, or refused the command.
        CorruptStore: A key has another type than Holdfast gives it.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except exceptions.ResponseError as error:
        if is_wrong_type(error):
            raise CorruptStore(f"a key has the wrong type ({PLAIN.redacted(str(error), 200)})") from error
        raise StoreUnavailable(explain(error)) from error
    except exceptions.RedisError as error:
        raise StoreUnavailable(explain(error)) from error
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(PLAIN.said(error, 300)) from error
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


def is_wrong_type(error: Exception) -> bool:
    """Whether the error is about a key of another type than Holdfast gives it."""
    return isinstance(error, exceptions.ResponseError) and "WRONGTYPE" in str(error)


def explain(error: Exception) -> str:
    """The message of the server or driver, with the fix where one is known."""
    # The driver turns some of the server's error words into classes. A server without AUTH repeats the password in its error.
    text = PLAIN.redacted(said(error).partition(", with args beginning with")[0])
    fixes = {
        ("OOM", "OutOfMemoryError"): "Redis is full: raise maxmemory, or free memory (policy must be noeviction)",
        ("READONLY", "ReadOnlyError"): "this Redis is a read-only replica: connect to the primary",
        ("MISCONF",): "Redis cannot write to its disk: free space, or fix its permissions",
        ("LOADING", "BusyLoadingError"): "Redis is still loading its data: wait",
        ("WRONGPASS", "invalid username-password"): "the password in the URL is wrong",
        ("NOAUTH", "Authentication required"): "Redis asks for a password: put it into the URL",
        ("NOPERM", "NoPermissionError"): (
            "the Redis user lacks permissions: it needs scripts, streams, hashes, sorted sets, pub/sub"
        ),
        (" connecting to ",): (
            "no Redis answers there: start it (a home's with `holdfast up`), or correct the address (HOLDFAST_REDIS_URL)"
        ),
    }
    for words, fix in fixes.items():
        if any(word in text for word in words):
            return f"{fix} ({text:.200})"
    return text[:300]
