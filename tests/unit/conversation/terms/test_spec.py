"""Specs: data with a digest."""

import pickle

import pytest
from pydantic import ValidationError

from holdfast.conversation import AgentSpec, Limits


def test_equal_specs_have_equal_digests_and_others_have_not(conversations):
    desk = conversations.desk
    assert conversations.desk_with().digest == desk.digest
    assert conversations.desk_with({"max_model_calls": 5}).digest != desk.digest
    assert conversations.desk_with(ask={"description": "x"}).digest != desk.digest


def test_a_spec_comes_back_from_its_data(conversations):
    desk = conversations.desk
    assert AgentSpec.model_validate(desk.model_dump()) == desk
    assert AgentSpec.model_validate_json(desk.model_dump_json()).digest == desk.digest
    assert pickle.loads(pickle.dumps(desk)).digest == desk.digest  # noqa: S301 - our own


def test_a_field_that_a_release_adds_changes_no_digest(conversations):
    """An upgrade strands no turn: what has a default is in no digest, and what is stored keeps the digest it is stored as."""

    class LaterLimits(Limits):
        tokens: int = 1000

    desk = conversations.desk
    later = desk.model_copy(update={"limits": LaterLimits(**desk.limits.model_dump())})
    assert later.digest == desk.digest
    assert desk.stored_as("as version 2 called it").digest == "as version 2 called it"


def test_a_tool_is_found_by_its_name(conversations):
    desk = conversations.desk
    assert desk.tool("refund").name == "refund"
    assert desk.tool("nope") is None


def test_a_changed_copy_has_a_digest_and_tools_of_its_own(conversations):
    desk = conversations.desk
    assert desk.digest
    assert desk.tool("ask")
    copy = desk.model_copy(update={"model": "other", "tools": ()})
    assert copy.digest != desk.digest
    assert copy.tool("ask") is None


def test_the_limits_are_those_of_the_design():
    limits = Limits()
    assert (limits.max_model_calls, limits.client_timeout_s, limits.run_timeout_s, limits.model_timeout_s) == (50, 60, 600, 600)
    assert limits.approval_timeout_s == limits.answer_timeout_s == 7 * 86400
    assert (limits.message_bytes, limits.result_bytes, limits.note_bytes) == (1 << 20, 256 << 10, 4 << 10)
    assert (limits.max_calls, limits.reply_bytes, limits.queued) == (128, 1 << 20, 100)


@pytest.mark.parametrize("name", sorted(Limits.model_fields))
def test_a_limit_may_be_small_and_not_nothing(name):
    assert getattr(Limits(**{name: 1}), name) == 1
    for value in (0, -1):
        with pytest.raises(ValidationError, match=name):
            Limits(**{name: value})
