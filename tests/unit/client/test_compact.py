"""Requests for summaries, over the stack, HTTP and the command line: the published agent decides whether they are taken."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from asgi_transport import AsgiTransport
from hosted import stored
from stores import WithActors
from writer import DESK, Writer, begin, call, cancel, compact, reply, send, start, summarize

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient, ConversationEnded, ConversationNotFound, InvalidInput, SummaryStatus
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Compact, Context, Status
from holdfast.persistence import AppRecord
from holdfast.server import Authentication, create_app

HERE = Address("http://127.0.0.1:8484")
SUMMARISED = DESK.model_copy(update={"context": Context(budget=8000, compact=Compact())})
ODD = ["a/b", "100%", "a%2Fb", "..", "a?b#c", "a+b&c=d"]


async def published(spec):
    """An idle conversation whose first turn ran with an agent without `Compact`, and the agent as it is published now."""
    store = await stored(DESK)
    writer = await Writer.of(store, "c-1")
    writer.spec = DESK
    await writer.do(start(spec=DESK), begin(), reply("Hi."))
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": spec.digest}), [spec])
    return store, writer


def conversation_of(store, writer, way="stack", name="c-1"):
    client = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=10))
    if way == "http":
        app = create_app(client, authentication=Authentication(anyone=True))
        client = AsyncClient(HttpGateway(HERE, timeout_s=10, transport=AsgiTransport(app)))
    return client.conversation(name)


both_ways = pytest.mark.parametrize("way", ["stack", "http"])


@both_ways
async def test_a_summary_is_asked_for_and_read_by_the_same_id(way):
    store, writer = await published(SUMMARISED)
    conversation = conversation_of(store, writer, way)
    receipt = await conversation.compact(request_id="x-1")
    assert (receipt.seq, receipt.duplicate) == (writer.state.seq, False)
    assert writer.events[-1].request_id == "x-1"
    assert (await conversation.summary("x-1")).status is SummaryStatus.WAITING
    writer.spec = SUMMARISED
    await writer.do(begin(), summarize(boundary=3, tokens_before=900, tokens_after=90))
    found = await conversation.summary("x-1")
    assert (found.status, found.messages, found.tokens_before, found.tokens_after) == (SummaryStatus.COMPACTED, 1, 900, 90)
    again = await conversation.compact(request_id="x-1")
    assert again == receipt.model_copy(update={"duplicate": True})


@both_ways
@pytest.mark.parametrize("request_id", ODD)
async def test_an_id_of_any_form_is_read(way, request_id):
    store, writer = await published(SUMMARISED)
    conversation = conversation_of(store, writer, way)
    await conversation.compact(request_id=request_id)
    assert (await conversation.summary(request_id)).request_id == request_id


@both_ways
async def test_a_published_agent_without_compact_refuses_and_nothing_is_written(way):
    store, writer = await published(DESK)
    conversation, before = conversation_of(store, writer, way), writer.state
    with pytest.raises(InvalidInput, match="has no Compact"):
        await conversation.compact()
    assert writer.state == before


@both_ways
async def test_a_request_that_was_taken_has_its_receipt_whatever_the_agent_is_by_now(way):
    store, writer = await published(SUMMARISED)
    conversation = conversation_of(store, writer, way)
    receipt = await conversation.compact(request_id="x-1")
    await store.put_app(AppRecord(app="shop:app", code="k2", agents={"desk": DESK.digest}), [DESK])
    assert (await conversation.compact(request_id="x-1")).seq == receipt.seq
    with pytest.raises(InvalidInput, match="has no Compact"):
        await conversation.compact(request_id="x-2")


@both_ways
async def test_during_a_turn_the_agent_of_the_turn_decides(way):
    store, writer = await published(SUMMARISED)
    await writer.do(send(), begin(), call("lookup"))
    conversation, before = conversation_of(store, writer, way), writer.state
    with pytest.raises(InvalidInput, match="has no Compact"):
        await conversation.compact()
    assert writer.state == before


@both_ways
async def test_there_is_none_of_a_conversation_that_is_over_or_never_began(way):
    store, writer = await published(SUMMARISED)
    with pytest.raises(ConversationNotFound):
        await conversation_of(store, writer, way, "c-9").compact()
    conversation = conversation_of(store, writer, way)
    await conversation.end()
    with pytest.raises(ConversationEnded):
        await conversation.compact()


@both_ways
async def test_what_cannot_be_an_id_is_refused(way):
    store, writer = await published(SUMMARISED)
    conversation = conversation_of(store, writer, way)
    for bad in ("", "x" * 300, "a\nb"):
        with pytest.raises(InvalidInput):
            await conversation.compact(request_id=bad)


@pytest.fixture
def reaches(monkeypatch):
    """Have the command line reach a conversation's store and its writer."""

    def to(store, writer):
        @asynccontextmanager
        async def reached(_):
            stack = WithActors(store, writer)
            yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

        monkeypatch.setattr(session, "reached", reached)

    return to


def test_the_command_line_does_not_wait_for_a_person(reaches, capsys):
    store, writer = asyncio.run(published(SUMMARISED))
    writer.spec = SUMMARISED
    asyncio.run(writer.do(send(), begin(), call("ask")))
    assert writer.state.status is Status.AWAITING_INPUT
    reaches(store, writer)
    assert run(["compact", "c-1", "--request-id", "x-1", "--wait", "30"]) == ExitCode.DONE
    assert "The summary of c-1 is not made yet (request x-1)." in capsys.readouterr().out


def test_the_command_line_fails_if_there_will_be_no_summary(reaches, capsys):
    store, writer = asyncio.run(published(SUMMARISED))
    reaches(store, writer)
    asyncio.run(writer.do(compact("x-1"), cancel("x-2")))
    assert run(["compact", "c-1", "--request-id", "x-1"]) == ExitCode.FAILED
    assert "The summary of c-1 was cancelled (request x-1)." in capsys.readouterr().out
    asyncio.run(writer.do(compact("x-3"), begin()))
    assert run(["cancel", "c-1"]) == ExitCode.DONE
    assert f"The summary c{writer.state.last.seq + 4} is cancelled" in capsys.readouterr().out


def test_the_command_line_asks_and_says_what_came_of_it(reaches, capsys):
    store, writer = asyncio.run(published(SUMMARISED))
    reaches(store, writer)
    given = ["compact", "c-1", "--request-id", "x-1", "--wait", "0"]
    assert run(given) == ExitCode.DONE
    assert "The summary of c-1 is not made yet (request x-1)." in capsys.readouterr().out
    writer.spec = SUMMARISED
    asyncio.run(writer.do(begin(), summarize(boundary=3, tokens_before=900, tokens_after=90)))
    assert run(given) == ExitCode.DONE
    said = "A summary stands for the first 1 messages of c-1: about 900 tokens before, 90 with it (request x-1)."
    assert said in capsys.readouterr().out.replace("\n", " ")
    assert run([*given, "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["status"] == "compacted"
    asyncio.run(store.put_app(AppRecord(app="shop:app", code="k2", agents={"desk": DESK.digest}), [DESK]))
    assert run(["compact", "c-1"]) == ExitCode.BAD_INPUT
    assert "has no Compact" in capsys.readouterr().err
