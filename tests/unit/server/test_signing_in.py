"""The pages that sign people in and out, as a browser without scripts uses them."""

import asyncio
import re
from html import unescape

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast.errors import StoreUnavailable
from holdfast.server import Authentication, Bounds, create_app, sign_in_link
from holdfast.server.pages import signing_in
from holdfast.server.refusal import Refusal

from .conftest import HERE, OPEN

SAME = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
WRONG = "hf_0123456789ab_" + "0" * 64


def browser(client, peer="10.0.0.9", **options):
    app = create_app(client, **options)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(peer, 7)), base_url=HERE, headers=SAME)
    http.app = app
    return http


@pytest.fixture
async def http(client):
    async with browser(client) as found:
        yield found


@pytest.fixture
async def key(client):
    _, text = await client.access.create_key("ana", ["read", "decide"])
    return text


def said(page):
    """The message of a page, which must be one of ours."""
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    found = re.search(r'class="error" role="alert">([^<]*)<', page.text)
    return unescape(found[1]) if found else ""


async def test_a_person_signs_in_by_a_key_and_goes_on_to_where_they_were_going(http, key):
    page = await http.get("/signin?next=/inbox/s-1%3Fx")
    assert (page.status_code, said(page)) == (200, "")
    assert 'name="next" value="/inbox/s-1?x"' in page.text
    assert all(part in page.text for part in ('type="password"', 'autocomplete="off"', '<label for="key">'))
    found = await http.post("/signin", data={"key": f" {key}\n", "next": "/inbox/s-1?x"})
    assert (found.status_code, found.headers["location"]) == (303, "/inbox/s-1?x")
    assert all(part in found.headers["set-cookie"] for part in ("HttpOnly", "SameSite=lax", "Path=/", "holdfast-8484="))
    assert key not in found.headers["set-cookie"]
    assert (await http.get("/v1/pending")).status_code == 200
    assert (await http.post("/v1/pause", json={})).json()["scope"] == "admin", "a session may do what its key may"
    page = await http.get("/signin?next=/inbox/x")
    assert "signed in as <strong>ana</strong>" in page.text
    assert '<a href="/inbox/x">' in page.text


async def test_a_session_that_was_known_before_signing_in_is_none_after_it(http, key):
    first = (await http.post("/signin", data={"key": key})).cookies["holdfast-8484"]
    second = (await http.post("/signin", data={"key": key})).cookies["holdfast-8484"]
    assert first != second
    http.cookies.clear()
    assert (await http.get("/v1/pending", headers={"Cookie": f"holdfast-8484={first}"})).status_code == 401
    assert (await http.get("/v1/pending", headers={"Cookie": f"holdfast-8484={second}"})).status_code == 200
    fixed = {"Cookie": f"holdfast-8484={'f' * 64}"}
    found = await http.post("/signin", data={"key": key}, headers=fixed)
    assert "f" * 64 not in found.headers["set-cookie"]
    assert (await http.get("/v1/pending", headers=fixed)).status_code == 401


@pytest.mark.parametrize("key", ["", "x", WRONG, "hfp_" + "0" * 64, "a.b.c", "<script>alert(1)</script>", "\x00", "x" * 5000])
async def test_a_wrong_key_shows_the_form_again_and_signs_nobody_in(http, key):
    page = await http.post("/signin", data={"key": key, "next": "/inbox/s-1"})
    assert (page.status_code, "set-cookie" in page.headers) == (401, False)
    assert said(page).startswith("This API key is not accepted")
    assert 'name="next" value="/inbox/s-1"' in page.text
    assert 'aria-invalid="true"' in page.text
    assert len(key) < 3 or key not in page.text


async def test_who_has_tried_too_often_is_told_when_to_come_back_and_a_good_key_is_let_in(client, key):
    bounds = Bounds(failures_burst=2, failures_per_s=0.1)
    async with browser(client, bounds=bounds) as http:
        statuses = [(await http.post("/signin", data={"key": f"{WRONG[:-1]}{number}"})).status_code for number in range(3)]
        assert statuses == [401, 401, 429]
        page = await http.post("/signin", data={"key": WRONG})
        assert said(page) == f"There were too many attempts. Try again in {page.headers['retry-after']} seconds."
        assert int(page.headers["retry-after"]) > 1
        assert (await http.post("/signin", data={"key": key})).status_code == 303


@pytest.mark.parametrize(
    "asked", ["//evil.example", "/\\evil.example", "https://evil.example", "/signin", "/x\r\nSet-Cookie: a=b"]
)
async def test_nobody_is_sent_elsewhere_by_signing_in(http, key, asked):
    page = await http.get("/signin", params={"next": asked})
    assert 'name="next" value="/inbox"' in page.text
    found = await http.post("/signin", data={"key": key, "next": asked})
    assert (found.status_code, found.headers["location"]) == (303, "/inbox")


async def test_what_is_asked_for_is_shown_as_text(http):
    page = await http.get("/signin", params={"next": '/inbox"><script>alert(1)</script>'})
    assert "<script" not in page.text


async def test_signing_out_ends_the_session_and_takes_the_cookie_away(http, key):
    cookie = (await http.post("/signin", data={"key": key})).cookies["holdfast-8484"]
    assert (await http.post("/signout", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await http.get("/v1/pending")).status_code == 200
    found = await http.post("/signout")
    assert (found.status_code, found.headers["location"]) == (303, "/signin")
    assert "Max-Age=0" in found.headers["set-cookie"]
    assert (await http.get("/v1/pending", headers={"Cookie": f"holdfast-8484={cookie}"})).status_code == 401
    assert (await http.post("/signout")).status_code == 303, "whoever has not signed in is signed out as well"
    assert (await http.get("/signout")).status_code == 405


async def test_what_no_page_of_ours_is_known_to_have_sent_signs_nobody_out(client, key):
    async with browser(client) as http:
        await http.post("/signin", data={"key": key})
        del http.headers["Sec-Fetch-Site"]
        kept = {"Cookie": f"holdfast-8484={http.cookies['holdfast-8484']}"}
        assert (await http.post("/signout")).status_code == 303
        assert (await http.get("/v1/pending", headers=kept)).status_code == 200


async def test_a_page_of_another_site_signs_nobody_in(http, key):
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        found = await http.post("/signin", data={"key": key}, headers=headers)
        assert (found.status_code, "set-cookie" in found.headers) == (403, False)


async def test_a_body_that_is_no_form_and_one_that_is_too_large_sign_nobody_in(client, key):
    async with browser(client, bounds=Bounds(body_bytes=1000)) as http:
        for options, status in (({"json": {"key": key}}, 415), ({"data": {"key": "x" * 2000}}, 413), ({"data": {}}, 415)):
            page = await http.post("/signin", **options)
            assert (page.status_code, bool(said(page)), "set-cookie" in page.headers) == (status, True, False)


async def test_a_store_that_is_away_is_said_without_its_address(http, store, key, monkeypatch):
    async def gone(_):
        raise StoreUnavailable("redis://secret-host:6379 refuses")

    monkeypatch.setattr(store, "put_ticket", gone)
    page = await http.post("/signin", data={"key": key})
    assert (page.status_code, "set-cookie" in page.headers) == (503, False)
    assert said(page).startswith("The server cannot sign you in")
    assert "secret-host" not in page.text


async def test_a_link_that_was_used_leads_to_the_form(http):
    link = sign_in_link(http.app, HERE)
    assert "works once" in (await http.get(link)).text
    assert "says where to find a link" in (await http.get("/signin")).text
    assert (await http.post(link)).status_code == 303
    page = await http.get(link)
    assert (page.status_code, said(page)[:18]) == (410, "This link was used")
    assert 'type="password"' in page.text


async def test_over_tls_the_cookie_is_for_this_host_alone(client, key):
    app = create_app(client, hosts=["desk.example"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://desk.example") as http:
        cookie = (await http.post("/signin", data={"key": key}, headers=SAME)).headers["set-cookie"]
        assert cookie.startswith("__Host-holdfast=")
        assert all(part in cookie for part in ("Secure", "HttpOnly", "Path=/", "SameSite=lax"))
        assert "Domain" not in cookie
        gone = (await http.post("/signout", headers=SAME)).headers["set-cookie"]
        assert all(part in gone for part in ("__Host-holdfast=", "Secure", "Path=/", "Max-Age=0"))


async def test_where_nobody_is_asked_who_they_are_nobody_signs_in(client):
    async with browser(client, authentication=OPEN) as http:
        found = await http.get("/signin?next=/inbox/x")
        assert (found.status_code, found.headers["location"]) == (303, "/inbox/x")


async def test_a_mounted_application_signs_in_at_its_own_place(client, key):
    outer = Starlette(routes=[Mount("/agents", create_app(client, hosts=["desk.example"]))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="https://desk.example", headers=SAME) as http:
        assert 'action="/agents/signin"' in (await http.get("/agents/signin")).text
        found = await http.post("/agents/signin", data={"key": key, "next": "/agents/inbox/x"})
        assert found.headers["location"] == "/agents/inbox/x"
        assert (await http.post("/agents/signin", data={"key": key, "next": "/other"})).headers["location"] == "/agents/inbox"
        assert (await http.get("/agents/v1/pending")).status_code == 200
        assert (await http.post("/agents/signout")).headers["location"] == "/agents/signin"


async def test_the_secret_of_a_key_stands_in_no_line_of_the_log(http, key, caplog):
    caplog.set_level("DEBUG")
    cookie = (await http.post("/signin", data={"key": key})).cookies["holdfast-8484"]
    await http.get("/v1/pending")
    assert key not in caplog.text
    assert cookie not in caplog.text


async def test_a_head_request_for_the_page_changes_nothing(client):
    async with browser(client, authentication=Authentication()) as http:
        assert (await http.head("/signin")).status_code == 200


async def test_strangers_who_send_slowly_take_no_place_of_those_who_are_known(client, key, monkeypatch):
    monkeypatch.setattr(signing_in, "MOST_OF_AN_ADDRESS", 3)
    async with browser(client, bounds=Bounds(requests=4)) as http:
        begun, let_go = [], asyncio.Event()

        async def slow():
            begun.append(True)
            await let_go.wait()
            yield f"key={key}".encode()

        form = {"Content-Type": "application/x-www-form-urlencoded"}
        asked = [asyncio.create_task(http.post("/signin", content=slow(), headers=form)) for _ in range(3)]
        async with asyncio.timeout(20):
            while len(begun) < 3:
                await asyncio.sleep(0)
        page = await http.get("/signin")
        assert (page.status_code, said(page)) == (429, "You have 3 sign-ins, and no more at once.")
        assert (await http.get("/v1/pending", headers={"Authorization": f"Bearer {key}"})).status_code == 200
        let_go.set()
        assert {one.status_code for one in await asyncio.gather(*asked)} == {303}


async def test_a_form_that_does_not_come_is_not_waited_for(client, monkeypatch):
    monkeypatch.setattr(signing_in, "MOST_BODY_S", 0.01)

    async def never():
        await asyncio.Event().wait()
        yield b""

    async with browser(client) as http:
        page = await http.post("/signin", content=never(), headers={"Content-Type": "application/x-www-form-urlencoded"})
        assert (page.status_code, said(page)[:8]) == (408, "The body")


async def test_a_page_whose_list_cannot_be_read_any_more_ends_with_the_reason(client, monkeypatch):
    async with browser(client, authentication=OPEN) as http:
        requests, asked = http.app.state.serving.requests, []
        share = type(requests).share

        def once(self, *given):
            asked.append(given)
            if len(asked) > 1:
                raise Refusal(429, "too_many_requests", "you have 0 requests, and no more at once")
            return share(self, *given)

        monkeypatch.setattr(type(requests), "share", once)
        page = (await http.get("/inbox")).text
    assert len(asked) == 2
    assert "you have 0 requests" in page.lower()
    assert page.rstrip().endswith("</html>")
