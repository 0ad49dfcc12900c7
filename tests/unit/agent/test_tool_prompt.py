import logging

import pytest

from holdfast.agent import Tool
from holdfast.errors import ConfigurationError


def gated(prompt):
    return Tool(name="refund", approval="required", callback=lambda amount: amount, prompt=prompt)


def test_a_prompt_of_text_is_in_the_spec():
    declared = gated("Really?")
    assert declared.spec.prompt == "Really?"
    assert declared.render({"amount": 5}) == "Really?"


def test_a_prompt_function_is_rendered_from_the_arguments():
    declared = gated(lambda arguments: f"Refund {arguments['amount']}?")
    assert declared.spec.prompt is None
    assert declared.render({"amount": 5}) == "Refund 5?"


def test_no_prompt_renders_to_none():
    assert gated(None).render({"amount": 5}) is None


@pytest.mark.parametrize("prompt", [lambda arguments: arguments["nope"], lambda _: 5])
def test_a_prompt_that_fails_renders_to_none_and_is_logged(prompt, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        assert gated(prompt).render({"amount": 5}) is None
    assert "the prompt of tool 'refund' could not be rendered" in caplog.text


def test_a_prompt_cannot_change_the_arguments():
    arguments = {"amount": {"cents": 5}}
    gated(lambda given: str(given["amount"].pop("cents"))).render(arguments)
    assert arguments == {"amount": {"cents": 5}}


def test_a_long_prompt_is_cut_to_4_kib_of_utf8():
    rendered = gated(lambda _: "ä" * 5000).render({})
    assert rendered is not None
    assert len(rendered.encode()) <= 4096
    assert rendered.endswith("ä…")


def test_a_rendered_prompt_can_always_be_stored():
    assert gated(lambda _: "x\ud800").render({}) == "x?"


@pytest.mark.parametrize("prompt", [5, "x" * 4097, "\ud800", lambda: "takes nothing"])
def test_a_prompt_that_could_never_be_shown_is_refused(prompt):
    with pytest.raises(ConfigurationError) as caught:
        gated(prompt)
    assert caught.value.field == "tool 'refund'.prompt"


def test_a_prompt_is_not_async():
    async def prompt(arguments):
        return str(arguments)

    with pytest.raises(ConfigurationError, match="not async"):
        gated(prompt)
