"""Pages in either direction, and single turns, are the slices of the whole log, whatever the conversation went through."""

import contextlib

import pytest
from history import CONVERSATION, FOLDER, history
from hypothesis import given
from hypothesis import strategies as st
from writer import Writer, begin, call, cancel, end, fail_model, finish, interrupt, reply, send, start, withdraw

from holdfast.client import TurnNotFound, log_pages
from holdfast.client.log_pages import END, message_page, turn_of, turn_page
from holdfast.client.turns import TurnLog
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.terms.parts import TextPart
from holdfast.errors import HoldfastError
from holdfast.persistence import MemoryStore
from holdfast.persistence.memory_conversations import Kept

VERSIONS = sorted(int(path.stem[1:]) for path in FOLDER.glob("v*.jsonl"))
STEPS = st.sampled_from(
    "reply reply reply call call finish finish finish send send steer parts later withdraw interrupt cancel fail".split()  # noqa: SIM905
)


def step_of(name, state, draw):
    """A step of that kind, as far as the state allows it."""
    running = [one for one in state.calls if one.status == "running"]
    match name:
        case "call":
            return call(*draw(st.lists(st.sampled_from(["lookup", "refund", "nobody"]), min_size=1, max_size=4)))
        case "finish" if running:
            return finish(draw(st.sampled_from(running)).effect_id, content=f"result {state.seq}")
        case "steer":
            return send(f"steered {state.seq}", when="steer")
        case "parts":
            return send((TextPart.of(f"parts {state.seq}"),))
        case "later":
            return send("later", due=1_000_000)
        case "withdraw" if state.waiting:
            return withdraw("x", draw(st.sampled_from(state.waiting)).seq)
        case "interrupt":
            return interrupt(draw(st.sampled_from([None, f"instead {state.seq}"])))
        case "cancel":
            return cancel()
        case "fail":
            return fail_model()
        case "reply":
            return reply(f"reply {state.seq}")
        case _:
            return send(f"sent {state.seq}")


async def lived(draw):
    """A store with a conversation that went through any steps; its log may end anywhere."""
    store = MemoryStore()
    writer = await Writer.of(store, CONVERSATION)
    await writer.do(start("hello"))
    for name in draw(st.lists(STEPS, max_size=40)):
        if writer.state.turn is None and writer.state.queue:
            await writer.do(begin())
        with contextlib.suppress(HoldfastError, StopIteration, IndexError):  # a step that does not fit here
            await writer.do(step_of(name, writer.state, draw))
    if draw(st.booleans()):
        await writer.do(end())
    return store


def recorded(version):
    """A store with a recorded conversation."""
    store = MemoryStore()
    store._conversations[CONVERSATION] = Kept(log=list(history(version).kept.log))
    return store


async def folded(store):
    """The messages and turns of the whole log."""
    transcript, log = Transcript(), TurnLog(CONVERSATION)
    for seq, event in await store.read(CONVERSATION, limit=1_000_000, whole=True):
        transcript.add(seq, event)
        log.add(seq, event)
    return transcript.messages(), log.turns()


async def forwards(read, store, limit):
    pages = [await read(store, CONVERSATION, limit, None, None)]
    while pages[-1].next is not None:
        pages.append(await read(store, CONVERSATION, limit, pages[-1].next, None))
    return pages


async def backwards(read, store, limit):
    pages = [await read(store, CONVERSATION, limit, None, END)]
    while pages[0].previous is not None:
        pages.insert(0, await read(store, CONVERSATION, limit, None, pages[0].previous))
    return pages


async def check(store, limit, *, full=True):
    """Hold pages and turns against the whole log; pages are `full` if nothing but its end makes them shorter."""
    messages, turns = await folded(store)
    for read, whole in ((message_page, messages), (turn_page, turns)):
        ahead, back = await forwards(read, store, limit), await backwards(read, store, limit)
        assert not full or {len(page.items) for page in [*ahead[:-1], *back[1:]]} <= {limit}
        for pages in (ahead, back):
            assert [one for page in pages for one in page.items] == whole
            for page in pages[::5]:
                if page.items and page.next is not None:  # it is found from both sides
                    behind = await read(store, CONVERSATION, limit, page.next, None)
                    for cursor in (page.next, behind.previous):
                        found = (await read(store, CONVERSATION, len(page.items), None, cursor)).items
                        assert found == page.items[-len(found) :]
                        assert not full or len(found) == len(page.items)
    for page in (await backwards(message_page, store, limit))[::5]:
        if page.again is not None:
            last = [message["role"] != "tool" for message in page.items][::-1].index(True) + 1
            again = await message_page(store, CONVERSATION, 1000, page.again, None)
            assert again.items[:last] == page.items[-last:]
    for turn in turns:
        assert await turn_of(store, CONVERSATION, turn.turn_id) == turn
    for turn_id in ("t0", f"t{len(turns) + 1}", "t01", "t", "", None):
        with pytest.raises(TurnNotFound):
            await turn_of(store, CONVERSATION, turn_id)


@given(st.data())
async def test_pages_of_any_conversation_are_slices_of_the_whole(data):
    with pytest.MonkeyPatch.context() as small:
        small.setattr(log_pages, "READ_AT_ONCE", data.draw(st.sampled_from([1, 2, 3, 500])))
        small.setattr(log_pages, "MOST_READS", reads := data.draw(st.sampled_from([1, 2, 1000])))
        await check(await lived(data.draw), data.draw(st.sampled_from([1, 2, 3, 5, 8, 1000])), full=reads == 1000)


@pytest.mark.parametrize("limit", [2, 20])
@pytest.mark.parametrize("version", VERSIONS)
async def test_pages_of_a_recorded_conversation_are_slices_of_the_whole(version, limit):
    await check(recorded(version), limit)
