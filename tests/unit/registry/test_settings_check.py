"""Settings that would put conversations in the wrong place are refused, and what actors are told is what was set."""

import base64
import traceback

import pytest

from holdfast.actors import Timing
from holdfast.conversation import ConfigurationError
from holdfast.registry import Settings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("REDIS_URL", "RAY_ADDRESS", "NAMESPACE", "APP", "HOME", "PUBLISH", "APP_KEY"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"namespace": "a:b"}, "namespace"),
        ({"redis_url": "redis://x", "ray_address": "ray://head:10001"}, "ray_address"),
        ({"ray_address": "10.0.0.1:6379"}, "redis_url"),
        ({"embedded": False}, "redis_url"),
    ],
    ids=[
        "a namespace no key can hold",
        "Ray Client",
        "a cluster without a store",
        "neither a store nor the embedded one",
    ],
)
def test_settings_that_cannot_be_right_are_refused(given, named):
    with pytest.raises(ConfigurationError, match=named):
        Settings.of(**given)


def test_a_store_of_ones_own_needs_nothing_embedded():
    assert Settings.of(redis_url="redis://x", embedded=False).redis_url == "redis://x"


def test_actors_are_told_milliseconds():
    told = Settings.of(lease_s=7, linger_s=31, tick_s=2).timing
    assert told == Timing(lease_ms=7_000, linger_ms=31_000, tick_ms=2_000)


@pytest.mark.parametrize(
    ("given", "publishes"),
    [
        ({}, True),
        ({"redis_url": "redis://x"}, False),
        ({"redis_url": "redis://x", "publish": True}, True),
        ({"publish": False}, False),
    ],
)
def test_who_connects_publishes_on_the_embedded_stack_and_elsewhere_only_if_told_to(given, publishes):
    assert Settings.of(**given).publishes is publishes


def test_whether_who_connects_publishes_is_a_variable_too(monkeypatch):
    monkeypatch.setenv("HOLDFAST_PUBLISH", "true")
    assert Settings.of(redis_url="redis://x").publishes


KEY = bytes(range(200, 232))


@pytest.mark.parametrize(
    "written", [KEY.hex(), KEY.hex().upper(), base64.b64encode(KEY).decode(), base64.urlsafe_b64encode(KEY).decode()]
)
def test_the_key_of_app_records_is_hexadecimal_or_base64_and_shown_nowhere(monkeypatch, written):
    monkeypatch.setenv("HOLDFAST_APP_KEY", written)
    settings = Settings.of(redis_url="redis://x")
    assert settings.app_key == KEY
    assert "app_key" not in repr(settings)


@pytest.mark.parametrize("written", ["correct horse battery staple", "ab" * 31, "A" * 40 + "=", "ä" * 64])
def test_a_key_that_is_too_short_or_none_is_refused_and_not_repeated(monkeypatch, written):
    monkeypatch.setenv("HOLDFAST_APP_KEY", written)
    with pytest.raises(ConfigurationError, match=r"app_key: .*32 bytes in hexadecimal or base64.*HOLDFAST_APP_KEY") as refused:
        Settings.of(redis_url="redis://x")
    assert written not in "".join(traceback.format_exception(refused.value))
