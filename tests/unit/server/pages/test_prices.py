"""What a conversation's tokens cost: by litellm's own list, and nothing where that says nothing."""

import litellm
import pytest

from holdfast.server.pages.prices import cost_usd


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "gpt-4o-mini"])
def test_a_model_costs_what_litellm_says(model):
    sent, received = litellm.cost_per_token(model="gpt-4o-mini", prompt_tokens=1000, completion_tokens=50)

    assert cost_usd(model, 1000, 50) == pytest.approx(sent + received)


@pytest.mark.parametrize("model", ["", "nobody/nothing", "sample_spec", "dall-e-3"])
def test_a_model_that_is_not_paid_by_the_token_has_no_cost(model):
    assert not cost_usd(model, 1000, 50)
