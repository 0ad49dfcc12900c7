"""An event loop on a simulated clock, whose turns are chosen by a seeded scheduler.

Every handle belongs to a `Process`, found in the context it was scheduled with. Within a process handles run in order, as in
any loop; which process runs its next one is drawn. When none can run, the clock jumps to the next timer. There is no selector
and there are no threads: whatever would leave the process raises.
"""

import asyncio
import contextlib
import random
from asyncio import events
from collections import deque
from contextvars import ContextVar, copy_context
from heapq import heappop, heappush

PROCESS = ContextVar("process")
"""The simulated process that the running handle belongs to."""


class Process:
    """Something that can die or be stopped: an actor, a worker, the sweeper, a client.

    `dead`: its handles are dropped for ever. `stopped`: they wait until it goes on. `gone`: the cluster says that it is dead,
    which a process that was cut off does not know. `hangs`: it never goes on by itself.
    """

    def __init__(self, name, loop):
        self.name = name
        self.ready = deque()
        self.dead = self.stopped = self.gone = self.hangs = False
        self.skew_ms = self.up_ms = 0
        self.fuse = None
        self.waiting = {}
        self.thawed_at = 0.0
        self._loop = loop
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self):
        return self.name

    def start(self, work):
        """A task of this process."""
        return self._loop.create_task(work, context=self.context.copy())


class Stuck(Exception):
    """Nothing can ever run again."""


class Handle:
    """What asyncio calls a handle, and the process whose turn it is; asyncio's own take longer to make and to run."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "process")

    def __init__(self, callback, args, context, process):
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True
        self.callback = self.args = None

    def cancelled(self):
        return self.is_cancelled


class SimLoop(asyncio.AbstractEventLoop):
    """Runs simulated processes; `run` returns once its work, which belongs to the process `judge`, is done."""

    def __init__(self, rng: random.Random):
        self._random = rng.random
        self._now = 0.0
        self._timers = []
        self._timed = 0
        self._runnable = []
        self._closed = False
        self.tasks = []  # kept: a task that the collector finds early would run its `finally` at a moment nobody chose
        self.turns = 0
        self.errors = []
        self.judge = Process("judge", self)

    # -- the scheduler ------------------------------------------------------------------------------------------------

    def run(self, work):
        events._set_running_loop(self)
        timers, runnable, draw = self._timers, self._runnable, self._random
        try:
            task = self.judge.start(work)
            while not task.done():
                if not runnable:
                    if not timers:
                        raise Stuck
                    self._now = max(self._now, timers[0][0])
                while timers and timers[0][0] <= self._now:
                    self._put(heappop(timers)[2])
                if not runnable:
                    continue
                chosen = int(draw() * len(runnable))
                process = runnable[chosen]
                handle = process.ready.popleft()
                if not process.ready:
                    runnable[chosen] = runnable[-1]
                    runnable.pop()
                if not handle.is_cancelled:
                    self._turn(process, handle)
            return task.result()
        finally:
            events._set_running_loop(None)

    def _turn(self, process, handle):
        self.turns += 1
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"exception in {handle.callback}", "exception": error})
        if process.fuse is not None:
            process.fuse[0] -= 1
            if process.fuse[0] <= 0:
                blow, process.fuse = process.fuse[1], None
                blow(process)

    def _put(self, handle):
        process = handle.process
        if process.dead or handle.is_cancelled:
            return
        if not process.ready and not process.stopped:
            self._runnable.append(process)
        process.ready.append(handle)

    def kill(self, process):
        """Nothing of it ever runs again."""
        process.dead = True
        self._withdraw(process)
        process.ready.clear()

    def stop(self, process):
        """Nothing of it runs until `go_on`."""
        process.stopped = True
        self._withdraw(process)

    def go_on(self, process):
        if process.stopped and not process.dead:
            process.stopped = False
            if process.ready:
                self._runnable.append(process)

    def _withdraw(self, process):
        if process in self._runnable:
            self._runnable.remove(process)

    def close(self):
        """End every task where it stands, now and not when the collector finds it."""
        self._closed = True
        events._set_running_loop(self)
        try:
            for _, task in self.tasks:
                if task.done():
                    if not task.cancelled():
                        task.exception()
                    continue
                task._log_destroy_pending = False
                with contextlib.suppress(RuntimeError, Exception):
                    task.get_coro().close()
        finally:
            events._set_running_loop(None)
        self.tasks.clear()
        self._timers.clear()
        self._runnable.clear()

    # -- what asyncio asks of a loop ----------------------------------------------------------------------------------

    def time(self):
        return self._now

    def _handle(self, callback, args, context):
        if context is None:
            context = copy_context()
        return Handle(callback, args, context, context.get(PROCESS, self.judge))

    def call_soon(self, callback, *args, context=None):
        handle = self._handle(callback, args, context)
        if not self._closed:
            self._put(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        handle = self._handle(callback, args, context)
        if not self._closed:
            self._timed += 1
            heappush(self._timers, (when, self._timed, handle))
        return handle

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, coro, *, name=None, context=None):
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(((context or copy_context()).get(PROCESS, self.judge), task))
        return task

    def run_in_executor(self, executor, func, *args):
        message = f"a simulated process starts no thread (for {func})"
        raise AssertionError(message)

    def call_exception_handler(self, context):
        self.errors.append(context)

    def default_exception_handler(self, context):
        self.errors.append(context)

    def get_debug(self):
        return False

    def is_running(self):
        return not self._closed

    def is_closed(self):
        return self._closed
