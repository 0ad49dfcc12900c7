"""What the variables configure, and what they are refused for."""

import ipaddress

import pytest

from holdfast.client import ConfigurationError
from holdfast.persistence import AccessScope
from holdfast.server import Authentication
from holdfast.server.rates import MOST, Rates

ISSUER = {"HOLDFAST_OIDC_ISSUER": "https://login.example", "HOLDFAST_OIDC_AUDIENCE": "holdfast"}
PROXY = {"HOLDFAST_PROXY_USER_HEADER": "X-User", "HOLDFAST_PROXY_PEERS": "10.0.0.7/32, fd00::/64"}


def test_nothing_is_configured_without_variables():
    found = Authentication.of({"PATH": "/bin", "HOLDFAST_OIDC_ISSUER": " "})
    assert (found, found.configured) == (Authentication(), False)


def test_the_variables_say_who_is_let_in():
    more = {
        "HOLDFAST_OIDC_ALGORITHMS": "ES256 EdDSA",
        "HOLDFAST_OIDC_SCOPES": "read,decide",
        "HOLDFAST_OIDC_CLIENT_ID": "desk",
        "HOLDFAST_OIDC_CLIENT_SECRET": "s3cret",
        "HOLDFAST_PROXY_TOKEN_HEADER": "Cf-Access-Jwt-Assertion",
        "HOLDFAST_PROXY_SCOPES": "read",
        "HOLDFAST_CORS_ORIGINS": "https://desk.example http://localhost:3000",
    }
    found = Authentication.of(ISSUER | PROXY | more)
    assert found.configured
    assert (found.issuer.algorithms, found.issuer.scopes) == (("ES256", "EdDSA"), (AccessScope.READ, AccessScope.DECIDE))
    assert (found.issuer.client_id, found.issuer.client_secret, "s3cret" in repr(found)) == ("desk", "s3cret", False)
    assert found.proxy.peers == (ipaddress.ip_network("10.0.0.7/32"), ipaddress.ip_network("fd00::/64"))
    assert (found.proxy.token_header, found.proxy.scopes) == ("Cf-Access-Jwt-Assertion", (AccessScope.READ,))
    assert found.origins == ("https://desk.example", "http://localhost:3000")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"HOLDFAST_OIDC_ISSUER": "https://login.example"}, "oidc_audience"),
        ({"HOLDFAST_OIDC_AUDIENCE": "holdfast"}, "oidc_issuer"),
        (ISSUER | {"HOLDFAST_OIDC_ISSUER": "http://login.example"}, "oidc_issuer"),
        (ISSUER | {"HOLDFAST_OIDC_ISSUER": "login.example"}, "oidc_issuer"),
        (ISSUER | {"HOLDFAST_OIDC_ISSUER": "https://a:b@login.example"}, "oidc_issuer"),
        (ISSUER | {"HOLDFAST_OIDC_JWKS_URL": "file:///etc/passwd"}, "oidc_jwks_url"),
        (ISSUER | {"HOLDFAST_OIDC_ALGORITHMS": "RS256 HS256"}, "oidc_algorithms"),
        (ISSUER | {"HOLDFAST_OIDC_ALGORITHMS": "none"}, "oidc_algorithms"),
        (ISSUER | {"HOLDFAST_OIDC_SCOPES": "everything"}, "oidc_scopes"),
        ({"HOLDFAST_PROXY_USER_HEADER": "X-User"}, "proxy_peers"),
        (PROXY | {"HOLDFAST_PROXY_PEERS": "10.0.0.7/8"}, "proxy_peers"),
        (PROXY | {"HOLDFAST_PROXY_PEERS": "proxy.example"}, "proxy_peers"),
        (PROXY | {"HOLDFAST_PROXY_USER_HEADER": "Cookie"}, "proxy_user_header"),
        (PROXY | {"HOLDFAST_PROXY_USER_HEADER": "X User"}, "proxy_user_header"),
        (PROXY | {"HOLDFAST_PROXY_SCOPES": "decide everything"}, "proxy_scopes"),
        ({"HOLDFAST_PROXY_ROLES_HEADER": "X-Groups"}, "proxy_user_header"),
        ({"HOLDFAST_PROXY_TOKEN_HEADER": "X-Assertion"}, "oidc_issuer"),
        (ISSUER | {"HOLDFAST_OIDC_AGENT_CLAIM": "agents"}, "oidc_agent_claim"),
        (PROXY | {"HOLDFAST_PROXY_PEER": "10.0.0.7/32"}, "proxy_peer"),
        (ISSUER | {"HOLDFAST_OIDC_CLIENT_SECRET": "s"}, "oidc_client_id"),
        ({"HOLDFAST_OIDC_CLIENT_ID": "desk"}, "oidc_issuer"),
        ({"HOLDFAST_CORS_ORIGINS": "*"}, "cors_origins"),
        ({"HOLDFAST_CORS_ORIGINS": "null"}, "cors_origins"),
        ({"HOLDFAST_CORS_ORIGINS": "https://desk.example/"}, "cors_origins"),
    ],
)
def test_what_would_let_in_others_than_meant_is_refused(given, field):
    with pytest.raises(ConfigurationError) as refused:
        Authentication.of(given)
    assert refused.value.field == field


def test_a_bucket_fills_up_again_and_the_table_is_bounded():
    now = [0.0]
    rates = Rates(0.5, 2, clock=lambda: now[0])
    assert [rates.take("a") for _ in range(3)] == [0, 0, 2]
    now[0] += 2
    assert [rates.take("a"), rates.take("a")] == [0, 2]
    assert (rates.wait_s("a"), rates.wait_s("b")) == (2, 0)
    for number in range(MOST + 10):
        rates.take(number)
    assert len(rates._left) == MOST
