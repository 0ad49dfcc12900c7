"""What a machine's load says: a figure for errors and for `holdfast doctor`, and whether it is too much."""

import os

import pytest

from holdfast import machine_load
from holdfast.machine_load import MachineLoad, because, overload


@pytest.fixture
def loaded(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (13.6, 9.0, 5.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_a_machine_is_overloaded_from_twice_as_many_processes_as_it_has_cores():
    assert [MachineLoad(runnable, 2).is_too_much for runnable in (0.0, 3.9, 4.0, 40.0)] == [False, False, True, True]
    assert str(MachineLoad(3.9, 2)) == "load 4 on 2 cores"
    assert str(MachineLoad(9.4, 1)) == "load 9 on 1 core"


def test_an_error_says_so_where_it_is_and_nothing_where_it_is_not(loaded, monkeypatch):
    assert overload() == "the machine is overloaded: load 14 on 2 cores"
    assert because() == " (the machine is overloaded: load 14 on 2 cores)"
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert (overload(), because()) == ("", "")


def test_the_wait_for_cores_is_read_where_linux_says_it(loaded, monkeypatch, tmp_path):
    said = tmp_path / "cpu"
    monkeypatch.setattr(machine_load, "_PRESSURE", said)
    assert machine_load.machine_load() == MachineLoad(13.6, 2, None)
    said.write_text("some avg10=97.25 avg60=80.00 avg300=9.86 total=10298866\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    assert machine_load.machine_load() == MachineLoad(13.6, 2, 0.9725)
    said.write_text("something else")
    assert machine_load.machine_load() == MachineLoad(13.6, 2, None)


def test_a_system_that_does_not_say_its_load_is_not_overloaded(monkeypatch):
    def refuse():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", refuse)
    assert (machine_load.machine_load(), overload()) == (None, "")
