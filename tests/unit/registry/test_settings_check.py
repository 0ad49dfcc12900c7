"""Settings that would put conversations in the wrong place are refused, and what actors are told is what was set."""

import base64
import os
import traceback

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker.refusals import ProcessSecrets
from holdfast.cli.options import Where
from holdfast.embedded import local_ray
from holdfast.embedded.home import Home
from holdfast.errors import ConfigurationError
from holdfast.settings import ProcessLimits, Settings, Timing


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HOLDFAST_{name.upper()}", raising=False)


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


def test_what_is_not_set_is_as_the_docs_say():
    settings = Settings.of()
    assert settings.timing == Timing(lease_ms=10_000, linger_ms=30_000, tick_ms=500)
    process_limits = ProcessLimits(
        standby=2, max_actors=9, workers=1, strikes=3, adoptions=100_000, actor_mb=512, effects=100_000, worker_mb=2048
    )
    assert Settings.of(max_actors=9, workers=1).process_limits == process_limits


BOUNDS = {
    "standby": (0, 64),
    "max_actors": (1, 10_000),
    "workers": (1, 64),
    "strikes": (1, 100),
    "adoptions": (1, None),
    "actor_mb": (64, None),
    "model_calls": (1, 100_000),
    "effects": (1, None),
    "worker_mb": (128, None),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_is_taken_within_its_bounds_and_refused_beyond_them(name):
    least, most = BOUNDS[name]
    for value in (least, most or 10**9):
        assert getattr(Settings.of(**{name: value}), name) == value
    for value in (least - 1, *(() if most is None else (most + 1,))):
        with pytest.raises(ConfigurationError, match=f"HOLDFAST_{name.upper()}"):
            Settings.of(**{name: value})


@pytest.mark.parametrize("name", ["lease_s", "linger_s", "tick_s"])
def test_a_time_is_a_millisecond_at_least_and_has_an_end(name):
    assert getattr(Settings.of(**{name: 0.001}), name) == 0.001
    for value in (0, 0.0009, -1, float("inf"), float("nan")):
        with pytest.raises(ConfigurationError, match=f"HOLDFAST_{name.upper()}"):
            Settings.of(**{name: value})


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
    worker = WorkerSettings(ActorSettings(address), "worker-0", "shop:app", "k", environment={"OPENAI_API_KEY": "open-sesame"})

    for shown in (Settings.of(redis_url=url), address, ActorSettings(address), worker, Where(redis_url=url)):
        assert "sesame" not in repr(shown)
        assert "sesame" not in str(shown)


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


@pytest.mark.parametrize("name", ["HOLDFAST_APP_KEY", "HOLDFAST_LINK_KEYS"])
def test_no_process_that_runs_tools_has_a_key_of_holdfast_s_own(monkeypatch, tmp_path, name):
    monkeypatch.setenv(name, f"k1:{KEY.hex()}")
    assert name not in local_ray._environment(Home.open(tmp_path / "home"), tmp_path / "token")
    secrets = ProcessSecrets("redis://x", content=False)
    assert name not in os.environ
    assert KEY.hex() not in secrets.redaction.redacted(f"it was k1:{KEY.hex()}")


def test_the_keys_of_links_are_read_in_their_order_and_shown_nowhere(monkeypatch):
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", f"k2:{KEY.hex()}, k1:{base64.b64encode(KEY).decode()}")
    settings = Settings.of(redis_url="redis://x")
    assert list(settings.link_keys.items()) == [("k2", KEY), ("k1", KEY)]
    assert "link_keys" not in repr(settings)


@pytest.mark.parametrize(
    "written",
    [
        KEY.hex(),
        f"k1:{KEY.hex()[2:]}",
        f"k1:{KEY.hex()},",
        f"k1:{KEY.hex()},k1:{KEY.hex()}",
        f"k 1:{KEY.hex()}",
        f":{KEY.hex()}",
        f"{'k' * 17}:{KEY.hex()}",
        "k1:correct horse battery staple",
    ],
)
def test_keys_of_links_that_cannot_be_used_are_refused_and_not_repeated(monkeypatch, written):
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", written)
    with pytest.raises(ConfigurationError, match=r"link_keys: .*HOLDFAST_LINK_KEYS") as refused:
        Settings.of(redis_url="redis://x")
    assert KEY.hex()[2:] not in "".join(traceback.format_exception(refused.value))
    assert "horse" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["ftp://x", "https://", "https://a:b@x", "https://x/?y", "https://x/#y", "x", "https://x:port", "https://x\n"]
)
def test_a_public_url_is_that_of_a_server(url):
    with pytest.raises(ConfigurationError, match=r"public_url: .*no URL of a server"):
        Settings.of(redis_url="redis://x", public_url=url)


def test_a_public_url_may_have_a_path_and_ends_without_a_slash():
    assert (
        Settings.of(redis_url="redis://x", public_url="https://holdfast.example/x/").public_url == "https://holdfast.example/x"
    )


@pytest.mark.parametrize("written", ["correct horse battery staple", "ab" * 31, "A" * 40 + "=", "ä" * 64])
def test_a_key_that_is_too_short_or_none_is_refused_and_not_repeated(monkeypatch, written):
    monkeypatch.setenv("HOLDFAST_APP_KEY", written)
    with pytest.raises(ConfigurationError, match=r"app_key: .*32 bytes in hexadecimal or base64.*HOLDFAST_APP_KEY") as refused:
        Settings.of(redis_url="redis://x")
    assert written not in "".join(traceback.format_exception(refused.value))
