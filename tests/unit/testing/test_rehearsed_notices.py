"""A rehearsal says what an app's notification targets would have been told; nothing is sent."""

from holdfast import Agent, App, Approve, Approvers, Deny, Escalate, Webhook, tool
from holdfast.agent.notify import TO_ACT_ON
from holdfast.testing import Rehearsal, call, run, say


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


async def test_reminders_escalations_and_defaults_are_told():
    @tool(
        approval="required",
        approvers=Approvers("role:finance"),
        approval_timeout_s=100,
        reminders_s=[40],
        on_timeout=Escalate(Approvers("role:board"), for_s=50, then=Deny("too late")),
    )
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    desk = Agent(name="desk", tools=[pay])
    told = Webhook("https://x.example", secret_env="HOOK", events=[*TO_ACT_ON, "settled", "expired"])
    app = App(agents=[desk], notify=[told])
    async with Rehearsal(desk, model=[call("pay", {"cents": 5}), say("No.")], app=app) as rehearsal:
        await rehearsal.send("Please")
        reminded = (await rehearsal.advance(60)).notices["webhook"]
        assert [one.kind for one in reminded] == ["suspended", "reminded"]
        assert reminded[1].call.approvers.who == (("role:finance",),)
        escalated = (await rehearsal.advance(40)).notices["webhook"][-1]
        assert (escalated.kind, escalated.call.approvers.who) == ("escalated", (("role:board",),))
        assert escalated.call.suspension_id == reminded[0].call.suspension_id
        assert escalated.call.expires_at == rehearsal.now + 50_000
        expired = (await rehearsal.advance(200)).notices["webhook"][-1]
        assert (expired.kind, expired.by, expired.decision, expired.reason) == ("expired", "expiry", "deny", "too late")
        assert (expired.principal, expired.call.tool) == (None, "pay")


async def test_without_an_app_or_targets_there_are_none():
    assert (await run(DESK, "Please", model=SAID)).notices == {}
    assert (await run(DESK, "Please", model=SAID, app=App(agents=[DESK]))).notices == {}
