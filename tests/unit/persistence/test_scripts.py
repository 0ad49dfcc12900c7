"""The scripts: commands of Redis 6.2 alone, headers that name every key, checks before writes."""

import re
from importlib import resources

import pytest

from holdfast.persistence import redis_scripts
from holdfast.persistence.keys import Keys, bucket_of

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
        "HINCRBY",
        "HKEYS",
        "HLEN",
        "HMGET",
        "HSET",
        "HSETNX",
        "HVALS",
        "PERSIST",
    ),
    *("ZLEXCOUNT", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE"),
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
WRITES = {
    "COPY",
    "DEL",
    "HDEL",
    "HSET",
    "HSETNX",
    "LPOP",
    "LREM",
    "PERSIST",
    "PEXPIRE",
    "RENAME",
    "RPUSH",
    "XADD",
    "ZADD",
    "ZREM",
}


def commands(source):
    return re.findall(r"redis\.p?call\('([A-Z]+)'", source)


def text(name):
    return (resources.files("holdfast.persistence") / "lua" / f"{name}.lua").read_text()


def test_the_scripts_are_these():
    assert RUN == [
        "acknowledge",
        "acquire",
        "append",
        "attach",
        "bind",
        "claim",
        "count",
        "detach",
        "entries",
        "finish",
        "forget_clients",
        "give_back",
        "heartbeat",
        "lease",
        "load",
        "log_page",
        "look",
        "named",
        "note_api_key_use",
        "pause",
        "paused",
        "postpone",
        "progress",
        "prune",
        "put_api_key",
        "raise",
        "readmit",
        "redeliver",
        "refuse",
        "reindex",
        "release",
        "remain",
        "renew",
        "requeue",
        "retry",
        "serve",
        "strike",
        "take",
        "troubled",
        "unbind",
        "unclaim",
        "unpause",
        "use",
        "visit",
    ]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_uses_commands_of_redis_6_2_alone(name):
    used = set(commands(text(name)))

    assert used <= SINCE_6_2
    assert text(name).count("redis.call(") + text(name).count("redis.pcall(") == len(commands(text(name)))  # each is literal
    assert not re.search(r"XADD[^\n]*NOMKSTREAM|HSET[^\n]*EX|redis\.(setresp|log|acl|breakpoint)", text(name))


@pytest.mark.parametrize("name", RUN)
def test_a_script_knows_every_key_by_its_name(name):
    body = re.sub(r"--[^\n]*", "", text(name))

    assert "KEYS[" not in body
    unused = [key for key in redis_scripts.keys(name) if not re.search(rf"\b{key}\b", body)]
    assert unused == (["log"] if name == "reindex" else [])  # which only refuses a log that is none
    assert redis_scripts.keys(name) or name in {"entries", "named"}  # which read any number of logs or indexes, and check each


@pytest.mark.parametrize("name", RUN)
def test_the_type_of_every_key_is_checked_before_a_script_begins(name):
    made = redis_scripts.source(name)
    between = made.removeprefix(text("_prelude")).removesuffix(text(name))
    checked = set(re.findall(r"^if not is\((\w+), '(?:hash|stream|zset)'\) then return \{'corrupt', ", between, re.MULTILINE))
    unchecked = {
        "append": {"copy"},
        "release": {"copy"},
        "postpone": {"head"},
    }  # a copy that is overwritten, and a head that may be broken

    assert set(redis_scripts.keys(name)) - checked == unchecked.get(name, set())


def test_the_keys_of_a_conversation_are_those_that_scripts_name():
    made = Keys("n")

    assert made.of("c-1", redis_scripts.keys("append"))[:2] == [made.head("c-1"), made.log("c-1")]
    assert made.of("c-1", ("attention",)) == [made.attention(bucket_of("c-1"))]


@pytest.mark.parametrize("name", RUN)
def test_nothing_is_refused_after_the_first_write(name):
    """Redis does not take a failing script back: every check stands before."""
    body = re.sub(r"--[^\n]*", "", text(name))
    after = re.split(rf"redis\.p?call\('(?:{'|'.join(WRITES)})'", body, maxsplit=1)
    refusals = re.findall(r"return \{'(?!ok|late|visit)(\w+)'", after[1]) if len(after) > 1 else []

    assert refusals == (["corrupt"] if name == "append" else [])  # of the first XADD itself


def test_every_script_begins_with_the_prelude():
    for name in RUN:
        assert redis_scripts.source(name).startswith(text("_prelude"))
        assert redis_scripts.source(name).endswith(text(name))
