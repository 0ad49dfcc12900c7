"""Several permission rules that ask about one call: whoever approves it fulfils all of them."""

import pytest

from holdfast import Agent, App, Approve, Approvers, NotPermitted, Principal, Proof, Rule, Rules, tool
from holdfast.testing import Rehearsal, call

ANA = Principal("ana", roles=["finance"], proof=Proof.KEY)
KIM = Principal("kim", roles=["finance", "board"], proof=Proof.OIDC)


@tool
def pay(amount: int, *, urgent: bool = False) -> str:
    """Pay."""
    return f"paid {amount}, urgent: {urgent}"


RULES = Rules(ask=["pay", Rule("pay", approvers=Approvers("role:finance"))], deny=['pay(urgent = "true")'])
DESK = Agent(name="desk", tools=[pay], rules=Rules(ask=[Rule("/pay/", approvers=["role:board"])]))
APP = App(agents=[DESK], rules=RULES)


async def test_a_wide_rule_that_asks_anybody_takes_no_call_from_the_approvers_of_others():
    async with Rehearsal(DESK, model=[call("pay", {"amount": 7}), "Paid."], app=APP) as conversation:
        (shown,) = (await conversation.send("Pay 7.")).pending
        assert (shown.rule, sorted(shown.approvers.who)) == ("pay", [("role:board",), ("role:finance",)])
        assert shown.approvers.outsider(ANA) == "'ana' is not one of role:board"
        assert shown.approvers.outsider(KIM) is None
        with pytest.raises(NotPermitted):
            await conversation.resolve(shown, Approve())


@pytest.mark.parametrize("said", [True, 1, "yes", "on", "T", 1.0])
async def test_a_denied_truth_value_is_denied_in_whatever_form_the_tool_takes_it(said):
    async with Rehearsal(DESK, model=[call("pay", {"amount": 7, "urgent": said}), "I may not."], app=APP) as conversation:
        result = await conversation.send("Pay 7 at once.")
        assert (result.runs, result.pending) == ([], [])
        assert "denied by the rule" in result.messages[-2]["content"]
