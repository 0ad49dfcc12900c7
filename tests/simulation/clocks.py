"""What a simulated process reads as the time: a wall clock that is wrong and steps, and a steady one that nobody sets."""

import time

from .loop import PROCESS


class Clocks:
    """Stands for the module `time` where the product asks for it; the process that asks says whose clocks these are."""

    CLOCK_REALTIME = time.CLOCK_REALTIME

    def __getattr__(self, name):
        return getattr(time, name)

    def time_ns(self):
        """The wall clock."""
        process = PROCESS.get()
        return (process.world.clock() + process.skew_ms) * 1_000_000

    def monotonic_ns(self):
        """The time since the machine started."""
        process = PROCESS.get()
        return int(process.world.loop.time() * 1e9) + process.up_ms * 1_000_000

    def monotonic(self):
        """The same, in seconds."""
        return self.monotonic_ns() / 1e9

    def clock_gettime_ns(self, clock):
        """Either of them."""
        return self.time_ns() if clock == self.CLOCK_REALTIME else self.monotonic_ns()
