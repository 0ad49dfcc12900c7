"""What the words of `holdfast drain` stand for."""

import pytest

from holdfast.conversation import ConfigurationError
from holdfast.persistence import EVERYWHERE
from holdfast.registry.draining import Target, target
from holdfast.registry.inventory import Process

WORKER = Process("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:0.3", "aaaa1111", "0.1.0")
ALONE = Process("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:alone-1", "bbbb2222", "0.1.0")
OLD = Process("holdfast:n:s:cluster:0.0.9+local:worker:abcdefghijkl:1", "", "0.0.9+local")
ACTOR = Process("holdfast:n:s:cluster:0.1.0:actor:123456", "aaaa1111", "0.1.0")
FOUND = [WORKER, ALONE, OLD, ACTOR]
NODES = {"aaaa1111": "10.0.0.1", "bbbb2222": "10.0.0.2", "aaab3333": "10.0.0.1"}


def test_a_worker_is_called_by_its_codes_digest_and_its_slot():
    assert [process.short for process in FOUND[:3]] == ["abcdefgh:0.3", "abcdefgh:alone-1", "abcdefgh:1"]
    assert WORKER.base == ("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:0", 3)
    assert ALONE.base == ("holdfast:n:s:cluster:0.1.0:worker:abcdefghijkl:alone-1", 0)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WORKER.name, Target("worker", WORKER.name)),
        ("abcdefgh:alone-1", Target("worker", ALONE.name)),
        ("aaaa", Target("node", "aaaa1111")),
        ("BBBB2222", Target("node", "bbbb2222")),
        ("10.0.0.2", Target("node", "bbbb2222")),
        ("0.1.0", Target("release", "0.1.0")),
        ("0.0.9", Target("release", "0.0.9")),
        ("0.0.9+local", Target("release", "0.0.9+local")),
        ("gone1", Target("node", "gone1234")),
    ],
)
def test_a_word_stands_for_the_one_thing_that_is_called_so(wanted, expected):
    assert target(wanted, FOUND, NODES, {"gone1234": 1, EVERYWHERE: 1}) == expected


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("10.0.0.1", "may be any of: node aaaa1111, node aaab3333"),
        ("aaa", "no worker, node or release"),  # too short to be meant
        ("9.9", "no worker, node or release"),
        (EVERYWHERE, "no worker, node or release"),
        ("", "no worker, node or release"),
    ],
)
def test_a_word_that_stands_for_nothing_or_for_several_is_refused(wanted, said):
    with pytest.raises(ConfigurationError, match=said):
        target(wanted, FOUND, NODES, {EVERYWHERE: 1})


def test_what_belongs_to_a_target():
    assert [process.name for process in FOUND if Target("node", "aaaa1111").has(process)] == [WORKER.name, ACTOR.name]
    assert [process.name for process in FOUND if Target("release", "0.0.9").has(process)] == [OLD.name]
    assert [process.name for process in FOUND if Target("worker", ALONE.name).has(process)] == [ALONE.name]
