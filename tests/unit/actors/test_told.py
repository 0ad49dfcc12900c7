"""What the model reads, and the store keeps, of what a tool raised: as the agent declares, and without secrets."""

import json
import threading
from typing import Annotated

import pytest
from given_worker import GivenWorker, carried_out
from pydantic import AfterValidator
from writer import Writer, begin, call, start

from holdfast.actors import wire
from holdfast.actors.worker import tool_run
from holdfast.actors.worker.refusals import Unforeseen
from holdfast.actors.workers import ModelRequest, RunRequest
from holdfast.agent import Agent, Limits, Tool
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.redaction import PLAIN

KEY = "hunter2/with+signs"
URL = f"postgres://app:{KEY}@db.internal/shop"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", KEY)


def refused():
    raise ConnectionError(f"{URL} refused {KEY!r}")


async def error_of(callback, *, arguments="{}", **options):
    """The error that the model reads of a run."""
    agent = Agent(name="desk", model="m", tools=[Tool(name="lookup", callback=callback)], **options)
    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": agent.spec.digest}), (agent.spec,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("lookup", arguments)))
    [one] = writer.state.calls
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=agent.spec.digest,
        effect_id=writer.effect_ids[0],
        turn_id="t1",
        tool_call_id=one.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=one.arguments_at,
    )
    worker = GivenWorker(store, agent)
    outcome = await carried_out(worker, request)
    assert KEY not in outcome.content
    assert (await store.run("c-1", request.effect_id)).outcome.count(KEY.encode()) == 0
    assert not outcome.ok
    return json.loads(outcome.content)["error"]


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ("full", "ConnectionError: postgres://***@db.internal/shop refused '[SHOP_API_KEY]'"),
        ("type", "ConnectionError"),
        (lambda error: f"no database: {error}", "no database: postgres://***@db.internal/shop refused '[SHOP_API_KEY]'"),
        (lambda _: 1 / 0, "ConnectionError"),
    ],
)
async def test_an_exception_of_a_body(errors, text):
    assert await error_of(refused, errors=errors) == text


async def test_what_a_function_of_the_app_says_is_bounded():
    errors = await error_of(refused, errors=lambda _: "x" * 10_000, limits=Limits(note_bytes=100))
    assert errors == "x" * 100


async def test_a_function_of_the_app_that_never_returns_leaves_the_class(monkeypatch):
    monkeypatch.setattr(tool_run, "TOLD_S", 0.01)
    gate = threading.Event()
    try:
        assert await error_of(refused, errors=lambda _: str(gate.wait())) == "ConnectionError"
    finally:
        gate.set()


async def test_a_cut_leaves_no_half_of_a_secret():
    def long():
        raise ValueError(f"{'x' * 80}{KEY}")

    assert "hunter" not in await error_of(long, limits=Limits(note_bytes=100))


async def test_what_a_validator_raised_follows_the_policy_too():
    def check(value):
        raise LookupError(f"{URL} refused {KEY}") if value else ValueError("no value")

    def lookup(order: Annotated[str, AfterValidator(check)]):
        return order

    shown = await error_of(lookup, arguments='{"order":"7"}')
    assert (
        shown == "invalid arguments: $: a validator raised LookupError: postgres://***@db.internal/shop refused [SHOP_API_KEY]"
    )
    hidden = await error_of(lookup, arguments='{"order":"7"}', errors="type")
    assert hidden == "invalid arguments: $: a validator raised LookupError"
    assert "no value" in await error_of(lookup, arguments='{"order":""}', errors="type")


async def test_a_result_that_cannot_be_made_json_follows_the_policy_too():
    class Odd:
        def __iter__(self):
            raise ValueError(f"{URL} refused {KEY}")

    assert "cannot be a result" in await error_of(lambda: {Odd()}, errors="type")
    assert "cannot be a result" in await error_of(lambda: [Odd()])


async def test_what_nobody_foresaw_leaves_the_worker_without_its_secrets(monkeypatch):
    store = MemoryStore()
    worker = GivenWorker(store, Agent(name="desk", model="m"))

    async def broken(*_):
        try:
            refused()
        except ConnectionError as error:
            raise KeyError(KEY) from error

    monkeypatch.setattr(worker, "_open", broken)
    asked_for = wire.pack(
        ModelRequest(code="k", conversation_id="c-1", agent="desk", spec_digest="d", effect_id="t1.m1", upto_seq=2, attempt=1)
    )
    for asked in (worker.prepare, lambda: worker.do(asked_for)):
        with pytest.raises(Unforeseen) as caught:
            await asked()
        assert KEY not in str(caught.value)
        assert "KeyError: '[SHOP_API_KEY]'" in str(caught.value)
        assert caught.value.__suppress_context__


async def test_the_reason_of_a_trouble_is_kept_without_secrets_and_cut_after_that():
    store = MemoryStore()
    await store.troubled("c-1", "x" * 490 + " redis://:open-sesame@host/0")
    [trouble] = await store.troubles()
    assert trouble.reason == PLAIN.redacted(trouble.reason)
    assert "open" not in trouble.reason
