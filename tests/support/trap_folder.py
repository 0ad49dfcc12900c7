"""Traps at the numbered steps: the process that reaches one next gets a signal, once."""

import asyncio
import os
import signal
import uuid
from pathlib import Path

from stack_fixture import eventually

from holdfast.actors.steps import Step


class Traps:
    """The folder that `HOLDFAST_TRAPS` names for a stack's processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._frozen: list[int] = []

    def arm(self, step: Step, number: signal.Signals) -> None:
        """Whoever reaches the step next gets this signal."""
        for sprung in self.folder.glob(f"{step}.*"):
            sprung.unlink()
        whole = self.folder / f"new-{uuid.uuid4().hex}"
        whole.write_text(str(int(number)))
        whole.rename(self.folder / step)

    async def sprung(self, step: Step, timeout_s: float = 90) -> int:
        """Wait until the trap has sprung; the process that it caught."""
        found = await asyncio.to_thread(
            eventually, lambda: list(self.folder.glob(f"{step}.*")), timeout_s, f"that a process reaches {step}"
        )
        return int(found[0].suffix[1:])

    async def frozen(self, step: Step) -> int:
        """Wait until a process stands still at a step."""
        pid = await self.sprung(step)
        self._frozen.append(pid)
        await asyncio.to_thread(eventually, lambda: _state(pid) == "T", what=f"that {pid} stands still")
        return pid

    def thaw(self, pid: int) -> None:
        """Let a process that stands still go on."""
        self._frozen.remove(pid)
        os.kill(pid, signal.SIGCONT)

    def clear(self) -> None:
        """Leave no trap and nothing frozen behind."""
        for trap in self.folder.iterdir():
            trap.unlink()
        for pid in self._frozen:
            if _state(pid) == "T":
                os.kill(pid, signal.SIGCONT)
        self._frozen.clear()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
