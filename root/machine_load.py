"""The load of this machine, and whether it is overloaded: then a process takes a minute to start instead of a second."""

import os
from dataclasses import dataclass
from pathlib import Path

TOO_MUCH = 2.0
"""The number of runnable processes per core from which a machine counts as overloaded."""
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The load of a machine: how many processes run or wait to run, on average over a minute, and for how many cores.

    `waiting` is the share (0 to 1) of the last ten seconds in which a process waited for a core; None if Linux does not say.
    """

    runnable: float
    cores: int
    waiting: float | None = None

    @property
    def is_too_much(self) -> bool:
        """Whether the machine is overloaded."""
        return self.runnable >= TOO_MUCH * self.cores

    def __str__(self) -> str:
        return f"load {self.runnable:.0f} on {self.cores} core{'s' * (self.cores != 1)}"


def machine_load() -> MachineLoad | None:
    """The load of this machine; None if its system does not say."""
    try:
        return MachineLoad(os.getloadavg()[0], os.cpu_count() or 1, _waiting())
    except (AttributeError, OSError):
        return None


def overload() -> str:
    """`the machine is overloaded: load 14 on 2 cores`, for errors about timeouts; empty if it is not overloaded."""
    load = machine_load()
    return f"the machine is overloaded: {load}" if load is not None and load.is_too_much else ""


def because() -> str:
    """The same in brackets, to append to an error's text."""
    found = overload()
    return f" ({found})" if found else ""


def _waiting() -> float | None:
    try:
        some = _PRESSURE.read_text().partition("avg10=")[2]
        return float(some.partition(" ")[0]) / 100
    except (OSError, ValueError):
        return None
