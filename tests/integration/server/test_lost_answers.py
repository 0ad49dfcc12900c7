"""A client over HTTP behind a network that loses answers and cuts connections: nothing is done twice, no event is missing."""

import asyncio
import contextlib

import pytest
from writer import send

from holdfast.client import AsyncClient
from holdfast.conversation import Answer, Approve, Cancel
from holdfast.errors import BatchRefused, OutcomeUnknown, ServerUnavailable

from .conftest import served


class Network:
    """A port before a server. `lose` is how many of the next answers to a POST are lost; `cut` ends all connections."""

    def __init__(self, port):
        self.port = port
        self.lose = 0
        self.lost = 0
        self._open = set()

    async def __aenter__(self):
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._listening.close()
        self.cut()

    def cut(self):
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _connected(self, reader, writer):
        self._open.add(writer)
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        self._open.add(back)
        posted = [False]

        async def asked():
            while chunk := await reader.read(1 << 16):
                posted[0] = chunk.startswith(b"POST")
                back.write(chunk)

        async def answered():
            while chunk := await there.read(1 << 16):
                if posted[0] and self.lose:
                    self.lose, self.lost = self.lose - 1, self.lost + 1
                    return
                writer.write(chunk)

        with contextlib.suppress(OSError):
            doing = [asyncio.ensure_future(asked()), asyncio.ensure_future(answered())]
            await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
            for task in doing:
                task.cancel()
            await asyncio.gather(*doing, return_exceptions=True)
        for one in (writer, back):
            one.transport.abort()


def played(case, **bounds):
    """Play a case: it takes a server, the network before it, and a client behind that."""

    async def play(server):
        async with Network(server.port) as network, AsyncClient.connect(url=network.url, timeout_s=10) as client:
            await case(server, network, client)

    with served(**bounds) as server:
        server.waiting("c-1")
        asyncio.run(play(server))


def test_commands_whose_answers_are_lost_are_done_once():
    async def case(server, network, client):
        conversation = client.conversation("c-1")
        (approval,) = (await client.pending(kind="approval")).items
        commands = [
            lambda: client.start("desk", "Hello?", conversation_id="c-2"),
            lambda: conversation.send("And?", message_id="m-2"),
            lambda: approval.resolve(Approve()),
            lambda: client.resolve(approval.suspension_id, Approve(), conversation_id="c-1", decision_id="d-2"),
            conversation.cancel,
            conversation.end,
        ]
        for command in commands[:3]:
            network.lose = 2
            await command()
        network.lose = 1
        with pytest.raises(Exception, match="stale"):
            await commands[3]()
        for command in commands[4:]:
            network.lose = 2
            await command()
        assert network.lost == 11
        kinds = [event.kind for event in server.stack.writers["c-1"].events]
        assert [kinds.count(kind) for kind in ("message_accepted", "turn_cancelled", "conversation_ended")] == [2, 1, 1]

    played(case)


def test_several_decisions_whose_answers_are_lost_are_made_once():
    async def case(server, network, client):
        conversation = client.conversation("c-1")
        approval, question = await conversation.pending()
        network.lose = 2
        (receipt,) = await client.resolve_each([(question, Answer("blue"))])
        network.lose = 2
        (many,) = await conversation.resolve_many({approval.suspension_id: Approve()})
        network.lose = 2
        with pytest.raises(BatchRefused) as refused:
            await conversation.resolve_many({approval.suspension_id: Approve()})
        assert refused.value.errors[approval.suspension_id].settled_by == "approve"
        settled = [event for event in server.stack.writers["c-1"].events if event.kind == "suspension_settled"]
        assert [event.decision for event in settled] == ["answer", "approve"]
        assert (receipt.duplicate, many.duplicate, network.lost) == (True, True, 6)

    played(case)


def test_each_of_several_decisions_whose_outcome_is_unknown_names_the_key_that_repeats_it():
    async def case(_, network, client):
        calls = await client.conversation("c-1").pending()
        async with AsyncClient.connect(url=network.url, timeout_s=0.5) as hurried:
            network.lose = 1_000
            pairs = [(call, Cancel("nobody is there")) for call in calls]
            unknown = await hurried.resolve_each(pairs, decision_id="d-1")
        assert [type(one) for one in unknown] == [OutcomeUnknown, OutcomeUnknown]
        assert len({one.retry_id for one in unknown}) == 2
        network.lose = 0
        for (call, decision), one in zip(pairs, unknown, strict=True):
            assert (await call.resolve(decision, decision_id=one.retry_id)).duplicate

    played(case)


def test_an_outcome_that_stays_unknown_is_said_to_be_and_a_request_without_a_key_is_sent_once():
    async def case(server, network, _):
        async with AsyncClient.connect(url=network.url, timeout_s=0.5) as client:
            network.lose = 1_000
            with pytest.raises(OutcomeUnknown) as unknown:
                await client.conversation("c-1").send("And?", message_id="m-2")
            assert unknown.value.retry_id == "m-2"
            lost = network.lost
            with pytest.raises(ServerUnavailable, match="not known"):
                await client.unpause("desk")
            assert network.lost == lost + 1
            network.lose = 0
            assert (await client.conversation("c-1").send("And?", message_id="m-2")).duplicate

    played(case)


def test_events_go_on_where_connections_were_cut():
    async def case(server, network, client):
        writer, seen = server.stack.writers["c-1"], []
        events = client.conversation("c-1").events(live=False)
        for number in range(5):
            written = writer.do(send(f"message {number}", message_id=f"m{number}"))
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(written, server._loop))
            while len(seen) < writer.state.seq:
                seen.append((await anext(events)).seq)
            network.cut()
        await events.aclose()
        assert seen == list(range(1, writer.state.seq + 1))

    played(case)


def test_a_wait_goes_on_where_its_connection_was_cut():
    async def case(server, network, client):
        conversation = client.conversation("c-1")
        waiting = asyncio.ensure_future(conversation.wait(after=server.stack.writers["c-1"].state.seq))
        await asyncio.sleep(0.2)
        network.cut()
        await conversation.cancel()
        assert (await waiting).status == "idle"

    played(case)


def test_connections_are_kept_alive():
    async def case(_, network, client):
        for _ in range(10):
            await client.conversation("c-1").state()
        assert len(network._open) == 2

    played(case)
