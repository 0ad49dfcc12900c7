"""How much this machine has to do, and whether that is too much: then a process takes a minute to start, and not a second."""

import os
from dataclasses import dataclass
from pathlib import Path

TOO_MUCH = 2.0
"""From how many runnable processes for each core on a machine counts as overloaded."""
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The load of a machine.

    Attributes:
        runnable: How many processes run or wait to run, on average over a minute.
        cores: How many cores there are.
        waiting: The share (0 to 1) of the last ten seconds in which a process waited for a core; None where Linux says nothing.
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
    """The load of this machine; None where its system does not say."""
    try:
        return MachineLoad(os.getloadavg()[0], os.cpu_count() or 1, _waiting())
    except (AttributeError, OSError):
        return None


def overload() -> str:
    """`the machine is overloaded: load 14 on 2 cores`, for errors about what took too long; empty where it is not."""
    load = machine_load()
    return f"the machine is overloaded: {load}" if load is not None and load.is_too_much else ""


def because() -> str:
    """The same in brackets, to follow what an error says."""
    found = overload()
    return f" ({found})" if found else ""


def _waiting() -> float | None:
    try:
        some = _PRESSURE.read_text().partition("avg10=")[2]
        return float(some.partition(" ")[0]) / 100
    except (OSError, ValueError):
        return None
