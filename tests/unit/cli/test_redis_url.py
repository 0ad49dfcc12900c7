"""A Redis URL where the command line shows it: no password, also where it stands in a command that is to be copied."""

import shlex

import pytest

from holdfast.cli import errors
from holdfast.cli.hints import command
from holdfast.cli.options import Where
from holdfast.cli.redis_url import masked
from holdfast.errors import ConfigurationError


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("HOLDFAST_REDIS_URL", raising=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:open-sesame@host:6379/0", "redis://***@host:6379/0"),
        ("redis://user:open/ses@me@host:6379/0", "redis://***@host:6379/0"),
        ("unix:///run/redis.sock?db=1&password=open-sesame", "unix:///run/redis.sock?db=1&password=***"),
        ("redis://token@host", "redis://***@host"),
    ],
)
def test_a_url_is_shown_without_user_and_password(url, shown):
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("url", "copied"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:open-sesame@host:6379/0", "redis://USER:PASSWORD@host:6379/0"),
        ("unix:///run/redis.sock?password=open-sesame", "unix:///run/redis.sock?password=PASSWORD"),
    ],
)
def test_a_command_to_be_copied_has_a_word_to_be_replaced_for_the_password(url, copied):
    words = shlex.split(command(["pending"], Where(redis_url=url, namespace="shop")))
    assert words == ["holdfast", "pending", "--redis-url", copied, "--namespace", "shop"]


def test_a_command_leaves_a_url_with_a_password_out_where_the_environment_has_it(monkeypatch):
    url = "redis://:open-sesame@host:6379/0"
    monkeypatch.setenv("HOLDFAST_REDIS_URL", url)
    assert command(["pending"], Where(redis_url=url)) == "holdfast pending"


@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_is_said_without_the_password_in_it(capsys, as_json):
    errors.say(ConfigurationError("redis_url", "redis://:open-sesame@host is none", "correct it"), as_json=as_json)
    said = capsys.readouterr().err
    assert "redis://***@host is none" in said
    assert "sesame" not in said
