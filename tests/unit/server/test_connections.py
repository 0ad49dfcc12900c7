"""When a connection whose peer does not take in what it is sent is broken off; wires are made up here."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from holdfast.server import Bounds
from holdfast.server.connections import TAKEN_BYTES, Connection, Connections

FLUSH_S = 30


class Wire(asyncio.Transport):
    """A transport of which the test says how much its peer has left unread."""

    def __init__(self):
        super().__init__({"peername": ("10.0.0.9", 7), "sockname": ("10.0.0.1", 8484)})
        self.left, self.closing, self.aborted = 0, False, False

    def write(self, data):
        self.left += len(data)

    def get_write_buffer_size(self):
        return self.left

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    def abort(self):
        self.aborted = True


@pytest.fixture
async def connection():
    connections = Connections(Bounds(), lambda _: False)
    made = Connection(connections, uvicorn.Config(None, lifespan="off", log_config=None), ServerState(), {})
    made.connection_made(Wire())
    return made


async def test_a_peer_that_takes_a_large_response_in_slowly_gets_all_of_it(connection):
    wire, now = connection.transport, 0.0
    wire.left = 100 * TAKEN_BYTES
    connection.pause_writing()
    while wire.left:
        connection.check(now, FLUSH_S)
        now += FLUSH_S - 1
        wire.left -= TAKEN_BYTES
    assert not wire.aborted
    connection.resume_writing()
    connection.check(now, FLUSH_S)
    connection.check(now + 10 * FLUSH_S, FLUSH_S)
    assert not wire.aborted


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_peer_that_takes_next_to_nothing_in_is_broken_off(connection, taken):
    wire, now = connection.transport, 0.0
    wire.left = 100 * TAKEN_BYTES
    connection.pause_writing()
    while now < FLUSH_S:
        connection.check(now, FLUSH_S)
        assert not wire.aborted
        now += 1
        wire.left -= taken
    connection.check(now, FLUSH_S)
    assert wire.aborted


async def test_what_a_closed_connection_has_left_is_not_waited_for_without_end(connection):
    wire = connection.transport
    wire.left = 5
    connection.check(0.0, FLUSH_S)
    connection.check(10 * FLUSH_S, FLUSH_S)
    assert not wire.aborted, "an open one that waits for nothing"
    wire.close()
    connection.check(10 * FLUSH_S, FLUSH_S)
    connection.check(11 * FLUSH_S, FLUSH_S)
    assert wire.aborted


async def test_a_stream_whose_peer_takes_in_steadily_is_kept_though_what_is_left_is_never_less(connection):
    """Between two looks the peer takes in what lies between the marks of the transport, and more is written."""
    connection.pause_writing()
    for second in range(5 * FLUSH_S):
        connection.transport.left = 20_000 + second % 7 * 1_000
        connection.check(float(second), FLUSH_S)
        if second % 3 == 0:
            connection.resume_writing()
            connection.pause_writing()
    assert not connection.transport.aborted


def made_of(connections, address):
    made = Connection(connections, uvicorn.Config(None, lifespan="off", log_config=None), ServerState(), {})
    wire = Wire()
    wire._extra["peername"] = (address, 7)
    made.connection_made(wire)
    return made


async def test_where_nobody_waits_a_connection_that_holds_back_gives_way():
    connections = Connections(Bounds(), lambda _: True, most=3)
    held = [made_of(connections, f"10.0.0.{number}") for number in range(3)]
    for place, one in enumerate(held):
        connections.waits(one, now=False)  # its request is under way
        if place:
            one.pause_writing()
            one.check(float(10 - place), FLUSH_S)
            one.check(float(11 - place), FLUSH_S)
    made = made_of(connections, "10.0.0.9")
    assert [one.transport.aborted for one in held] == [False, False, True]  # the one that has held back longest
    assert not made.transport.closing
    made_of(connections, "10.0.0.10")
    assert len(connections) == 3


async def test_who_has_used_up_its_share_pushes_nobody_else_out():
    connections = Connections(Bounds(), lambda _: False, most=4)
    mine = [made_of(connections, "10.0.0.1") for _ in range(2)]
    others = [made_of(connections, f"10.0.0.{number}") for number in (2, 3)]
    for one in mine:
        connections.waits(one, now=False)
    refused = made_of(connections, "10.0.0.1")
    assert refused.transport.closing
    assert not any(one.transport.aborted for one in (*mine, *others))
    connections.waits(mine[0], now=True)
    assert not made_of(connections, "10.0.0.1").transport.closing  # one of its own gives way
    assert mine[0].transport.aborted
    assert not any(one.transport.aborted for one in others)


async def test_an_honest_peer_of_a_large_response_gives_way_after_those_who_take_nothing():
    connections = Connections(Bounds(), lambda _: True, most=3)
    held = [made_of(connections, f"10.0.0.{number}") for number in range(3)]
    honest, *stuck = held
    for one in held:
        connections.waits(one, now=False)
        one.pause_writing()
    for second in range(20):
        honest.resume_writing()
        honest.pause_writing()
        for one in held if second else [honest]:
            one.check(float(second), FLUSH_S)
    made_of(connections, "10.0.0.9")
    assert not honest.transport.aborted
    assert [one.transport.aborted for one in stuck] == [True, False]
