"""The keys of an identity provider: when they are fetched, what of them is taken, and what happens where they cannot be."""

import asyncio
import warnings

import httpx
import pytest
from joserfc import jwk
from joserfc.errors import SecurityWarning
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.server import Issuer
from holdfast.server.discovery import AGAIN_S, KEEP_S, MOST_BYTES
from holdfast.server.refusal import Refusal
from holdfast.server.tokens import STALE_S, KeySet

URL = "https://login.example/realm"


class Provider:
    """An identity provider, whose keys and discovery document may be changed."""

    def __init__(self):
        self.keys = [key("k1")]
        self.told = {"issuer": URL, "jwks_uri": "https://login.example/keys"}
        self.answer = None
        self.asked = []
        self.now = 0.0
        routes = [Route("/realm/.well-known/openid-configuration", self.discovery), Route("/keys", self.jwks)]
        self.app = Starlette(routes=routes)
        self.set = KeySet(Issuer(URL, "holdfast"), clock=lambda: self.now, connected=self.connected)

    def connected(self):
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app))

    async def discovery(self, request):
        return JSONResponse(self.told)

    async def jwks(self, request):
        self.asked.append(self.now)
        await asyncio.sleep(0)
        return self.answer or JSONResponse({"keys": self.keys})


def key(name, *, kind=jwk.ECKey, size="P-256", private=False, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # one of them is to be weak
        return kind.generate_key(size, {"kid": name}).as_dict(private=private) | more


@pytest.fixture
def provider():
    return Provider()


async def test_keys_are_fetched_once_for_all_who_wait_and_kept_for_an_hour(provider):
    found = await asyncio.gather(*(provider.set.key("k1") for _ in range(5)))
    assert {one.kid for one in found} == {"k1"}
    provider.now = KEEP_S - 1
    assert await provider.set.key("k1")
    assert len(provider.asked) == 1
    provider.now = KEEP_S
    provider.keys = [key("k2")]
    assert await provider.set.key("k1") is None, "it was withdrawn"
    assert await provider.set.key("k2")


async def test_a_key_that_is_not_known_is_asked_for_now_and_then(provider):
    assert await provider.set.key("k2") is None
    provider.keys = [key("k1"), key("k2")]
    provider.now = AGAIN_S - 1
    for number in range(10):
        assert await provider.set.key(f"x{number}") is None
    assert len(provider.asked) == 1
    provider.now = AGAIN_S
    assert (await provider.set.key("k2")).kid == "k2"
    assert len(provider.asked) == 2


async def test_a_look_at_the_keys_that_are_held_waits_for_nobody_and_begins_a_fetch_that_is_due(provider):
    assert provider.set.held("k1") is None
    await provider.set._keys._fetching.result()
    assert provider.set.held("k1").kid == provider.set.held(None).kid == "k1"
    assert provider.set.held("k2") is None  # it was asked a moment ago
    assert len(provider.asked) == 1
    provider.now = STALE_S
    assert provider.set.held("k1") is None
    await provider.set._keys._fetching.result()
    assert len(provider.asked) == 2
    assert provider.set.held("k1").kid == "k1"


async def test_a_token_that_names_no_key_means_the_only_one(provider):
    assert (await provider.set.key(None)).kid == "k1"
    provider.keys, provider.now = [key("k1"), key("k2")], KEEP_S
    assert await provider.set.key(None) is None


async def test_without_keys_nobody_is_let_in_and_known_ones_hold_for_a_day(provider, caplog):
    provider.answer = Response(status_code=500)
    with pytest.raises(Refusal) as refused:
        await provider.set.key("k1")
    assert (refused.value.status, refused.value.code) == (503, "identity_provider_unavailable")
    assert "answers 500" in caplog.text
    provider.answer, provider.now = None, AGAIN_S
    assert await provider.set.key("k1")
    provider.answer = Response(status_code=500)
    provider.now += STALE_S - 1
    assert await provider.set.key("k1")
    provider.now += 1
    with pytest.raises(Refusal):
        await provider.set.key("k1")


async def test_keys_of_other_uses_and_weak_ones_are_left_out(provider):
    own = key("own", private=True)
    provider.keys = [
        key("enc", use="enc"),
        {"kty": "oct", "kid": "mac", "k": "AAAA"},
        {"kty": "RSA", "kid": "half"},
        key("weak", kind=jwk.RSAKey, size=1024),
        {"kty": "later", "kid": "new"},
        "none",
        own,
    ]
    for name in ("enc", "mac", "half", "weak", "new"):
        assert await provider.set.key(name) is None
    assert not (await provider.set.key("own")).is_private


@pytest.mark.parametrize(
    "answer",
    [
        RedirectResponse("https://evil.example/keys"),
        Response(b"{"),
        Response(b"[]"),
        Response(b'{"keys": []}'),
        Response(b'{"keys": 7}'),
        Response(b'{"keys": [' + b"1," * 200 + b"1]}"),
        Response(b"\xff"),
        Response(b" " * (MOST_BYTES + 1)),
    ],
    ids=range(8),
)
async def test_what_is_no_set_of_keys_is_not_taken(provider, answer):
    provider.answer = answer
    with pytest.raises(Refusal):
        await provider.set.key("k1")


@pytest.mark.parametrize(
    "told", [{"issuer": "https://evil.example"}, {"jwks_uri": "http://login.example/keys"}, {"jwks_uri": 7}, {"jwks_uri": ""}]
)
async def test_a_discovery_document_must_be_the_issuers_and_lead_to_a_safe_place(provider, told):
    provider.told |= told
    with pytest.raises(Refusal):
        await provider.set.key("k1")
    assert provider.asked == []
