"""Foreign errors become ours at one boundary, with the fix where it is known."""

import asyncio
import traceback

import pytest
from redis import exceptions

from holdfast.errors import ConfigurationError, CorruptStore, Fenced, HoldfastError, StoreUnavailable, WrongStore
from holdfast.persistence.redis_connection import client, explain, translated


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "raise maxmemory"),
        (
            exceptions.ResponseError("Error running script: -OOM command not allowed when used memory > 'maxmemory'."),
            "raise maxmemory",
        ),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "connect to the primary"),
        (exceptions.ResponseError("@user_script: 33: -READONLY You can't write against a read only replica."), "the primary"),
        (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots, but"), "disk"),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "loading"),
        (
            exceptions.AuthenticationError("WRONGPASS invalid username-password pair or user is disabled."),
            "password in the URL",
        ),
        (exceptions.AuthenticationError("invalid username-password pair or user is disabled."), "password in the URL"),
        (exceptions.ConnectionError("Authentication required."), "asks for a password"),
        (exceptions.NoPermissionError("this user has no permissions to run the 'xadd' command"), "lacks permissions"),
        (exceptions.ConnectionError("Error 111 connecting to localhost:6379. Connection refused."), "HOLDFAST_REDIS_URL"),
        (exceptions.ConnectionError("Error 2 connecting to unix:/nowhere. No such file or directory."), "start it"),
    ],
)
def test_the_fix_is_named(error, fix):
    assert fix in explain(error)


def _errors(kind=exceptions.RedisError):
    yield kind
    for one in kind.__subclasses__():
        yield from _errors(one)


@pytest.mark.parametrize("kind", sorted(set(_errors()), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
async def test_no_error_of_the_driver_gets_through(kind):
    error = kind.__new__(kind)
    Exception.__init__(error, "something")

    with pytest.raises(StoreUnavailable) as caught:
        async with translated():
            raise error

    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [OSError("x"), ConnectionResetError("x"), TimeoutError("x")])
async def test_no_error_of_the_system_gets_through(error):
    with pytest.raises(StoreUnavailable):
        async with translated():
            raise error


async def test_a_deadline_that_the_driver_swallows_is_one_all_the_same():
    async def answered():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:  # as `asyncio.wait_for` does where the answer is there, before Python 3.12
            return "an answer"

    went_on = False

    async def caller():
        nonlocal went_on
        async with asyncio.timeout(0.01):
            async with translated():
                await answered()
            went_on = True

    with pytest.raises(TimeoutError):
        await caller()
    assert not went_on
    async with asyncio.timeout(10), translated():  # the next operation is none of its concern
        await asyncio.sleep(0)


async def test_what_is_done_after_a_cancellation_is_done():
    done = False

    async def cleaned_up():
        nonlocal done
        try:
            await asyncio.sleep(10)
        finally:
            async with translated():
                await asyncio.sleep(0)
            done = True

    task = asyncio.create_task(cleaned_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done


async def test_a_key_of_another_type_is_no_outage():
    with pytest.raises(CorruptStore):
        async with translated():
            raise exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")


@pytest.mark.parametrize("error", [WrongStore("a", "b"), Fenced("c-1"), ValueError("x")])
async def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as caught:
        async with translated():
            raise error
    assert caught.value is error
    assert not isinstance(error, HoldfastError) or caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["", "localhost", "http://x", "redis://h:port", "redis://h:99999", "redis://h?nonsense=1"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError) as refused:
        client(url, lambda: None)

    assert refused.value.field == "redis_url"


def test_the_drivers_own_retries_are_off():
    for blocking in (False, True):
        made = client("unix:///tmp/x.sock", lambda: None, blocking=blocking)
        arguments = made.connection_pool.connection_kwargs
        assert arguments["retry"].get_retries() == 0
        assert not arguments["retry_on_error"]
        assert made.connection_pool.max_connections >= 10_000
        assert arguments["socket_timeout"] is None


@pytest.mark.parametrize(
    "echoed",
    [
        "unknown command `AUTH`, with args beginning with: `open-sesame`, ",
        "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'open-sesame'",
    ],
)
async def test_a_server_that_repeats_the_password_is_not_repeated(echoed):
    with pytest.raises(StoreUnavailable) as caught:
        async with translated():
            raise exceptions.ResponseError(echoed)

    assert "unknown command" in str(caught.value)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:open/sesame@host:6379/0",
        "redis://:open-sesame@host:port/0",
        "redis://:open-sesame@host/0?socket_timeout=soon",
        "redis://host/0?password=open-sesame&nonsense=1",
        "postgres://user:open-sesame@host/0",
        "open-sesame@host:6379",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url):
    with pytest.raises(ConfigurationError, match="redis_url") as refused:
        client(url, lambda: None)

    said = "".join(traceback.format_exception(refused.value))
    assert "sesame" not in said
    assert "open" not in said.replace("open(", "")
