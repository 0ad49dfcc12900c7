"""Signing in at an identity provider, over real connections to a provider and to the server."""

import re
import time
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from browser import Mishaps, browsing
from identity_provider import CLIENT, SECRET, identity_provider

from holdfast.conversation import Proof
from holdfast.server import Authentication, code_flow

from .conftest import served

NAVIGATING = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
HERE = NAVIGATING | {"Sec-Fetch-Site": "same-origin"}
BACK = NAVIGATING | {"Sec-Fetch-Site": "cross-site"}


@pytest.fixture(scope="module")
def running():
    """A provider, and a server before which people sign in there."""
    with identity_provider() as provider, served(authentication=configured(provider)) as server:
        yield provider, server


@pytest.fixture
def provider(running):
    found, _ = running
    found.claims, found.answer, found.refusing, found.seen = {}, None, "", []
    return found


@pytest.fixture
def server(provider, running):
    _, found = running
    found.store._tickets.clear()
    for rates in found.app.state.serving.tickets._issued.values():
        rates._left.clear()
    return found


@pytest.fixture
def other_provider():
    """A provider for one test alone, which may say something else of itself, or end."""
    with identity_provider() as found:
        yield found


def configured(provider, **more):
    given = {
        "HOLDFAST_OIDC_ISSUER": provider.url,
        "HOLDFAST_OIDC_AUDIENCE": "holdfast",
        "HOLDFAST_OIDC_CLIENT_ID": CLIENT,
        "HOLDFAST_OIDC_CLIENT_SECRET": SECRET,
    }
    return Authentication.of(given | more)


def browser(server):
    return httpx.Client(base_url=server.url, timeout=30)


def way_back(http, next_path="/inbox/s-1"):
    """The URL to which the provider sends a browser that has begun to sign in."""
    begun = http.get("/signin/oidc", params={"next": next_path}, headers=HERE)
    assert begun.status_code == 303, begun.text
    return httpx.get(begun.headers["location"]).headers["location"]


def refused(http, place, **options):
    """The status and the message of the page where nobody has signed in."""
    found = http.get(place, headers=BACK, **options)
    assert "holdfast" not in "".join(name for name in found.cookies if not name.endswith("-signing-in"))
    assert http.get("/v1/pending").status_code == 401
    return found.status_code, unescape(re.search(r'role="alert">([^<]*)<', found.text)[1])


def test_a_person_signs_in_at_the_provider_and_goes_on(provider, server):
    with browser(server) as http:
        assert "Sign in with 127.0.0.1" in http.get("/signin").text
        place = way_back(http)
        (asked,) = provider.seen
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", CLIENT, "S256")
        assert asked["redirect_uri"] == f"{server.url}/signin/callback"
        assert "openid" in asked["scope"].split()
        assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
        (cookie,) = http.cookies.jar
        assert (cookie.name, cookie.path) == (f"holdfast-{server.port}-signing-in", "/")
        assert cookie.value not in str(asked)
        found = http.get(place, headers=BACK)
        assert (found.status_code, found.headers["location"]) == (303, "/inbox/s-1")
        assert list(http.cookies) == [f"holdfast-{server.port}"]
        assert http.get("/v1/pending").status_code == 200
        assert http.post("/v1/pause", json={}, headers=HERE).json()["scope"] == "admin"
        assert "signed in as <strong>ana</strong>" in http.get("/signin").text
        assert http.post("/signout", headers=HERE).status_code == 303
        assert http.get("/v1/pending").status_code == 401


def test_the_session_has_the_proof_of_the_provider_and_ends_with_its_token(provider, server):
    provider.claims = {"exp": int(time.time()) + 100, "roles": ["finance"]}
    with browser(server) as http:
        http.get(way_back(http), headers=BACK)
    ((ends_at, data),) = server.store._tickets.values()
    (ticket,) = [server.run(server.store.ticket(digest)) for digest in server.store._tickets]
    assert (ticket.principal.id, ticket.principal.roles, ticket.principal.proof) == ("ana", ("finance",), Proof.OIDC)
    assert abs(ends_at / 1000 - time.time() - 130) < 20, "the token's end, and how far clocks may be apart"
    assert data


def test_a_way_back_counts_once_and_in_the_browser_that_began(provider, server):
    with browser(server) as http, browser(server) as other:
        place = way_back(http)
        assert refused(other, place)[0] == 400
        way_back(other)
        assert refused(other, place)[0] == 400, "another browser's own cookie does not go with this state"
        kept = dict(http.cookies)
        assert http.get(place, headers=BACK).status_code == 303
        again = httpx.get(f"{server.url}{urlsplit(place).path}?{urlsplit(place).query}", headers=BACK, cookies=kept)
        assert again.status_code == 400
        assert "begin again" in again.text


def test_a_way_back_that_took_too_long_counts_for_nobody(provider, server, monkeypatch):
    with browser(server) as http:
        place = way_back(http)
        clock = server.store._clock
        monkeypatch.setattr(server.store, "_clock", lambda: clock() + code_flow.WAY_S * 1000 + 1)
        assert refused(http, place)[0] == 400


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda query: query | {"state": "x"},
        lambda query: query | {"state": ""},
        lambda query: query | {"state": "\xe9"},
        lambda query: {"code": query["code"]},
        lambda query: query | {"iss": "https://evil.example"},
        lambda query: {"state": query["state"]},
        lambda query: query | {"code": "x" * 5000},
        lambda query: query | {"code": "of nobody"},
        lambda _: {},
    ],
)
def test_a_way_back_that_was_changed_signs_nobody_in(provider, server, spoilt):
    with browser(server) as http:
        query = dict(parse_qsl(urlsplit(way_back(http)).query))
        assert refused(http, "/signin/callback", params=spoilt(query))[0] in (400, 403, 503)


def test_whoever_the_provider_does_not_sign_in_is_told_so(provider, server):
    provider.refusing = "access_denied"
    with browser(server) as http:
        status, said = refused(http, way_back(http))
    assert (status, said) == (403, "The identity provider did not sign you in.")


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": ["x"]},
        {"aud": "holdfast"},
        {"aud": [CLIENT, "shop"]},
        {"aud": [CLIENT, "shop"], "azp": "shop"},
        {"azp": "shop"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"sub": None},
        {"sub": "an\u202ea"},
        {"scope": ""},
        {"scope": "read admin"},
    ],
)
def test_a_token_that_was_not_made_for_this_sign_in_signs_nobody_in(provider, server, claims):
    provider.claims = claims
    with browser(server) as http:
        assert refused(http, way_back(http))[0] == 403


def test_a_token_for_several_parties_that_names_this_one_signs_in(provider, server):
    provider.claims = {"aud": [CLIENT, "shop"], "azp": CLIENT}
    with browser(server) as http:
        assert http.get(way_back(http), headers=BACK).status_code == 303


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"no"),
        (302, b""),
        (200, b"no JSON"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"id_token": 7}'),
        (200, b'{"id_token": "' + b"x" * 300_000 + b'"}'),
    ],
)
def test_what_is_no_answer_of_a_provider_signs_nobody_in(provider, server, answer):
    provider.answer = answer
    with browser(server) as http:
        status, said = refused(http, way_back(http))
    assert (status, said[:21]) == (503, "The identity provider")


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_provider_that_says_something_unsafe_of_itself_is_not_gone_to(other_provider, document):
    other_provider.document = document
    with served(authentication=configured(other_provider)) as server, browser(server) as http:
        assert refused(http, "/signin/oidc")[0] == 503
        assert http.get("/signin").status_code == 200


def test_a_provider_that_takes_the_secret_in_the_form_alone_gets_it_there(other_provider):
    other_provider.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    with served(authentication=configured(other_provider)) as server, browser(server) as http:
        assert http.get(way_back(http), headers=BACK).status_code == 303


def test_a_wrong_secret_signs_nobody_in_and_stands_in_no_line_of_the_log(provider, caplog):
    caplog.set_level("DEBUG", "holdfast")
    wrong = configured(provider, HOLDFAST_OIDC_CLIENT_SECRET="wr0ng-secret")
    with served(authentication=wrong) as server, browser(server) as http:
        place = way_back(http)
        assert refused(http, place)[0] == 503
    assert "answers 400" in caplog.text
    for secret in ("wr0ng-secret", dict(parse_qsl(urlsplit(place).query))["code"]):
        assert secret not in caplog.text
    assert "wr0ng-secret" not in repr(wrong)


def test_a_provider_that_is_away_leaves_the_form_for_keys(other_provider):
    authentication = configured(other_provider)
    other_provider.shutdown()
    other_provider.server_close()
    with served(authentication=authentication) as server, browser(server) as http:
        status, said = refused(http, "/signin/oidc")
        assert (status, "API key" in said) == (503, True)


def test_whoever_begins_too_often_is_told_when_to_come_back(provider, server):
    with browser(server) as http:
        statuses = [http.get("/signin/oidc").status_code for _ in range(25)]
        assert (statuses[0], statuses[-1]) == (303, 429)
        assert int(http.get("/signin/oidc").headers["retry-after"]) >= 1


def test_no_more_begin_to_sign_in_than_may_be_wherever_they_are(other_provider, monkeypatch):
    monkeypatch.setattr(code_flow, "BEGUN_AT_ONCE", 2)
    monkeypatch.setattr(code_flow, "BEGUN_PER_S", 0.001)
    with served(authentication=configured(other_provider)) as server, browser(server) as http:
        assert [http.get("/signin/oidc").status_code for _ in range(3)] == [303, 303, 429]


def test_nobody_is_sent_elsewhere_from_the_provider(provider, server):
    with browser(server) as http:
        for asked in ("//evil.example", "https://evil.example", "/signin/oidc"):
            assert http.get(way_back(http, asked), headers=BACK).headers["location"] == "/inbox"


async def test_a_browser_goes_to_the_provider_and_comes_back_signed_in(server):
    async with browsing() as chromium:
        page = await chromium.new_page()
        mishaps = Mishaps(page)
        await page.goto(f"{server.url}/signin?next=/v1/pending")
        assert mishaps == []
        await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
        await page.wait_for_url(f"{server.url}/v1/pending")
        assert '"items":[]' in await page.content()
        assert [cookie["name"] for cookie in await page.context.cookies()] == [f"holdfast-{server.port}"]
