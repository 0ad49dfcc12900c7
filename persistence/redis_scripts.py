"""The Lua scripts, read once per process and run by digest."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from redis.exceptions import NoScriptError

Call: TypeAlias = tuple[Sequence[str], Sequence[str | bytes | int]]
"""The keys and arguments of one call of a script."""
KEY = re.compile(r"  (\w+) \((unchecked )?(hash|stream|sorted set)")
"""A key in a script's header: its name, and its type."""


@cache
def _text(name: str) -> str:
    return (resources.files(__package__) / "lua" / f"{name}.lua").read_text()


@cache
def _declared(name: str) -> list[tuple[str, str, str]]:
    head = re.search(r"^-- KEYS(.*?)^-- (?:ARGV|Returns)", _text(name), re.DOTALL | re.MULTILINE)
    return KEY.findall(head[1]) if head is not None else []


@cache
def keys(name: str) -> tuple[str, ...]:
    """The names of a script's keys in order, as its header declares them."""
    return tuple(key for key, _, _ in _declared(name))


@cache
def source(name: str) -> str:
    """The full text of a script: the prelude, its keys as type-checked locals, and the script itself."""
    bound = [f"local {key} = KEYS[{number}]" for number, key in enumerate(keys(name), 1)]
    checked = [
        f"if not is({key}, '{kind.replace('sorted set', 'zset')}') then return {{'corrupt', '{key} is no {kind}'}} end"
        for key, unchecked, kind in _declared(name)
        if not unchecked
    ]
    return "\n".join([_text("_prelude"), *bound, *checked, _text(name)])


@cache
def _digest(name: str) -> str:
    return hashlib.sha1(source(name).encode()).hexdigest()  # noqa: S324 - what EVALSHA takes


async def run(redis: Any, name: str, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
    """Run a script atomically; its answer is a list that begins with a word."""
    try:
        return await redis.execute_command("EVALSHA", _digest(name), len(keys), *keys, *args)
    except NoScriptError:
        return await redis.eval(source(name), len(keys), *keys, *args)


async def run_each(redis: Any, name: str, calls: Sequence[Call]) -> list[Any]:
    """The answers of a script to several calls in one round trip; an error in place of the answer that it is about."""
    async with redis.pipeline(transaction=False) as pipe:
        for keys, args in calls:
            pipe.execute_command("EVALSHA", _digest(name), len(keys), *keys, *args)
        answers = await pipe.execute(raise_on_error=False)
    return [
        await run(redis, name, *call) if isinstance(answer, NoScriptError) else answer
        for call, answer in zip(calls, answers, strict=True)
    ]
