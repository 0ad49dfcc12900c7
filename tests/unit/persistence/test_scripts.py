"""The scripts: commands of Redis 6.2 alone, headers that name every key, checks before writes."""

import re
from importlib import resources

import pytest

from holdfast.persistence import redis_scripts

SCRIPTS = sorted(path.name.removesuffix(".lua") for path in (resources.files("holdfast.persistence") / "lua").iterdir())
RUN = [name for name in SCRIPTS if not name.startswith("_")]
SINCE_6_2 = {
    *(
        "COPY",
        "DEL",
        "EXISTS",
        "HDEL",
        "HEXISTS",
        "HGET",
        "HGETALL",
        "HKEYS",
        "HLEN",
        "HMGET",
        "HSET",
        "HSETNX",
        "HVALS",
        "PERSIST",
    ),
    *(
        "PEXPIRE",
        "PUBLISH",
        "RENAME",
        "TIME",
        "TYPE",
        "XADD",
        "XINFO",
        "XRANGE",
        "XREVRANGE",
        "ZADD",
        "ZCARD",
        "ZREM",
        "ZSCORE",
    ),
}
WRITES = {"COPY", "DEL", "HDEL", "HSET", "HSETNX", "PERSIST", "PEXPIRE", "RENAME", "XADD", "ZADD", "ZREM"}


def commands(source):
    return re.findall(r"redis\.p?call\('([A-Z]+)'", source)


def text(name):
    return (resources.files("holdfast.persistence") / "lua" / f"{name}.lua").read_text()


def test_the_scripts_are_these():
    assert RUN == [
        "acquire",
        "append",
        "bind",
        "claim",
        "count",
        "entries",
        "finish",
        "give_back",
        "heartbeat",
        "load",
        "log_page",
        "look",
        "note_api_key_use",
        "pause",
        "paused",
        "postpone",
        "progress",
        "prune",
        "put_api_key",
        "raise",
        "readmit",
        "refuse",
        "reindex",
        "release",
        "renew",
        "resume",
        "retry",
        "serve",
        "strike",
        "troubled",
        "unbind",
        "use",
    ]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_uses_commands_of_redis_6_2_alone(name):
    used = set(commands(text(name)))

    assert used <= SINCE_6_2
    assert text(name).count("redis.call(") + text(name).count("redis.pcall(") == len(commands(text(name)))  # each is literal
    assert not re.search(r"XADD[^\n]*NOMKSTREAM|HSET[^\n]*EX|redis\.(setresp|log|acl|breakpoint)", text(name))


@pytest.mark.parametrize("name", RUN)
def test_a_script_names_every_key_it_is_given(name):
    head, body = re.match(r"((?:--[^\n]*\n)+)(.*)", text(name), re.DOTALL).groups()
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", body)}
    named = {
        int(number)
        for number in re.findall(
            r"(?:KEYS|  ) +(\d+) [a-z]", re.search(r"-- KEYS.*?(?=-- ARGV|-- Returns)", head, re.DOTALL)[0]
        )
    }

    assert used == named


@pytest.mark.parametrize("name", RUN)
def test_a_script_checks_the_type_of_every_key_that_it_is_given(name):
    body = text(name)
    keys = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", body)}
    bound = _bindings(body)
    checked = set(re.findall(r"is\(([\w\[\]]+), '", body))
    unchecked = {number for number in keys if f"KEYS[{number}]" not in checked and bound.get(number) not in checked}

    assert unchecked == ({4} if name == "release" else set())  # the copy of the log, which is overwritten


def _bindings(body):
    found = {}
    for names, values in re.findall(r"local ([\w, ]+) = (KEYS\[\d+\](?:, KEYS\[\d+\])*)\n", body):
        numbers = [int(number) for number in re.findall(r"\d+", values)]
        found |= dict(zip(numbers, names.split(", "), strict=True))
    return found


@pytest.mark.parametrize("name", RUN)
def test_nothing_is_refused_after_the_first_write(name):
    """Redis does not take a failing script back: every check stands before."""
    body = re.sub(r"--[^\n]*", "", text(name))
    after = re.split(rf"redis\.p?call\('(?:{'|'.join(WRITES)})'", body, maxsplit=1)
    refusals = re.findall(r"return \{'(?!ok)(\w+)'", after[1]) if len(after) > 1 else []

    assert refusals == (["corrupt"] if name == "append" else [])  # of the first XADD itself


def test_every_script_begins_with_the_prelude():
    for name in RUN:
        assert redis_scripts.source(name) == text("_prelude") + text(name)
