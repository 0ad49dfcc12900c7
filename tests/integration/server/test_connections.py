"""What only a real connection shows: listeners that do not read, requests that break off, bytes that are no HTTP."""

import json
import socket

import httpx
import pytest
from stack_fixture import eventually

from holdfast.testing.writer import send

from .conftest import served

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
