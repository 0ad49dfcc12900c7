"""Requests to the outside against real receivers on loopback: slow, closing, redirecting, lying, endless and changing ones."""

import asyncio
import gzip
import socket
import threading
import tracemalloc

import pytest
import trustme
from receivers import OK, Receiver, says, serving, trusted

from holdfast.actors.worker.notify import addresses, outgoing
from holdfast.actors.worker.notify.outgoing import Outgoing, after_ms
from holdfast.actors.workers import Delivered, Later, SetAside

BOMB = gzip.compress(bytes(50_000_000))


async def posted(url, body, headers, **more):
    outgoing = Outgoing()
    try:
        return await outgoing.posted(url, body, headers, **more)
    finally:
        await outgoing.close()


async def told(receiver, *, allow_private=True, by=None, **more):
    post = posted if by is None else by.posted
    return await post(receiver.url, b'{"a":1}', {"webhook-id": "msg_1"}, allow_private=allow_private, **more)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def at_once(monkeypatch):
    """The bounds, short enough for a test."""
    monkeypatch.setattr(outgoing, "ANSWERS_S", 0.5)
    monkeypatch.setattr(outgoing, "READING_S", 0.5)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_what_is_accepted_is_delivered_and_the_connection_closed(status):
    async with Receiver(says(f"HTTP/1.1 {status} Fine\r\nContent-Length: 0\r\n\r\n".encode())) as receiver:
        assert await told(receiver) == Delivered()
        await until(lambda: receiver.closed)
        (request,) = receiver.requests
    head, body = request.split(b"\r\n\r\n")
    assert head.startswith(b"POST /hooks?key=s3cret HTTP/1.1\r\n")
    assert f"host: localhost:{receiver.port}".encode() in head.lower()
    assert b"webhook-id: msg_1" in head
    assert b"accept-encoding" not in head.lower()
    assert body == b'{"a":1}'


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 599])
async def test_what_may_pass_is_tried_again(status):
    async with Receiver(says(f"HTTP/1.1 {status} No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".encode())) as receiver:
        assert await told(receiver) == Later(f"localhost answered {status}", after_ms=7000)


@pytest.mark.parametrize("status", [300, 304, 400, 401, 403, 404, 405, 410, 413, 422])
async def test_what_does_not_pass_is_set_aside(status):
    async with Receiver(says(f"HTTP/1.1 {status} No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".encode())) as receiver:
        answer = await told(receiver)
    assert isinstance(answer, SetAside)
    assert answer.reason.startswith(f"localhost answered {status}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status):
    async with Receiver(says(OK)) as inside:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with Receiver(says(moved)) as receiver:
            assert await told(receiver) == SetAside(f"localhost answered {status}, and redirects are not followed")
        assert inside.connections == 0


async def test_a_private_address_is_refused_before_a_connection():
    async with Receiver(says(OK)) as receiver:
        refused = await told(receiver, allow_private=False)
        assert refused == SetAside("localhost leads to 127.0.0.1, a private address, which only allow_private=True permits")
        assert receiver.connections == 0


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "127.1", "0177.0.0.1"]
)
async def test_a_private_address_by_number_is_refused_before_a_connection(host):
    async with Receiver(says(OK)) as receiver:
        answer = await posted(f"http://{host}:{receiver.port}/", b"{}", {}, allow_private=False)
        assert isinstance(answer, SetAside | Later)
        assert receiver.connections == 0


async def test_a_name_that_changes_between_look_and_connection_changes_nothing(monkeypatch):
    """The connection goes to the address that was checked, and nobody asks again what the name leads to."""
    async with Receiver(says(OK)) as checked:
        asked = []

        def changing(host, port, **_):
            asked.append(host)
            address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(addresses.socket, "getaddrinfo", changing)
        url = f"http://rebinding.example:{checked.port}/"
        assert await posted(url, b"{}", {}, allow_private=True) == Delivered()
        assert asked == ["rebinding.example"]
        assert f"host: rebinding.example:{checked.port}".encode() in checked.requests[0].lower()


async def test_requests_to_one_url_share_a_connection_that_is_idle_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(outgoing, "IDLE_S", 0.2)
    async with Receiver(says(OK)) as receiver, Receiver(says(OK)) as other:
        kept = Outgoing()
        for _ in range(3):
            assert await told(receiver, by=kept) == await told(other, by=kept) == Delivered()
        assert (receiver.connections, other.connections) == (1, 1)
        assert (len(receiver.requests), len(other.requests)) == (3, 3)
        await until(lambda: receiver.closed and other.closed)
        await kept.close()


async def test_what_a_name_leads_to_is_checked_anew_after_a_while_and_for_each_url(monkeypatch):
    asked, address, clock = [], ["127.0.0.1"], [0.0]

    def changing(host, port, **_):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address[0], port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", changing)
    monkeypatch.setattr(outgoing, "now_s", lambda: clock[0])
    async with Receiver(says(OK)) as receiver:
        kept, url = Outgoing(), f"http://rebinding.example:{receiver.port}/"
        assert await kept.posted(url, b"{}", {}, allow_private=True) == Delivered()
        address[0], clock[0] = "169.254.169.254", outgoing.KEPT_S - 1
        assert await kept.posted(url, b"{}", {}, allow_private=True) == Delivered()
        assert (receiver.connections, len(asked)) == (1, 1)
        assert isinstance(await kept.posted(f"{url}other", b"{}", {}, allow_private=True), SetAside)
        assert isinstance(await kept.posted(url, b"{}", {}, allow_private=False), SetAside)
        clock[0] = outgoing.KEPT_S
        assert isinstance(await kept.posted(url, b"{}", {}, allow_private=True), SetAside)
        assert len(receiver.requests) == 2
        await kept.close()


async def test_what_a_name_leads_to_is_looked_up_anew_after_an_error(monkeypatch, at_once):
    asked, answers = [], [says(OK), hangs, says(OK)]
    looked_up = addresses.socket.getaddrinfo
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *of, **more: asked.append(of) or looked_up(*of, **more))
    async with Receiver(in_turn(*answers)) as receiver:
        kept = Outgoing()
        assert await told(receiver, by=kept) == Delivered()
        assert isinstance(await told(receiver, by=kept), Later)
        assert await told(receiver, by=kept) == Delivered()
        assert (receiver.connections, len(asked)) == (2, 2)
        await kept.close()


async def test_a_connection_that_the_receiver_has_closed_meanwhile_fails_nothing():
    answers = [says(OK), closes, says(OK), closes, closes]
    async with Receiver(in_turn(*answers)) as receiver:
        kept = Outgoing()
        assert await told(receiver, by=kept) == Delivered()
        assert await told(receiver, by=kept) == Delivered()
        assert (receiver.connections, len(receiver.requests)) == (2, 3)
        assert isinstance(await told(receiver, by=kept), Later)  # over a new one, too
        assert (receiver.connections, len(receiver.requests)) == (3, 5)
        await kept.close()


@pytest.mark.parametrize("early", [OK, b"nonsense", b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"])
async def test_what_nobody_has_asked_for_is_no_answer_to_the_next_request(early):
    written = []

    async def answers(writer):
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(early)
        await writer.drain()
        written.append(early)

    async with Receiver(answers) as receiver:
        kept = Outgoing()
        for number in range(1, 4):
            assert await told(receiver, by=kept) == Delivered()
            await until(lambda number=number: len(written) == number)
            await asyncio.sleep(0.1)
            assert (receiver.connections, len(receiver.requests)) == (number, number)
        await kept.close()


async def test_each_answer_over_a_connection_has_the_whole_bound():
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + bytes(60_000)
    async with Receiver(says(body)) as receiver:
        kept = Outgoing()
        for _ in range(3 * outgoing.ANSWER_BYTES // len(body)):
            assert await told(receiver, by=kept) == Delivered()
        assert receiver.connections == 1
        await kept.close()


async def test_proxies_and_passwords_of_the_environment_are_not_used(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login ann password s3cret\n")
    netrc.chmod(0o600)
    async with Receiver(says(OK)) as receiver, Receiver(says(OK)) as proxy:
        monkeypatch.setenv("NETRC", str(netrc))
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await told(receiver) == Delivered()
        assert (receiver.connections, proxy.connections) == (1, 0)
        assert b"authorization" not in receiver.requests[0].lower()


def in_turn(*each):
    left = list(each)

    async def answers(writer):
        await left.pop(0)(writer)

    return answers


async def closes(writer):
    writer.close()


async def test_one_that_closes_without_an_answer_is_tried_again():
    async with Receiver(closes) as receiver:
        answer = await told(receiver)
    assert answer == Later("localhost cannot be reached: ServerDisconnectedError")


async def test_one_that_nobody_runs_is_tried_again():
    async with Receiver(says(OK)) as receiver:
        pass
    answer = await told(receiver)
    assert isinstance(answer, Later)
    assert "localhost cannot be reached" in answer.reason
    assert "s3cret" not in answer.reason


async def test_a_name_that_leads_nowhere_is_tried_again():
    answer = await posted("https://nobody.invalid/x?key=s3cret", b"{}", {}, allow_private=False)
    assert isinstance(answer, Later)
    assert "s3cret" not in answer.reason


async def hangs(_writer):
    await asyncio.sleep(3600)


async def drips_headers(writer):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X")
        await writer.drain()
        await asyncio.sleep(0.02)


async def repeats_continue(writer):
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("answers", [hangs, drips_headers, repeats_continue])
async def test_one_that_never_answers_has_its_time_and_no_more(answers, at_once):
    async with Receiver(answers) as receiver, asyncio.timeout(5):
        assert await told(receiver) == Later("localhost has not answered within 0.5 s")


async def test_a_lookup_that_hangs_holds_nothing_up(monkeypatch, at_once):
    ends = threading.Event()
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: ends.wait(30) and [])
    try:
        async with asyncio.timeout(5):
            answer = await posted("https://slow.example/", b"{}", {}, allow_private=False)
        assert answer == Later("slow.example has not answered within 0.5 s")
    finally:
        ends.set()


async def drips_body(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def promises_more(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nshort")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("answers", [drips_body, promises_more])
async def test_the_status_counts_whatever_the_body_is(answers, at_once):
    async with Receiver(answers) as receiver, asyncio.timeout(5):
        assert await told(receiver) == Delivered()


async def sends_a_gibibyte(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(16384):
        writer.write(bytes(65536))
        await writer.drain()


async def sends_a_bomb(writer):
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(BOMB)}\r\n\r\n".encode() + BOMB)


@pytest.mark.parametrize("answers", [sends_a_gibibyte, sends_a_bomb])
async def test_no_body_takes_more_than_its_bound(answers):
    async with Receiver(answers) as receiver, asyncio.timeout(10):
        tracemalloc.start()
        try:
            assert await told(receiver) == Delivered()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 5_000_000


async def never_ends_a_header(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    for _ in range(16384):
        writer.write(b"x" * 65536)
        await writer.drain()


async def never_ends_its_headers(writer):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000_000):
        writer.write(f"X-{number}: x\r\n".encode() * 100)
        await writer.drain()


async def never_ends_its_status(writer):
    writer.write(b"HTTP/1.1 200 ")
    for _ in range(16384):
        writer.write(b"x" * 65536)
        await writer.drain()


async def never_ends_to_continue(writer):
    for _ in range(16384):
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: <s3cret>\r\n\r\n" * 1000)
        await writer.drain()


@pytest.mark.parametrize(
    "answers", [never_ends_to_continue, never_ends_a_header, never_ends_its_headers, never_ends_its_status]
)
async def test_headers_have_a_bound(answers):
    async with Receiver(answers) as receiver, asyncio.timeout(10):
        tracemalloc.start()
        try:
            answer = await told(receiver)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(answer, Later)
    assert "s3cret" not in answer.reason
    assert peak < 5_000_000


NO_HTTP = [
    *(b"nonsense\r\n\r\n", OK + b"nonsense" * 500, b"HTTP/1.1 xyz\r\n\r\n", b"\x16\x03\x01\x02", b"SSH-2.0-nonsense\r\n\r\n"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
]


@pytest.mark.parametrize("answer", NO_HTTP)
async def test_what_is_no_http_is_tried_again_and_not_shown(answer, at_once):
    async with Receiver(says(answer)) as receiver:
        judged = await told(receiver)
    assert isinstance(judged, Later)
    assert "s3cret" not in judged.reason
    assert "nonsense" not in judged.reason


async def test_an_answers_body_is_shown_only_of_those_who_may_tell():
    refusal = b"HTTP/1.1 404 No\r\nContent-Length: 10\r\n\r\nno_service"
    async with Receiver(says(refusal)) as receiver:
        assert await told(receiver) == SetAside("localhost answered 404")
        assert await told(receiver, tells=True) == SetAside("localhost answered 404: no_service")
    hidden = b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n\x1b[2Jx\r\ny\xff"
    async with Receiver(says(hidden)) as receiver:
        assert await told(receiver, tells=True) == SetAside("localhost answered 404: \ufffd[2Jx y\ufffd")


@pytest.fixture
def authority(monkeypatch, tmp_path):
    with trusted(monkeypatch, tmp_path) as made:
        yield made


async def test_a_receiver_proves_its_name_by_its_certificate(authority):
    names = []
    context = serving(authority, "localhost")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with Receiver(says(OK), tls=context) as receiver:
        assert await told(receiver) == Delivered()
    assert names == ["localhost"]


async def test_a_certificate_for_another_name_is_none(authority):
    async with Receiver(says(OK), tls=serving(authority, "other.example")) as receiver:
        answer = await told(receiver)
        assert isinstance(answer, Later)
        assert "certificate" in answer.reason.lower()
        assert receiver.requests == []


async def test_a_certificate_by_nobody_known_is_none():
    async with Receiver(says(OK), tls=serving(trustme.CA(), "localhost")) as receiver:
        answer = await told(receiver)
        assert isinstance(answer, Later)
        assert receiver.requests == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0),
        ("7", 7_000),
        (" 120 ", 120_000),
        ("3600", 3_600_000),
        ("3601", 3_600_000),
        ("9" * 8000, 3_600_000),
        ("0" * 200 + "5", 5_000),
        ("1.5", None),
        ("٣", None),
        ("Fri, 27 Nov 2026 00:00:30 GMT", 30_000),
        ("Thu, 26 Nov 2026 00:00:00 GMT", 0),
        ("Sat, 28 Nov 2026 00:00:00 GMT", 3_600_000),
        ("Fri, 27 Nov 99999999 00:00:30 GMT", None),
        ("Fri, 99 Nov 2026 00:00:30 GMT", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(header, expected):
    assert after_ms(header, now_s=1_795_737_600.0) == expected
