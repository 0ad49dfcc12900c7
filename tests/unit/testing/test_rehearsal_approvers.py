"""A rehearsal with calls that certain people decide: who sends and who decides, votes, and edits."""

import pytest

from holdfast.agent import Agent, Approvers, Suspend, ToolContext, tool
from holdfast.conversation import Approve, Principal, Proof, Review
from holdfast.errors import AlreadyVoted, InvalidInput, NotPermitted
from holdfast.testing import BlockingRehearsal, Rehearsal, call

ANA, BO, EVE = (Principal(name, roles=["finance"], proof=Proof.KEY) for name in ("ana", "bo", "eve"))


@tool(approval="required", approvers=Approvers("role:finance", minimum=2, not_requester=True))
def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount:g}"


DESK = Agent(name="desk", tools=[pay])
MODEL = [call("pay", {"amount": 7}), "It is paid."]


async def test_two_people_other_than_who_asked_agree():
    async with Rehearsal(DESK, model=MODEL) as conversation:
        (shown,) = (await conversation.acting_as(ANA).send("Pay 7.")).pending
        assert (shown.requester, shown.approvers.minimum) == (ANA, 2)
        with pytest.raises(NotPermitted, match="nobody said who decides"):
            await conversation.resolve(shown, Approve())
        with pytest.raises(NotPermitted, match="'ana' sent the message"):
            await conversation.acting_as(ANA).resolve(shown, Approve())
        result = await conversation.acting_as(BO).resolve(shown, Approve())
        assert [(one.settled, one.votes) for one in result.receipts[-1:]] == [(False, 1)]
        assert [vote.by for vote in result.pending[0].votes] == [BO]
        with pytest.raises(AlreadyVoted):
            await conversation.acting_as(BO).resolve(shown, Approve())
        result = await conversation.acting_as(EVE).resolve(shown, Approve())
        assert (result.reply, [run.arguments for run in result.runs]) == ("It is paid.", [{"amount": 7}])


@tool(approval="required", approvers=lambda arguments: ["role:cfo" if arguments["amount"] > 10_000 else "role:finance"])
async def transfer(amount: int, context: ToolContext) -> str:
    """Transfer, once an auditor has looked at it."""
    if context.decision is None:
        raise Suspend(f"Transfer {amount}?", resume="pass_to_tool", approvers=["role:auditor"])
    return f"{context.decision.verdict}: {amount}"


async def test_an_approval_is_not_taken_for_the_review_that_the_body_asks_for():
    cfo, auditor = (Principal(name, roles=[name], proof=Proof.OIDC) for name in ("cfo", "auditor"))
    model = [call("transfer", {"amount": 5}), "Done."]
    async with Rehearsal(Agent(name="bank", tools=[transfer]), model=model) as conversation:
        (shown,) = (await conversation.send("Go.")).pending
        (shown,) = (await conversation.acting_as(ANA).resolve(shown, Approve({"amount": 20_000}))).pending
        assert shown.approvers.who == (("role:cfo",),)
        (shown,) = (await conversation.acting_as(cfo).resolve(shown, Approve())).pending
        assert (shown.kind, shown.title) == ("review", "Transfer 20000?")
        result = await conversation.acting_as(auditor).resolve(shown, Review("allow"))
        assert "allow: 20000" in next(one["content"] for one in result.messages if one["role"] == "tool")


def test_the_blocking_face_acts_as_somebody_too():
    with BlockingRehearsal(DESK, model=MODEL) as conversation:
        (shown,) = conversation.acting_as(ANA).send("Pay 7.").pending
        (shown,) = conversation.acting_as(BO).resolve(shown, Approve()).pending
        assert conversation.acting_as(EVE).resolve(shown, Approve()).reply == "It is paid."


async def test_a_rehearsal_acts_as_a_principal_alone_and_while_it_is_open():
    with pytest.raises(RuntimeError, match="not open"):
        Rehearsal(DESK, model=MODEL).acting_as(ANA)
    async with Rehearsal(DESK, model=MODEL) as conversation:
        with pytest.raises(InvalidInput, match="no principal"):
            conversation.acting_as("ana")
