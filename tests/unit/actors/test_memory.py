"""To how much a process may grow."""

import pytest

from holdfast.actors import memory


@pytest.mark.parametrize(("resident", "allowed"), [(100, 512), (400, 600)], ids=["small", "large from the beginning"])
def test_a_process_may_grow_to_what_is_configured_or_by_half(monkeypatch, resident, allowed):
    monkeypatch.setattr(memory, "resident_mb", lambda: resident)
    assert memory.allowed_mb(512) == allowed
