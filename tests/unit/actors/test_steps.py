import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trap_listener

from holdfast.actors.steps import TRAPS, Step, logged, reached_here

SUPPORT = Path(trap_listener.__file__).parent


@pytest.fixture
def sent(monkeypatch):
    found = []
    monkeypatch.setattr(trap_listener.signal, "pthread_kill", lambda _, number: found.append(number))
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv(TRAPS, str(tmp_path))
    return tmp_path


def test_a_process_whose_environment_names_no_folder_logs_its_steps(monkeypatch, caplog):
    monkeypatch.delenv(TRAPS, raising=False)
    with caplog.at_level(logging.DEBUG, "holdfast.step"):
        reached_here()(Step.RUN_2_CLAIMED)
    assert caplog.messages == ["run-2-claimed"]


def test_a_process_without_traps_does_not_load_what_sends_signals():
    code = "import sys, holdfast.actors.steps as s; s.reached_here(); assert 'trap_listener' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SUPPORT)})


def test_a_trap_springs_once_at_its_step(folder, sent):
    (folder / Step.RUN_2_CLAIMED).write_text(str(int(signal.SIGKILL)))
    reached = reached_here()
    for step in (Step.RUN_1_ASKED, Step.RUN_2_CLAIMED, Step.RUN_2_CLAIMED):
        reached(step)
    assert sent == [signal.SIGKILL]


def test_a_trap_kills_the_process_that_it_catches(folder):
    (folder / Step.RUN_2_CLAIMED).write_text(str(int(signal.SIGKILL)))
    code = "from holdfast.actors.steps import Step, reached_here; reached_here()(Step.RUN_2_CLAIMED)"
    ended = subprocess.run([sys.executable, "-c", code], check=False, env={TRAPS: str(folder), "PYTHONPATH": str(SUPPORT)})
    assert ended.returncode == -signal.SIGKILL


def test_a_trap_sends_no_other_signal(folder, sent):
    (folder / Step.RUN_2_CLAIMED).write_text(str(int(signal.SIGUSR1)))
    reached_here()(Step.RUN_2_CLAIMED)
    assert sent == []


def test_a_folder_into_which_others_may_write_holds_no_traps(folder, sent):
    (folder / Step.RUN_2_CLAIMED).write_text(str(int(signal.SIGKILL)))
    folder.chmod(0o777)
    assert reached_here() is logged


def test_the_variable_names_no_code(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit")
    monkeypatch.setenv(TRAPS, "evil")
    assert reached_here() is logged
