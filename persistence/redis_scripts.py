"""The Lua scripts, loaded once a process and run by digest."""

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError


@cache
def source(name: str) -> str:
    """The text of a script, with the shared prelude before it."""
    folder = resources.files(__package__) / "lua"
    return (folder / "_prelude.lua").read_text() + (folder / f"{name}.lua").read_text()


@cache
def _digest(name: str) -> str:
    return hashlib.sha1(source(name).encode()).hexdigest()  # noqa: S324 - what EVALSHA takes


async def run(redis: Any, name: str, keys: list[str], args: list[str | bytes | int]) -> Any:
    """Run a script atomically, and return its answer: a list that begins with a word."""
    try:
        return await redis.evalsha(_digest(name), len(keys), *keys, *args)
    except NoScriptError:
        return await redis.eval(source(name), len(keys), *keys, *args)
