"""What `read_result` reads: a result of its own conversation, as far as the rules in force still allow its call."""

import json
from dataclasses import replace

import pytest
from given_worker import GivenWorker, bench_at, carried_out
from toy_cipher import ToyCipher
from writer import DESK, Writer, begin, call, finish, lose, reply, resolve, send, start

from holdfast.actors.worker import result_reading
from holdfast.actors.worker.gate import FixedRules
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, Rule, Rules, Tool
from holdfast.conversation import Answer, Approve, Context, Fail
from holdfast.errors import StoreUnavailable
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore

LONG = "\n".join(f"row {number} of Marie" for number in range(1000))
FOUND = json.dumps({"ok": True, "result": LONG})
TERMS = Context(budget=50_000)


async def lookup(order: str = "") -> str:
    """Look an order up."""
    return order


def tool(name, **more):
    return Tool(name=name, callback=lookup, primary="order", **more)


AGENT = Agent(name="desk", model="m", context=TERMS, tools=[tool("lookup"), tool("refund", approval="required")])
SPEC = DESK.model_copy(update={"context": TERMS, "tools": (*DESK.tools, AGENT.tool("read_result").spec)})


async def talk(*steps, store=None, name="c-1"):
    """A conversation whose first turn has had these steps, in a store that knows its agent."""
    store = store or MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": SPEC.digest}), (SPEC,))
    writer = await Writer.of(store, name)
    writer.spec = SPEC
    await writer.do(start("go", spec=SPEC), begin(), *steps)
    return writer


def looked_up(content=FOUND, name="lookup", arguments='{"order":"A-1"}', **more):
    return call((name, arguments)), finish(content=content, **more)


def given(writer, number=0):
    """The id of the call that was asked for as the n-th."""
    return [one.tool_call_id for event in writer.events if event.kind == "model_answered" for one in event.calls][number]


async def read(writer, *, agent=AGENT, **arguments):
    """What comes of a call of the tool with these arguments, on the way that every run takes."""
    if writer.state.turn is None:
        await writer.do(send(), begin())
    await writer.do(call(("read_result", json.dumps(arguments))))
    called = next(one for one in writer.state.calls if one.tool == "read_result" and one.effect_id)
    request = RunRequest(
        code="k",
        conversation_id=writer.conversation_id,
        agent="desk",
        spec_digest=SPEC.digest,
        effect_id=called.effect_id,
        turn_id=writer.state.turn.turn_id,
        tool_call_id=called.tool_call_id,
        tool="read_result",
        attempt=1,
        arguments_at=called.arguments_at,
    )
    return await carried_out(GivenWorker(writer.store, agent), request)


async def told(writer, rules=None, *, store=None, agent=AGENT, reads=AGENT, most_bytes=10**6, **arguments):
    """What the reading itself says, under these rules."""
    bench = bench_at(store or writer.store, rules=FixedRules(Rules() if rules is None else rules))
    request = replace(REQUEST, conversation_id=writer.conversation_id)
    said = await result_reading.read(bench, request, agent, reads.tool("read_result"), arguments, most_bytes=most_bytes)
    return json.loads(said)


REQUEST = RunRequest(
    code="k",
    conversation_id="c-1",
    agent="desk",
    spec_digest=SPEC.digest,
    effect_id="e#1",
    turn_id="t1",
    tool_call_id="e",
    tool="read_result",
    attempt=1,
    arguments_at=3,
)


async def refused(writer, rules=None, **how):
    with pytest.raises(result_reading.Unreadable) as error:
        await told(writer, rules, **how)
    return str(error.value)


async def test_a_page_comes_from_the_log_of_the_conversation():
    writer = await talk(*looked_up())
    outcome = await read(writer, call=given(writer), offset=100, limit=50)
    assert outcome.ok
    result = json.loads(outcome.content)["result"]
    assert (result["text"], result["characters"]) == (LONG[100:150], len(LONG))
    await writer.do(finish(content=outcome.content), reply("done"))
    assert writer.state.turn is None


async def test_a_page_has_at_most_4000_characters_and_as_many_tokens_as_a_result_that_is_sent_whole():
    writer = await talk(*looked_up(json.dumps({"ok": True, "result": "語" * 9000}, ensure_ascii=False)))
    page = (await told(writer, call=given(writer)))["result"]
    assert 1500 < len(page["text"]) <= 2048 * 10 // 9
    small = Agent(name="desk", model="m", context=Context(budget=9000, preview=200), tools=[tool("lookup")])
    assert len((await told(writer, reads=small, call=given(writer)))["result"]["text"]) < 200
    assert len((await told(writer, most_bytes=900, call=given(writer)))["result"]["text"]) < 300
    plain = await talk(*looked_up(json.dumps({"ok": True, "result": "x" * 9000})))
    assert len((await told(plain, call=given(plain)))["result"]["text"]) == 4000


async def test_the_places_of_a_text_are_found():
    writer = await talk(*looked_up())
    outcome = await read(writer, call=given(writer), find="row 77 ")
    (place,) = json.loads(outcome.content)["result"]["places"]
    assert (place["line"], place["offset"]) == (78, LONG.index("row 77 "))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"offset": 10**6}, f"beyond the end: the result of call_4_1 has {len(LONG)} characters"),
        ({"call": "call_99"}, "this conversation has no call 'call_99'"),
        ({"limit": 5000}, "limit"),
        ({"find": "x" * 300}, "find"),
    ],
)
async def test_what_cannot_be_read_is_an_error_that_the_model_reads(arguments, words):
    writer = await talk(*looked_up())
    outcome = await read(writer, **{"call": given(writer)} | arguments)
    assert (outcome.ok, words in outcome.content) == (False, True), outcome.content


async def test_a_call_without_a_result_is_told_as_such():
    writer = await talk(call(("lookup", "{}")))
    assert await refused(writer, call=given(writer)) == f"the call {given(writer)!r} has no result yet"


async def test_the_result_of_another_conversation_is_not_read():
    other = await talk(*looked_up(), name="c-2")
    writer = await talk(call(("refund", "{}")), store=other.store)
    assert (await told(other, call=given(other)))["ok"]
    request = replace(REQUEST, conversation_id="c-3")
    with pytest.raises(result_reading.Unreadable, match="this conversation has no call"):
        await result_reading.read(
            bench_at(writer.store), request, AGENT, AGENT.tool("read_result"), {"call": given(other)}, most_bytes=10**6
        )


async def test_what_a_client_sent_stays_marked():
    writer = await talk(call(("locate", "{}")), resolve(Answer(LONG)))
    assert (await told(writer, call=given(writer)))["untrusted"] is True
    writer = await talk(call(("locate", "{}")), resolve(Fail("no " * 900)))
    said = await told(writer, call=given(writer))
    assert (said["untrusted"], said["result"]["ok"]) == (True, False)
    assert "untrusted" not in await told(plain := await talk(*looked_up()), call=given(plain))


async def test_the_rules_in_force_decide_whether_the_result_of_a_denied_tool_is_read():
    writer = await talk(*looked_up())
    denied = Rules(deny=[Rule("lookup", name="no-lookups", reason="Not any more.")])
    assert await refused(writer, denied, call=given(writer)) == (
        f"the result of {given(writer)!r} may not be read: lookup is denied by the rule 'no-lookups': Not any more"
    )
    for others in (Rules(deny=["lookup(order=B-*)"]), Rules(ask=["lookup"]), Rules(deny=["refund"])):
        assert (await told(writer, others, call=given(writer)))["ok"]
    assert "lookup is denied" in await refused(writer, Rules(deny=["lookup(A-*)"]), call=given(writer))
    assert "lookup is denied" in await refused(writer, Rules(allow=["read_result"], default="deny"), call=given(writer))


async def test_rules_that_cannot_be_read_let_nothing_be_read():
    writer = await talk(*looked_up())

    class Unknown(FixedRules):
        async def begin_by(self, agent):
            return None, None

    bench = bench_at(writer.store, rules=Unknown(Rules()))
    with pytest.raises(result_reading.Unreadable, match="the permission rules cannot be read here"):
        await result_reading.read(bench, REQUEST, AGENT, AGENT.tool("read_result"), {"call": given(writer)}, most_bytes=10**6)


async def test_the_arguments_that_a_person_gave_instead_count_as_well_as_the_models():
    edits = resolve(Approve({"order": "B-2"}))
    writer = await talk(call(("refund", '{"order":"A-1"}')), edits, finish(content=FOUND))
    for pattern in ("refund(A-*)", "refund(B-*)"):
        assert "refund is denied" in await refused(writer, Rules(deny=[pattern]), call=given(writer))
    assert (await told(writer, Rules(deny=["refund(C-*)"]), call=given(writer)))["ok"]


async def test_the_tool_of_a_call_is_found_far_before_its_result(monkeypatch):
    monkeypatch.setattr(result_reading, "PAGE", 2)
    asked = call(("lookup", "{}"), ("ship", '{"order":"S-1"}'))
    writer = await talk(asked, finish(), resolve(Approve({"order": "S-2"})), lose(), resolve(Fail("it is gone")))
    for order in ("S-1", "S-2"):
        said = await refused(writer, Rules(deny=[f"ship(order={order})"]), call=given(writer, 1))
        assert "ship is denied" in said
    assert "it is gone" in (await told(writer, call=given(writer, 1)))["result"]["text"]


async def test_a_call_whose_arguments_are_unreadable_counts_as_any():
    writer = await talk(call(("lookup", "{")))
    assert "lookup is denied" in await refused(writer, Rules(deny=["lookup(Z-*)"]), call=given(writer))


async def test_what_it_read_itself_is_read_where_it_came_from():
    writer = await talk(*looked_up())
    outcome = await read(writer, call=given(writer))
    await writer.do(finish(content=outcome.content))
    said = await refused(writer, call=given(writer, 1))
    assert said == f"{given(writer, 1)!r} is a call of read_result: name the call whose result that has read"


async def test_a_log_that_holds_something_else_by_now_is_not_read():
    writer = await talk(*looked_up())

    class Emptied(FaultyStore):
        async def at(self, conversation_id, seqs):
            return [None for _ in seqs]

    assert "the log has no result of" in await refused(writer, store=Emptied(writer.store, Faults()), call=given(writer))


async def test_an_error_of_the_store_is_told_to_the_model():
    writer = await talk(*looked_up())
    for verb in ("known", "at"):
        broken = FaultyStore(writer.store, Faults(**{verb: FailBefore(StoreUnavailable("gone"))}))
        assert "the log of the conversation cannot be read" in await refused(writer, store=broken, call=given(writer))


async def test_an_encrypted_log_is_read_as_well_and_without_its_cipher_that_is_an_error():
    writer = await talk(*looked_up(), store=MemoryStore(cipher=ToyCipher()))
    outcome = await read(writer, call=given(writer), limit=20)
    assert json.loads(outcome.content)["result"]["text"] == LONG[:20]
    writer.store.payloads.cipher = None
    assert "cannot be read" in await refused(writer, call=given(writer))


@pytest.mark.parametrize(("rules", "effect"), [(Rules(deny=["read_result"]), "deny"), (Rules(ask=["read_result"]), "ask")])
async def test_a_reading_that_is_denied_or_asked_about_does_not_begin(rules, effect):
    writer = await talk(*looked_up())
    record = AppRecord(app="shop:app", code="k", agents={"desk": SPEC.digest}, rules={"desk": rules.digest})
    await writer.store.put_app(record, (SPEC,), {rules.digest: rules.to_json()})
    outcome = await read(writer, call=given(writer))
    assert (outcome.kind, outcome.ruled.effect) == ("run_ruled", effect)
