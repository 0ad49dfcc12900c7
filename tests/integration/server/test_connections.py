"""What only a real connection shows: listeners that do not read, requests that break off, bytes that are no HTTP."""

import asyncio
import contextlib
import ipaddress
import json
import signal
import socket

import httpx
import pytest
from stack_fixture import eventually
from stores import InMemory
from writer import send

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, Bounds, Proxy, connections, create_app
from holdfast.server.listening import listen, open_socket

from .conftest import served

ALIVE = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

STREAM = "GET /v1/conversations/{}/events?live=false HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n"


def connected(port, buffered=None):
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if buffered is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffered)
    opened.settimeout(30)
    opened.connect(("127.0.0.1", port))
    return opened


def test_a_listener_that_does_not_read_is_cut_off_holds_little_and_resumes_without_a_gap():
    with served(patience_s=0.5) as server:
        writer = server.waiting("c-1")
        for number in range(40):
            server.run(writer.do(send("x" * 500_000, message_id=f"m{number}")))

        with connected(server.port, buffered=4096) as lazy:
            lazy.sendall(STREAM.format("c-1", "").encode())
            eventually(lambda: server.streams == 1)
            eventually(lambda: server.streams == 0)
            # with the small window, the kernel may wait 200 ms before it says that there is room again, for each 2 KiB
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            taken = b""
            while chunk := lazy.recv(1 << 16):
                taken += chunk
        assert b"stream_closed" not in taken
        assert len(taken) < 20_000_000
        seen = [int(line[4:]) for line in taken.split(b"\n") if line.startswith(b"id: ")][:-1]  # the last one may be half

        place, last = f"{server.url}/v1/conversations/c-1/events", str(seen[-1] if seen else 0)
        with httpx.stream("GET", place, headers={"Last-Event-ID": last}, timeout=30) as again:
            for line in again.iter_lines():
                if line.startswith("id: "):
                    seen.append(int(line[4:]))
                    if seen[-1] == writer.state.seq:
                        break
        assert seen == list(range(1, writer.state.seq + 1))


def test_a_listener_that_leaves_is_noticed():
    with served() as server:
        server.waiting("c-1")
        for _ in range(5):
            with connected(server.port) as listener:
                listener.sendall(STREAM.format("c-1", "").encode())
                eventually(lambda: server.streams == 1)
            eventually(lambda: server.streams == 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/pending HTTP/1.1\r\n\r\n",
        b"GET /v1/pending HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST /v1/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n{}",
        b"POST /v1/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n{}",
        b"POST /v1/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_server_goes_on(server, raw):
    with connected(server.port) as rude:
        rude.sendall(raw)
        rude.shutdown(socket.SHUT_WR)
        said = b""
        with contextlib.suppress(ConnectionResetError):  # where the server has closed without reading all of it
            while chunk := rude.recv(1 << 16):
                said += chunk
    assert said == b"" or said.split()[1][:1] == b"4"
    assert b"Traceback" not in said
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}


def test_a_body_that_does_not_come_is_not_waited_for_and_one_that_breaks_off_changes_nothing():
    with served(body_s=0.2) as server:
        head = b"POST /v1/conversations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        with connected(server.port) as slow:
            slow.sendall(head + b"{")
            said = slow.recv(1 << 16)
        assert b" 408 " in said.partition(b"\r\n")[0]
        with connected(server.port) as hasty:
            hasty.sendall(head + b'{"agent": "desk"')
        eventually(lambda: httpx.get(f"{server.url}/health").status_code == 200)
        assert server.stack.delivered == []


def test_one_connection_carries_many_requests(server):
    with httpx.Client(base_url=server.url) as http:
        for number in range(20):
            sent = http.post("/v1/conversations/c-1/messages", json={"text": "x"}, headers={"Idempotency-Key": f"k-{number}"})
            assert json.loads(sent.content)["message_id"] == f"k-{number}"


@pytest.fixture
def hasty(monkeypatch):
    """Connections are looked at often."""
    monkeypatch.setattr(connections, "LOOK_S", 0.02)


def closed(opened):
    """Whether the server has closed a connection, perhaps after some bytes."""
    try:
        while opened.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def dripping(opened, text):
    """Send a text a byte at a time until the server closes the connection; how many bytes were taken."""
    opened.settimeout(0.02)
    for number in range(len(text)):
        try:
            opened.sendall(text[number : number + 1])
            if not opened.recv(1 << 16):
                return number
        except TimeoutError:
            pass
        except OSError:
            return number
    return len(text)


@pytest.mark.usefixtures("hasty")
def test_a_connection_that_sends_no_head_or_sends_it_drop_by_drop_is_closed():
    head = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 3000
    with served(head_s=0.3) as server:
        with connected(server.port) as silent:
            assert closed(silent)
        with connected(server.port) as slow:
            assert dripping(slow, head) < len(head)
        with connected(server.port) as again:
            again.sendall(ALIVE)
            assert b"200 OK" in again.recv(1 << 16)
            assert dripping(again, head) < len(head)
        eventually(lambda: len(server.connections) == 0)


@pytest.mark.usefixtures("hasty")
def test_a_body_that_nobody_waits_for_keeps_no_connection_open():
    head = b"POST /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000\r\n\r\n"
    with served(head_s=0.3) as server, connected(server.port) as slow:
        slow.sendall(head)
        assert b" 404 " in slow.recv(1 << 16)
        assert dripping(slow, b"x" * 3000) < 3000


@pytest.mark.usefixtures("hasty")
def test_who_takes_no_response_in_is_broken_off():
    with served(flush_s=0.3) as server, connected(server.port, buffered=4096) as lazy:
        lazy.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)
        eventually(lambda: len(server.connections) == 1)
        eventually(lambda: len(server.connections) == 0)


@pytest.mark.usefixtures("hasty")
def test_requests_and_streams_that_are_under_way_outlast_the_time_for_a_head():
    with served(head_s=0.2, heartbeat_s=0.1) as server:
        server.waiting("c-1")
        with connected(server.port) as listener:
            listener.sendall(STREAM.format("c-1", "").encode())
            taken = b""
            while taken.count(b"\n: \n") < 8:
                taken += listener.recv(1 << 16)


def test_where_there_is_no_room_the_connection_that_has_waited_longest_gives_way_to_a_new_one():
    with served(connections=6) as server:
        server.waiting("c-1")
        with contextlib.ExitStack() as held:
            first, *others = (held.enter_context(connected(server.port)) for _ in range(3))
            eventually(lambda: len(server.connections) == 3)
            last = held.enter_context(connected(server.port))
            assert closed(first)
            for one in (*others, last):
                one.sendall(STREAM.format("c-1", "").encode())
            eventually(lambda: server.streams == 3)
            refused = held.enter_context(connected(server.port))
            head, _, body = refused.recv(1 << 16).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1" in head
            assert json.loads(body)["code"] == "too_many_connections"
        eventually(lambda: len(server.connections) == 0)
        assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}


def test_one_address_has_half_of_the_connections_and_a_known_proxy_all_of_them():
    proxy = Authentication(proxy=Proxy(peers=(ipaddress.ip_network("127.0.0.1/32"),)))
    for authentication, room in ((None, 4), (proxy, 8)):
        with served(authentication=authentication, connections=8) as server, contextlib.ExitStack() as held:
            for _ in range(room):
                held.enter_context(connected(server.port))
            eventually(lambda server=server, room=room: len(server.connections) == room)
            with connected(server.port) as more:
                more.sendall(ALIVE)
                assert b"200 OK" in more.recv(1 << 16)
                assert len(server.connections) == room


@pytest.mark.usefixtures("hasty")
async def test_the_server_of_the_command_line_closes_connections_that_send_nothing():
    app = create_app(AsyncClient(StackGateway(InMemory(MemoryStore()), timeout_s=10)), bounds=Bounds(head_s=0.1))
    opened, listens = open_socket("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(listen(app, opened, ready=lambda _: listens.set()))
    async with asyncio.timeout(30):
        await listens.wait()
        reader, writer = await asyncio.open_connection(*opened.getsockname())
        assert await reader.read() == b""
        writer.close()
        signal.raise_signal(signal.SIGTERM)
        await serving


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed():
    hidden = b"GET /v1/agents HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    heads = (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 46\r\n\r\n",
    )
    with served() as server:
        for head in heads:
            with connected(server.port) as smuggler:
                smuggler.sendall(b"POST /v1/conversations HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"0\r\n\r\n" + hidden)
                taken = b""
                while chunk := smuggler.recv(1 << 16):
                    taken += chunk
            assert taken.startswith(b"HTTP/1.1 400 "), taken
            assert b'"two_lengths"' in taken
            assert taken.count(b"HTTP/1.1") == 1
