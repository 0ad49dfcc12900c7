"""The blocking face, and the fixtures that give it."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Agent, Approve, Principal, Status, tool
from holdfast.testing import BlockingRehearsal, call, run_sync

PLUGIN = "holdfast.testing.pytest_plugin"


@tool(approval="required", approval_timeout_s=60)
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


DESK = Agent(name="desk", tools=[refund])
REFUND = call("refund", {"order": "A-1"})


def test_a_conversation_runs_in_a_plain_function():
    result = run_sync(DESK, "Refund", "Thanks", model=[REFUND, "Done.", "Bye."], decide={"refund": Approve()})
    assert (result.status, result.reply) == (Status.IDLE, "Bye.")


def test_a_pending_call_is_resolved_without_await():
    with BlockingRehearsal(DESK, model=[REFUND, "Done."]) as conversation:
        (shown,) = conversation.send("Refund").pending
        assert conversation.resolve(shown, Approve()).reply == "Done."
        assert conversation.id == "rehearsal"
    with BlockingRehearsal(DESK, model=[REFUND, "Done.", "Bye."]) as conversation:
        (shown,) = conversation.send("Refund").pending
        assert shown.resolve(Approve()).duplicate is False
        assert conversation.rest().reply == "Done."
        assert conversation.post("Thanks").seq
        assert conversation.result().status is not Status.AWAITING_INPUT
        assert conversation.rest().reply == "Bye."


def test_a_pending_call_is_decided_as_whoever_acts_and_not_as_who_was_shown_it():
    ana, bo = Principal("ana"), Principal("bo")
    with BlockingRehearsal(DESK, model=[REFUND, "Done."]) as conversation:
        (shown,) = conversation.acting_as(ana).send("Refund").pending
        done = conversation.acting_as(bo).resolve(shown, Approve())
    assert [event.body.principal for event in done.events if event.kind == "suspension_settled"] == [bo]


def test_time_is_moved_without_await():
    with BlockingRehearsal(DESK, model=[REFUND, "Too late."]) as conversation:
        began = conversation.now
        conversation.send("Refund")
        assert conversation.advance(60).reply == "Too late."
        assert conversation.now == began + 60_000
        assert conversation.end().status is Status.ENDED


def test_a_turn_is_cancelled_without_await():
    with BlockingRehearsal(DESK, model=[REFUND]) as conversation:
        (shown,) = conversation.send("Refund").pending
        assert conversation.cancel().pending == []
        assert shown.tool == "refund"


async def test_the_blocking_face_refuses_an_async_test():
    with pytest.raises(RuntimeError, match=r"await run\(\.\.\.\)"):
        run_sync(DESK, "Hi", model=[])
    with pytest.raises(RuntimeError, match="async with Rehearsal"):
        BlockingRehearsal(DESK, model=[])


def python(*arguments, cwd):
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_rehearsal_imports_neither_ray_nor_litellm_and_a_body_that_hangs_does_not_keep_its_process(tmp_path):
    script = """
import sys
import threading
from holdfast import Agent
from holdfast.testing import NeverRested, call, run_sync
assert run_sync(Agent(name="a"), "Hi", model=["Hello."]).reply == "Hello."

def hang() -> None:
    threading.Event().wait()

try:
    run_sync(Agent(name="a", tools=[hang]), "Hi", model=[call("hang", {})], within_s=0.05)
except NeverRested:
    print("given up")
print(sorted({"ray", "litellm", "aiohttp", "httpx"} & set(sys.modules)))
"""
    assert python("-c", script, cwd=tmp_path) == "given up\n[]\n"


def test_the_plugin_imports_nothing_of_holdfast_but_itself(tmp_path):
    script = f"""
import sys, pytest
import {PLUGIN}
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("holdfast", "pydantic", "ray", "redis")))
"""
    light = ["holdfast", "holdfast.lazy", "holdfast.testing", PLUGIN]
    assert python("-c", script, cwd=tmp_path) == f"{light}\n"


def test_a_rehearsal_that_a_fixture_opened_is_closed_with_its_test(holdfast_rehearsal):
    conversation = holdfast_rehearsal(DESK, model=[REFUND])
    assert conversation.send("Refund").pending


def test_the_project_registers_the_plugin():
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'holdfast = "{PLUGIN}"' in project
