"""Settings that would put conversations in the wrong place are refused, and what actors are told is what was set."""

import traceback

import pytest

from holdfast.actors import ActorSettings, StoreAddress, Timing, WorkerSettings
from holdfast.cli.options import Where
from holdfast.conversation import ConfigurationError
from holdfast.registry import Settings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("REDIS_URL", "RAY_ADDRESS", "NAMESPACE", "APP", "HOME"):
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
    ("given", "field"),
    [
        ({"redis_url": {"url": "redis://:open-sesame@host/0"}}, "redis_url"),
        ({"redis_url": ["redis://:open-sesame@host/0"]}, "redis_url"),
        ({"redis_urls": "redis://:open-sesame@host/0"}, "redis_urls"),
        ({"standby": "redis://:open-sesame@host/0"}, "standby"),
    ],
)
def test_a_setting_is_refused_without_the_password_in_it(given, field):
    with pytest.raises(ConfigurationError, match=field) as refused:
        Settings.of(**given)

    assert "sesame" not in "".join(traceback.format_exception(refused.value))


def test_no_password_is_in_what_python_shows_of_settings():
    url = "redis://:open-sesame@host/0"
    address = StoreAddress(url, "holdfast", "store-1")
    worker = WorkerSettings(address, "worker-0", "shop:app", "k", environment={"OPENAI_API_KEY": "open-sesame"})

    for shown in (Settings.of(redis_url=url), address, ActorSettings(address), worker, Where(redis_url=url)):
        assert "sesame" not in repr(shown)
        assert "sesame" not in str(shown)
