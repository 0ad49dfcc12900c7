"""Where a client over HTTP goes: which URLs are taken, what goes together, and when a token stays here."""

import subprocess
import sys

import pytest

from holdfast.client import AsyncClient
from holdfast.client.http_address import Address
from holdfast.errors import ConfigurationError

TOKEN = "hunter22-hunter22"  # noqa: S105 - made up


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("URL", "TOKEN", "REDIS_URL", "RAY_ADDRESS", "HOME", "APP", "PLAIN_HTTP", "NAMESPACE"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://desk.example.com", "https://desk.example.com"),
        ("https://desk.example.com:8443/a/b/", "https://desk.example.com:8443/a/b"),
        ("http://[::1]:8484", "http://[::1]:8484"),
        ("http://10.0.0.1", "http://10.0.0.1"),
    ],
)
def test_a_url_of_a_server_is_taken(given, used):
    assert Address.of(given).url == used


@pytest.mark.parametrize(
    "url",
    [
        "",
        "desk.example.com",
        "ftp://desk.example.com",
        "https://",
        "https://[",
        "https://desk:x",
        "https://desk:99999",
        "https://me:hunter22@desk",
        "https://desk/?token=hunter22",
        "https://desk/#hunter22",
        "https://desk/a b",
        "https://dësk",
        "https://desk\n",
        "//desk",
    ],
)
def test_another_url_is_refused_and_not_shown(url):
    with pytest.raises(ConfigurationError) as refused:
        Address.of(url)
    assert refused.value.field == "url"
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://desk.example.com", "http://localhost:1", "http://127.0.0.7", "http://[::1]:8"])
def test_a_token_goes_where_nobody_listens(url):
    address = Address.of(url, TOKEN)
    assert address.token == TOKEN
    assert TOKEN not in repr(address)


@pytest.mark.parametrize("url", ["http://desk.example.com", "http://10.0.0.1", "http://localhost.example.com", "http://0x7f.1"])
def test_a_token_is_sent_unencrypted_only_where_that_is_said(url):
    with pytest.raises(ConfigurationError, match="plain_http=True") as refused:
        AsyncClient.connect(url=url, token=TOKEN)
    assert TOKEN not in str(refused.value)
    assert AsyncClient.connect(url=url, token=TOKEN, plain_http=True).gateway.exchange.address.token == TOKEN


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü", "x" * 9000])
def test_what_is_no_token_is_refused_and_not_shown(token):
    with pytest.raises(ConfigurationError, match="token") as refused:
        Address.of("https://desk.example.com", token)
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "https://desk", "redis_url": "redis://localhost"}, "redis_url"),
        ({"url": "https://desk", "ray_address": "auto"}, "ray_address"),
        ({"url": "https://desk", "home": "/srv"}, "home"),
        ({"url": "https://desk", "namespace": "mine"}, "namespace"),
        ({"url": "https://desk", "app": "shop:app"}, "app"),
        ({"url": "https://desk", "publish": True}, "publish"),
        ({"token": TOKEN}, "token"),
        ({"token": TOKEN, "redis_url": "redis://localhost"}, "token"),
        ({"url": 7}, "url"),
        ({"url": "https://desk", "token": 7}, "token"),
    ],
)
def test_what_does_not_go_together_is_refused(given, field):
    with pytest.raises(ConfigurationError) as refused:
        AsyncClient.connect(**given)
    assert refused.value.field == field
    assert TOKEN not in str(refused.value)


def test_variables_lead_to_one_place_and_a_token_to_its_own_server(monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", "https://desk.example.com")
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    assert AsyncClient.connect(url="https://desk.example.com/agents").gateway.exchange.address.token == TOKEN
    with pytest.raises(ConfigurationError, match="another server"):
        AsyncClient.connect(url="https://elsewhere.example.com")
    with pytest.raises(ConfigurationError, match="app"):
        AsyncClient.connect("shop:app")
    monkeypatch.setenv("HOLDFAST_REDIS_URL", "redis://localhost")
    with pytest.raises(ConfigurationError, match="HOLDFAST_URL and HOLDFAST_REDIS_URL"):
        AsyncClient.connect()
    assert AsyncClient.connect(url="https://desk.example.com").gateway.exchange.address.token == TOKEN
    monkeypatch.delenv("HOLDFAST_URL")
    assert AsyncClient.connect(url="https://elsewhere.example.com").gateway.exchange.address.token == TOKEN


ALONE = """
import sys
from holdfast import Client, ServerUnavailable
client = Client.connect(url="http://127.0.0.1:1", timeout_s=0.01)
try:
    client.conversation("c-1").send("hello")
except ServerUnavailable:
    pass
client.close()
print(sorted({"ray", "redis", "litellm"} & sys.modules.keys()))
"""


def test_a_client_over_http_imports_neither_ray_nor_redis():
    shown = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
