"""Where actors are made: on each node in turn, and beside those that are drained."""

import pytest

from holdfast.actors import placement
from holdfast.actors.placement import beside, in_turn, turn_of
from holdfast.persistence import EVERYWHERE

ANYWHERE = {"label_selector": {}}


def only(nodes):
    return {"label_selector": {"ray.io/node-id": nodes}}


@pytest.fixture
def living(monkeypatch):
    """The nodes that live, and one that does not."""
    found = ["c", "a", "b"]

    class There:
        def nodes(self):
            return [{"NodeID": node, "NodeManagerAddress": "x", "Alive": node != "dead"} for node in ["dead", *found]]

    monkeypatch.setattr(placement, "ray", There())
    return found


def test_actors_are_made_beside_drained_nodes_and_there_only_if_no_other_lives():
    assert beside(()) == beside({EVERYWHERE: 1}) == {}
    assert beside({"b": 1, EVERYWHERE: 1, "a": 2}) == only("!in(a,b)") | {"fallback_strategy": [ANYWHERE]}


def test_turns_that_follow_each_other_are_those_of_different_nodes(living):
    assert [in_turn(turn) for turn in (3, 4, 5, 6)] == [
        only(node) | {"fallback_strategy": [ANYWHERE]} for node in ("a", "b", "c", "a")
    ]


def test_a_drained_node_has_no_turn_and_is_the_last_to_be_fallen_back_on(living):
    assert [in_turn(turn, {"b": 1}) for turn in (0, 1, 2)] == [
        only(node) | {"fallback_strategy": [only("!in(b)"), ANYWHERE]} for node in ("a", "c", "a")
    ]


def test_where_one_node_is_left_it_need_not_be_named(living):
    assert in_turn(1, {"a": 1, "b": 1}) == beside({"a": 1, "b": 1})
    assert in_turn(1, {"a": 1, "b": 1, "c": 1}) == beside({"a": 1, "b": 1, "c": 1})
    living[1:] = []
    assert in_turn(1) == in_turn(1, {EVERYWHERE: 1}) == {}


def test_the_slots_of_a_code_follow_each_other_and_those_of_another_begin_elsewhere():
    first = turn_of("holdfast:shop:s:c:1:worker:abc:0")
    assert [turn_of(f"holdfast:shop:s:c:1:worker:abc:{slot}") - first for slot in (1, 2, 9, 10)] == [1, 2, 9, 10]
    assert turn_of("holdfast:shop:s:c:1:worker:abd:0") != first
    alone = [turn_of(f"holdfast:shop:s:c:1:worker:abc:alone-{slot}") for slot in (0, 1)]
    assert alone[1] - alone[0] == 1
    assert alone[0] != first
