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
