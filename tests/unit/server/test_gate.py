"""Who may send: the name under which the server is reached, and the site of the page that sends."""

import httpx
import pytest
from starlette.responses import Response

from holdfast.server import Authentication, create_app, sign_in_link
from holdfast.server.gate import Gate

from .conftest import OPEN

BODY = {"agent": "desk", "text": "x"}
PORT = "8484"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:8484", "[::1]", "[::1]:8484", "127.0.0.1:1"])
async def test_loopback_has_three_names(api, host):
    await api("GET", "/health", headers={"Host": host})


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "localhost:x", "", "localhost:8484:1", "::1"]
)
@pytest.mark.parametrize("path", ["/health", "/v1/pending", "/openapi.json", "/nothing"])
async def test_a_name_that_was_made_to_lead_here_is_refused(api, host, path):
    assert (await api("GET", path, 421, headers={"Host": host}))["code"] == "wrong_host"


async def test_an_application_that_is_mounted_elsewhere_has_the_names_that_it_is_given(client):
    app = create_app(client, authentication=OPEN, hosts=["Desk.Example"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://desk.example:80") as http:
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/health", headers={"Host": "127.0.0.1"})).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": f"http://127.0.0.1:{PORT}"},
        {"Sec-Fetch-Site": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": f"http://127.0.0.1:{PORT}.evil.example"},
    ],
)
async def test_a_page_of_another_site_starts_nothing(api, stack, headers):
    assert (await api("POST", "/v1/conversations", 403, json=BODY, headers=headers))["code"] == "cross_site"
    assert stack.delivered == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": f"http://127.0.0.1:{PORT}"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": f"http://127.0.0.1:{PORT}"},
    ],
)
async def test_pages_of_this_site_and_programs_may_send(api, headers):
    await api("POST", "/v1/conversations", 201, json=BODY, headers=headers)


@pytest.mark.parametrize("path", ["/v1/pending", "/v1/conversations/c-1/events", "/openapi.json"])
async def test_a_page_of_another_site_holds_no_stream_and_learns_nothing_from_how_long_an_answer_takes(api, path):
    for headers in ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, {"Origin": "http://evil.example"}):
        assert (await api("GET", path, 403, headers=headers))["code"] == "cross_site"


@pytest.mark.parametrize("within", ["iframe", "frame", "embed", "object"])
async def test_a_page_of_another_site_has_no_frame_that_leads_here(api, within):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": within}
    assert (await api("GET", "/v1/pending", 403, headers=headers))["code"] == "cross_site"
    assert (await api.http.get("/v1/pending", headers=headers | {"Sec-Fetch-Dest": "document"})).status_code == 200


async def test_nothing_that_is_served_may_stand_in_a_frame(api):
    link = sign_in_link(api.app, "")
    for path in ("/", "/openapi.json", "/v1/pending", "/v1/none", "/health", link, "/signin/x"):
        headers = (await api.http.get(path)).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_a_link_may_lead_here_and_its_page_is_shown_nothing(api):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    found = await api.http.get("/v1/pending", headers=headers)
    assert found.status_code == 200
    assert not [name for name in found.headers if name.startswith("access-control")]
    assert (found.headers["cache-control"], found.headers["cross-origin-resource-policy"]) == ("no-store", "same-origin")
    assert (await api("POST", "/v1/conversations", 403, json=BODY, headers=headers))["code"] == "cross_site"


@pytest.mark.parametrize(
    ("method", "headers", "ambient"),
    [
        ("GET", {}, True),
        ("POST", {}, False),
        ("POST", {"Sec-Fetch-Site": "same-origin"}, True),
        ("POST", {"Origin": "http://localhost"}, True),
        ("POST", {"Origin": "https://desk.example"}, False),
        ("GET", {"Origin": "https://desk.example", "Sec-Fetch-Site": "cross-site"}, False),
        ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}, True),
    ],
)
async def test_what_a_browser_adds_by_itself_counts_for_pages_of_this_site_alone(method, headers, ambient):
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope["state"]["arrived"].ambient)
        await Response(b"")(scope, receive, send)

    gate = Gate(inner, hosts=["localhost"], authentication=Authentication(origins=("https://desk.example",)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://localhost") as http:
        await http.request(method, "/v1/pending", headers=headers)
    assert seen == [ambient]
