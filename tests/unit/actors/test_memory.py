"""To how much a process may grow, and how many files it may open."""

import resource
import subprocess
import sys
import textwrap

import pytest

from holdfast.actors import memory


@pytest.mark.parametrize(("resident", "allowed"), [(100, 512), (400, 600)], ids=["small", "large from the beginning"])
def test_a_process_may_grow_to_what_is_configured_or_by_half(monkeypatch, resident, allowed):
    monkeypatch.setattr(memory, "resident_mb", lambda: resident)
    assert memory.allowed_mb(512) == allowed


def test_a_process_may_open_as_many_files_as_its_user_may():
    lines = """
        import resource
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        from holdfast.actors.memory import free_files
        print(free_files(), *resource.getrlimit(resource.RLIMIT_NOFILE))
    """
    said = subprocess.run([sys.executable, "-c", textwrap.dedent(lines)], capture_output=True, text=True, check=True).stdout
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert [int(word) for word in said.split()] == [hard - 256, hard, hard]
