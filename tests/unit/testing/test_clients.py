"""Clients in a rehearsal: handlers carry calls out, and what waits for nobody fails after the grace."""

import json

import pytest

from holdfast import Answer, Approve, ConfigurationError, InvalidInput, StaleCall
from holdfast.agent import Agent, Limits, tool
from holdfast.testing import BlockingRehearsal, Rehearsal, call, calls, run


@tool(executor="client")
def locate(precise: str = "no") -> str:
    """Where the user is."""


@tool(executor="client", approval="required", on_lost="error")
def camera() -> str:
    """Take a picture."""


DESK = Agent(name="desk", tools=[locate, camera])


def read(result):
    """What the model read of its calls."""
    return [json.loads(one["content"]) for one in result.messages if one["role"] == "tool"]


async def test_a_handler_carries_out_the_calls_of_its_tool_as_an_attached_client_does():
    seen = []

    def here(arguments, context):
        seen.append((arguments, context.attempt, context.call.tool))
        context.report_progress(1, message="half")
        if arguments:
            raise OSError("no signal")
        return "Bonn"

    model = [calls(call("locate", {}), call("locate", {"precise": "yes"})), "Done."]
    result = await run(DESK, "Where am I?", model=model, clients={"locate": here})
    assert result.reply == "Done."
    assert seen == [({}, 1, "locate"), ({"precise": "yes"}, 1, "locate")]
    found, failed = read(result)
    assert found == {"ok": True, "result": "Bonn", "untrusted": True}
    assert failed["error"] == "the client failed: OSError: no signal"
    kinds = [event.kind for event in result.events]
    assert kinds.count("call_claimed") == 2


async def test_a_gated_call_is_decided_first_and_then_carried_out():
    model = [call("camera", {}), "Done."]
    result = await run(DESK, "Look.", model=model, decide={"camera": Approve()}, clients={"camera": lambda *_: "picture"})
    assert read(result) == [{"ok": True, "result": "picture", "untrusted": True}]


async def test_without_a_handler_the_decision_is_asked_for():
    async with Rehearsal(DESK, model=[call("locate", {}), "Done."], decide=lambda _: Answer("there"), clients={}) as rehearsal:
        assert read(await rehearsal.send("Where?")) == [{"ok": True, "result": "there", "untrusted": True}]


async def test_a_call_that_nobody_answers_fails_after_the_grace_and_with_somebody_it_has_its_time():
    desk = Agent(name="desk", tools=[locate], limits=Limits(client_timeout_s=60))
    for given, error, within_s in [
        ({"clients": {}}, "no client is attached: it did not run", 5),
        ({"clients": {}, "decide": {"locate": None}}, "the client did not respond in time", 60),
        ({}, "the client did not respond in time", 60),
    ]:
        async with Rehearsal(desk, model=[call("locate", {}), "Done."], **given) as rehearsal:
            await rehearsal.send("Where?")
            assert (await rehearsal.advance(within_s - 1)).state.status == "awaiting_input"
            assert read(await rehearsal.advance(1)) == [{"ok": False, "error": error}]


async def test_a_claim_by_hand_is_kept_given_back_and_cancelled():
    async with Rehearsal(DESK, model=[call("locate", {}), "Done."]) as rehearsal:
        (waiting,) = (await rehearsal.send("Where?")).state.pending
        assert (await rehearsal.claim(waiting, "phone")).attempt == 1
        with pytest.raises(StaleCall):
            await rehearsal.resolve(waiting, Answer(1))
        (waiting,) = (await rehearsal.give_back(waiting, "phone", began=False)).state.pending
        assert (waiting.claimed, waiting.attempt) == (None, 1)
        await rehearsal.claim(waiting, "phone", on_detach="cancel")
        assert (await rehearsal.cancel_pending(client_id="phone")).reply == "Done."


def test_the_blocking_face_has_the_same():
    with BlockingRehearsal(DESK, model=[call("locate", {}), "Done."], clients={"locate": lambda *_: 1}) as rehearsal:
        assert rehearsal.send("Where?").reply == "Done."


def test_handlers_that_cannot_be_are_refused_at_once():
    with pytest.raises(ConfigurationError, match="no client's tool 'lokate'"):
        Rehearsal(DESK, model=[], clients={"lokate": print})
    with pytest.raises(InvalidInput, match="handlers"):
        Rehearsal(DESK, model=[], clients={"locate": 3})
