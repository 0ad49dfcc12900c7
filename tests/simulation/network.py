"""Calls between simulated processes: messages that take their time, get lost, arrive twice, or meet the dead."""

from .faults import Fate
from .loop import PROCESS


class Died(Exception):
    """The cluster knows the callee to be dead."""


class Unavailable(Exception):
    """The callee does not answer now."""


class Network:
    """Carries calls to processes."""

    def __init__(self, loop, faults, trace, rng):
        self._loop = loop
        self._faults = faults
        self._trace = trace
        self._rng = rng

    async def call(self, callee, what, serve):
        """What `serve()`, run in the callee, returns.

        Raises:
            Died: The callee is dead for the cluster, now or before it answered.
            Unavailable: The message or its answer was lost.
        """
        caller = PROCESS.get()
        reply = self._loop.create_future()
        faults = self._faults
        if callee.gone or caller.dead:
            self._later(caller, faults.hop_s(), _fail, reply, Died(callee.name))
            return await reply
        fate = faults.message()
        if self._loop.time() < faults.parted.get((caller.name, callee.name), 0):
            fate = Fate.LOST
        if fate is not Fate.FINE:
            self._trace.note("%s to %s: %s", what, callee.name, fate.name)
        if fate is Fate.LOST:
            callee.waiting[reply] = caller
            self._unheard(caller, reply)
            return await reply
        callee.waiting[reply] = caller
        self._later(callee, faults.hop_s(), self._arrive, callee, serve, reply, caller, fate is Fate.ANSWER_LOST)
        if fate is Fate.TWICE:
            self._later(callee, faults.hop_s() + self._rng.random(), self._arrive, callee, serve, None, caller, True)
        return await reply

    def bury(self, process):
        """The cluster finds a process dead: whoever waits for it hears of that, sooner or later."""
        process.gone = True
        for reply, caller in process.waiting.items():
            self._later(caller, self._faults.hop_s() + self._rng.random() / 2, _fail, reply, Died(process.name))
        process.waiting.clear()

    def _arrive(self, callee, serve, reply, caller, lost):
        callee.start(self._serve(callee, serve, reply, caller, lost))

    async def _serve(self, callee, serve, reply, caller, lost):
        try:
            answer, error = await serve(), None
        except Exception as raised:
            answer, error = None, raised
        if reply is None or callee.waiting.pop(reply, None) is None:
            return
        if lost:
            self._unheard(caller, reply)
        elif error is not None:
            self._later(caller, self._faults.hop_s(), _fail, reply, error)
        else:
            self._later(caller, self._faults.hop_s(), _settle, reply, answer)

    def _unheard(self, caller, reply):
        if self._rng.random() < 0.6:
            self._later(caller, self._rng.random() * 2, _fail, reply, Unavailable())

    def _later(self, process, delay_s, callback, *args):
        self._loop.call_later(delay_s, callback, *args, context=process.context)


def _settle(reply, answer):
    if not reply.done():
        reply.set_result(answer)


def _fail(reply, error):
    if not reply.done():
        reply.set_exception(error)
