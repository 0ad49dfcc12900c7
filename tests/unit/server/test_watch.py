"""What is noted of every request: an id, which goes where the request goes, and one line without what it named."""

import logging

import httpx
import pytest
from spans import CALLER
from starlette.responses import Response

from holdfast.server.caller import LOCAL
from holdfast.server.watch import REQUEST_ID, STRANGERS_BURST, Watch
from holdfast.work_context import REQUEST, TRACE, caller_traceparent


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "holdfast.server.access")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "holdfast.server.access"]


async def test_a_request_keeps_the_id_that_it_brings_and_another_gets_one(api):
    given = await api.http.get("/health", headers={"X-Request-Id": "trace-1.a:b_c"})
    made = [(await api.http.get("/health")).headers["x-request-id"] for _ in range(2)]
    assert given.headers["x-request-id"] == "trace-1.a:b_c"
    assert len(set(made)) == 2
    assert all(REQUEST_ID.fullmatch(one) for one in made)


@pytest.mark.parametrize("bad", ["", "a b", "x" * 65, 'a"b', "a;b", "ü", "a\tb"])
async def test_an_id_of_another_form_is_replaced(api, bad):
    found = await api.http.get("/health", headers={"X-Request-Id": bad.encode()})
    assert found.headers["x-request-id"] != bad
    assert REQUEST_ID.fullmatch(found.headers["x-request-id"])


async def test_a_refusal_has_an_id_too(api):
    for found in (
        await api.http.get("/nowhere"),
        await api.http.get("/health", headers={"Host": "evil.example"}),
        await api.http.get("/v1/conversations/c-none"),
    ):
        assert found.status_code >= 400
        assert REQUEST_ID.fullmatch(found.headers["x-request-id"])


async def test_the_id_is_known_while_the_request_is_carried_out_and_not_after_it(api, stack):
    seen, deliver = [], stack.deliver

    async def noted(delivery):
        seen.append(REQUEST.get())
        return await deliver(delivery)

    stack.deliver = noted
    await api("POST", "/v1/conversations", 201, json={"agent": "desk", "text": "Hello"}, headers={"X-Request-Id": "r-7"})
    assert (seen, REQUEST.get()) == (["r-7"], "")


async def test_a_line_has_the_template_of_the_path_and_nothing_that_the_request_named(api, waiting, lines):
    await api("GET", "/v1/conversations/c-1?wait_s=0&after=9", headers={"Authorization": "Bearer open-sesame"})
    await api.http.get("/nowhere/%0AERROR?token=open-sesame")
    first, second = lines()
    assert first.startswith("GET /v1/conversations/{conversation_id} 200 ")
    assert first.endswith(" ms by stated:local")
    assert second.startswith("GET - 404 ")
    assert not any(word in line for line in (first, second) for word in ("c-1", "wait_s", "open-sesame", "ERROR"))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([CALLER], CALLER),
        ([CALLER.replace("00-", "cc-", 1) + "-later"], CALLER),
        ([], None),
        (["00-nonsense"], None),
        ([CALLER, CALLER], None),
        ([CALLER + "x" * 5000], None),
    ],
    ids=["good", "of a later version", "none", "bad", "two", "long"],
)
async def test_a_trace_context_goes_with_the_command_and_a_bad_one_is_ignored(api, stack, given, found):
    seen, deliver = [], stack.deliver

    async def noted(delivery):
        seen.append((delivery.command.traceparent, TRACE.get()))
        return await deliver(delivery)

    stack.deliver = noted
    headers = [("traceparent", one) for one in given]
    await api("POST", "/v1/conversations", 201, json={"agent": "desk", "text": "Hello"}, headers=headers)
    assert seen == [(found, "" if found is None else CALLER[3:35])]
    assert (TRACE.get(), caller_traceparent()) == ("", None)


async def test_strangers_do_not_fill_the_log_and_it_is_said_how_many_lines_were_left_out(api, lines):
    now = [0.0]

    async def answer(scope, receive, send):
        if scope["path"] == "/known":
            scope["state"]["caller"] = LOCAL
        await Response()(scope, receive, send)

    watch = Watch(answer, counts=api.app.state.serving.counts, clock=lambda: now[0])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(watch), base_url="http://x") as http:
        for _ in range(STRANGERS_BURST + 40):
            await http.get("/nobody")
        assert len(lines()) == STRANGERS_BURST
        await http.get("/known")
        assert lines()[-1].endswith("by stated:local")
        now[0] += 60
        await http.get("/nobody")
        told = lines()
    assert len(told) == STRANGERS_BURST + 3
    assert "40 requests without a known caller were left out" in told[-2]
    assert told[-1].endswith("by -")
