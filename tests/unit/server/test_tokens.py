"""Tokens of an identity provider: which are taken, and whom they name; its keys are at hand here."""

import base64
import hmac
import json
import time
import warnings

import httpx
import pytest
from joserfc import jwk, jws, jwt
from joserfc.errors import SecurityWarning

from holdfast.conversation import Proof
from holdfast.persistence import AccessScope
from holdfast.server import Authentication, Bounds, Issuer, Proxy, create_app
from holdfast.server.authenticators import IssuedTokens
from holdfast.server.tokens import LONGEST, InvalidToken, Tokens

from .conftest import HERE

URL, AUDIENCE = "https://login.example/", "holdfast"
ISSUER = Issuer(URL, AUDIENCE, algorithms=("RS256", "ES256", "EdDSA"))
KEYS = {
    "rsa": jwk.RSAKey.generate_key(2048, {"kid": "rsa"}),
    "ec": jwk.ECKey.generate_key("P-256", {"kid": "ec"}),
    "ed": jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"}),
    "fixed": jwk.RSAKey.generate_key(2048, {"kid": "fixed", "alg": "PS256"}),
}
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})


class AtHand:
    """The issuer's keys."""

    async def key(self, key_id):
        return KEYS.get(key_id)

    def held(self, key_id):
        return KEYS.get(key_id)


def claims(**changes):
    now = int(time.time())
    usual = {"iss": URL, "aud": AUDIENCE, "sub": "ana", "iat": now, "exp": now + 600, "scope": "openid holdfast:read decide"}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def signed(told, *, alg="RS256", kid="rsa", key=None, **header):
    named = {"alg": alg} | ({} if kid is None else {"kid": kid}) | header
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        return jwt.encode(named, told, key or KEYS[kid], algorithms=[alg])


def signed_text(text, kid="rsa"):
    return jws.serialize_compact({"alg": "RS256", "kid": kid}, text.encode(), KEYS[kid], algorithms=["RS256"])


def raw(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode().rstrip("=")


async def read(token, issuer=ISSUER, proof=Proof.OIDC):
    caller, _ = await Tokens(issuer, AtHand()).caller(token, proof)
    return caller


@pytest.mark.parametrize(("alg", "kid"), [("RS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")])
async def test_a_token_names_its_principal_and_what_it_may(alg, kid):
    caller = await read(signed(claims(roles=["finance", 7, "finance", "lead"]), alg=alg, kid=kid))
    assert (caller.principal.id, caller.principal.roles, caller.principal.proof) == ("ana", ("finance", "lead"), Proof.OIDC)
    assert (caller.scopes, caller.agents) == ({AccessScope.READ}, None)


def bad_tokens():
    good, now = signed(claims()), int(time.time())
    head, body, signature = good.split(".")
    symmetric = f"{raw({'alg': 'HS256', 'kid': 'rsa'})}.{body}"
    mac = hmac.digest(KEYS["rsa"].as_pem(private=False), symmetric.encode(), "sha256")
    twice = b'{"iss":"https://login.example/","aud":"holdfast","sub":"ana","sub":"root","exp":9999999999}'
    return {
        "no signature": f"{head}.{body}.",
        "another signature": f"{head}.{body}.{signature[:-4]}AAAA",
        "other claims": f"{head}.{raw(claims(sub='root'))}.{signature}",
        "alg none": f"{raw({'alg': 'none', 'kid': 'rsa'})}.{body}.",
        "signed with the public key": f"{symmetric}.{raw(mac)}",
        "another key of that id": signed(claims(), key=OTHER),
        "a key that brings itself": signed(claims(), key=OTHER, kid="own", jwk=OTHER.as_dict(private=False)),
        "an unknown key": signed(claims(), key=OTHER, kid="unknown"),
        "no key named": signed(claims(), kid=None, key=KEYS["rsa"]),
        "a key for another algorithm": signed(claims(), alg="RS256", kid="fixed", key=OTHER),
        "an algorithm that is not taken": signed(claims(), alg="RS512"),
        "a key of another type": f"{raw({'alg': 'ES256', 'kid': 'rsa'})}.{body}.{signature}",
        "another issuer": signed(claims(iss="https://login.example")),
        "no issuer": signed(claims(iss=None)),
        "another audience": signed(claims(aud="shop")),
        "other audiences": signed(claims(aud=["shop", "holdfast2"])),
        "no audience": signed(claims(aud=None)),
        "expired": signed(claims(exp=now - 31)),
        "never expires": signed(claims(exp=None)),
        "an end that is no number": signed(claims(exp="9999999999")),
        "an end beyond all numbers": signed(claims(exp=10**400)),
        "an infinite end": signed_text(json.dumps(claims(exp="E")).replace('"E"', "1e999")),
        "not yet valid": signed(claims(nbf=now + 60)),
        "of the future": signed(claims(iat=now + 60)),
        "nobody": signed(claims(sub=None)),
        "an empty name": signed(claims(sub="")),
        "a name that is none": signed(claims(sub="ana\n")),
        "a name that does not show whole": signed(claims(sub="ana\u202e")),
        "a role that does not show whole": signed(claims(roles=["lead\u200b"])),
        "a number for a name": signed(claims(sub=7)),
        "too many roles": signed(claims(roles=[f"r{number}" for number in range(65)])),
        "of another type": signed(claims(), typ="logout+jwt"),
        "with a condition": f"{raw({'alg': 'RS256', 'kid': 'rsa', 'crit': ['b64'], 'b64': False})}.{body}.{signature}",
        "a key id that is no text": f"{raw({'alg': 'RS256', 'kid': 7})}.{body}.{signature}",
        "a name twice": f"{head}.{raw(twice)}.{signature}",
        "no JSON": f"{head}.{raw(b'{')}.{signature}",
        "no object": f"{head}.{raw([])}.{signature}",
        "no base64": f"{head}.{body}*.{signature}",
        "encrypted": "a.b.c.d.e",
        "too long": signed(claims(x="x" * LONGEST)),
        "not ASCII": f"{head}.{body}.é",
    }


@pytest.mark.parametrize("name", sorted(bad_tokens()))
async def test_a_token_that_does_not_hold_is_refused_and_not_repeated(name):
    token = bad_tokens()[name]
    with pytest.raises(InvalidToken) as refused:
        await read(token)
    assert token[:20] not in str(refused.value)


async def test_clocks_may_be_a_little_apart():
    now = int(time.time())
    assert await read(signed(claims(exp=now - 10, iat=now + 10, nbf=now + 10)))


async def test_claims_are_found_where_the_settings_say():
    issuer = Issuer(
        URL,
        AUDIENCE,
        id_claim="email",
        scope_claim="resource_access.holdfast.roles",
        scope_prefix="",
        scopes=(AccessScope.READ,),
        roles_claim="https://login.example/groups",
        agents_claim="agents",
    )
    told = claims(
        email="ana@shop.example",
        email_verified=True,
        resource_access={"holdfast": {"roles": ["decide", "nothing"]}},
        agents=["desk"],
        aud=["shop", AUDIENCE],
        **{"https://login.example/groups": "finance"},
    )
    caller = await read(signed(told), issuer, Proof.PROXY)
    assert (caller.principal.id, caller.principal.roles) == ("ana@shop.example", ("finance",))
    assert caller.scopes == {AccessScope.READ, AccessScope.DECIDE}
    assert (caller.agents, caller.principal.proof) == ({"desk"}, Proof.PROXY)
    without = {name: value for name, value in told.items() if name != "agents"}
    assert (await read(signed(without), issuer)).agents == frozenset()
    with pytest.raises(InvalidToken, match="email_verified"):
        await read(signed(told | {"email_verified": "true"}), issuer)


NAMESPACED = "https://login.example/email"


@pytest.mark.parametrize(
    ("claim", "verified", "unverified"),
    [
        (
            "profile.email",
            {"profile": {"email": "ana@shop.example", "email_verified": True}},
            {"profile": {"email": "ana@shop.example"}, "email_verified": True},
        ),
        (
            "profile.email",
            {"profile.email": "ana@shop.example", "profile.email_verified": True},
            {"profile.email": "ana@shop.example", "profile.email_verified": 1},
        ),
        (
            NAMESPACED,
            {NAMESPACED: "ana@shop.example", f"{NAMESPACED}_verified": True},
            {NAMESPACED: "ana@shop.example"},
        ),
    ],
)
async def test_an_address_of_mail_must_be_verified_where_it_stands(claim, verified, unverified):
    issuer = Issuer(URL, AUDIENCE, id_claim=claim)
    assert (await read(signed(claims(**verified)), issuer)).principal.id == "ana@shop.example"
    with pytest.raises(InvalidToken, match="email_verified"):
        await read(signed(claims(**unverified)), issuer)


async def test_a_token_with_an_end_beyond_all_numbers_is_no_mistake_of_the_servers(client):
    app = create_app(client, authentication=Authentication(issuer=ISSUER))
    app.state.serving.callers._chain = [IssuedTokens(Tokens(ISSUER, AtHand()), None)]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as http:
        for digits in (400, 5000):
            token = signed_text(json.dumps(claims(exp="E")).replace('"E"', "9" * digits))
            found = await http.get("/v1/agents", headers={"Authorization": f"Bearer {token}"})
            assert (found.status_code, found.json()["code"]) == (401, "unauthenticated")


async def test_tokens_come_as_a_bearer_or_in_the_proxys_header_and_pages_of_other_sites_cannot_use_that(client):
    authentication = Authentication(issuer=ISSUER, proxy=Proxy(token_header="X-Assertion"))
    app = create_app(client, authentication=authentication)
    app.state.serving.callers._chain = [IssuedTokens(Tokens(ISSUER, AtHand()), "X-Assertion")]
    token = signed(claims())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as http:
        for headers, status in (
            ({"Authorization": f"Bearer {token}"}, 200),
            ({"authorization": f"bearer {token}"}, 200),
            ({"X-Assertion": token}, 200),
            ({"X-Assertion": token + "x"}, 401),
            ({"X-Other": token}, 401),
            ({"Authorization": f"Bearer {signed(claims(exp=1))}"}, 401),
        ):
            assert (await http.get("/v1/pending", headers=headers)).status_code == status
        callers = {caller.principal.proof for caller, _ in app.state.serving.callers._verified.values()}
        assert callers == {Proof.OIDC, Proof.PROXY}, "the same token, proven in two ways"
        pause = {"json": {}, "headers": {"X-Assertion": token}}
        assert (await http.post("/v1/pause", **pause)).status_code == 401
        pause["headers"]["Origin"] = HERE
        assert (await http.post("/v1/pause", **pause)).json()["code"] == "not_permitted"


async def test_a_token_that_holds_gets_in_from_an_address_that_has_failed_too_often(client):
    authentication = Authentication(issuer=ISSUER, proxy=Proxy(token_header="X-Assertion"))
    app = create_app(client, authentication=authentication, bounds=Bounds(failures_burst=1, failures_per_s=0.001))
    asked = []

    class Counted(AtHand):
        async def key(self, key_id):
            asked.append(key_id)
            return await super().key(key_id)

    app.state.serving.callers._chain = [IssuedTokens(Tokens(ISSUER, Counted()), "X-Assertion")]
    bad = [signed(claims(), key=OTHER), signed(claims(exp=5)), signed(claims(), key=OTHER, kid="unknown"), "a.b.c"]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as http:
        found = [(await http.get("/v1/agents", headers={"Authorization": f"Bearer {token}"})).status_code for token in bad]
        assert found == [401, 429, 429, 429]
        assert asked == ["rsa"], "nobody waits for a key on behalf of those that are refused"
        for headers in ({"Authorization": f"Bearer {signed(claims())}"}, {"X-Assertion": signed(claims(sub="bob"))}):
            assert (await http.get("/v1/agents", headers=headers)).status_code == 200
