"""The defaults that are taken from the machine."""

import pytest

from holdfast import settings as module
from holdfast.settings import Settings


@pytest.mark.parametrize(
    ("limit", "actors"),
    [("4000000000", 10), ("2000000000", 8), ("max", 60), ("", 60)],
    ids=["container", "small container", "no limit", "unreadable"],
)
def test_the_cap_of_live_actors_is_taken_from_the_memory_there_is(monkeypatch, tmp_path, limit, actors):
    found = tmp_path / "memory.max"
    found.write_text(limit)
    monkeypatch.setattr(module, "CGROUP_LIMITS", (found, tmp_path / "none"))
    monkeypatch.setattr(module.os, "sysconf", {"SC_PHYS_PAGES": 24_000_000_000 // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)

    assert Settings.of().max_actors == actors
