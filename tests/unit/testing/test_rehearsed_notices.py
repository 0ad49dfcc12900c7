"""A rehearsal says what an app's notification targets would have been told; nothing is sent."""

from holdfast import Agent, App, Approve, Webhook, tool
from holdfast.testing import call, run, say


@tool(approval="required", prompt="Refund?")
def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


async def tell(notice):
    """Would be called by a worker."""
    raise AssertionError(notice)


DESK = Agent(name="desk", tools=[refund])
APP = App(
    agents=[DESK, Agent(name="other")],
    notify=[
        tell,
        Webhook("https://x.example", secret_env="HOOK", events=["settled", "turn_completed"]),
        Webhook("https://x.example", secret_env="HOOK", name="others", agents=["other"]),
    ],
)
SAID = [call("refund", {"cents": 5}), say("Done.")]


async def test_each_target_has_its_notices():
    waits = await run(DESK, "Please", model=SAID, app=APP)
    assert {name: [one.kind for one in told] for name, told in waits.notices.items()} == {
        "tell": ["suspended"],
        "webhook": [],
        "others": [],
    }
    assert waits.notices["tell"][0].call.arguments == {"cents": 5}
    done = await run(DESK, "Please", model=SAID, app=APP, decide=lambda _: Approve())
    assert [one.kind for one in done.notices["tell"]] == ["suspended"]
    settled, completed = done.notices["webhook"]
    assert (settled.decision, settled.call.tool) == ("approve", "refund")
    assert (completed.kind, completed.reply) == ("turn_completed", "Done.")


async def test_without_an_app_or_targets_there_are_none():
    assert (await run(DESK, "Please", model=SAID)).notices == {}
    assert (await run(DESK, "Please", model=SAID, app=App(agents=[DESK]))).notices == {}
