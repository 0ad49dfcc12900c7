"""The run of many conversations: bounded, resumable, each message sent once."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.backoff import Backoff
from holdfast.client import AsyncClient, AsyncConversation
from holdfast.client.results import ConversationState
from holdfast.conversation import Receipt, Status
from holdfast.errors import (
    ClusterError,
    ClusterUnavailable,
    CorruptStore,
    HoldfastError,
    NewerRecord,
    OutcomeUnknown,
    Overloaded,
    StoreError,
    StoreUnavailable,
)

from .errors import ExitCode
from .job_file import Job

WATCHERS = 64
"""How many suspended conversations are waited for at once; each takes a Redis connection."""
WATCH_S = 5.0
REFUSED = "refused"
NOT_STARTED = "not_started"
UNKNOWN = "unknown"
TRIES = 3
RETRY_S = 1.0
AWAY_AFTER = 8
"""How many consecutive jobs may go unanswered before the submission gives up: then the fault is not the jobs'."""
_CODES = dict.fromkeys((Status.FAILED, Status.ENDED, Status.QUARANTINED, REFUSED), ExitCode.FAILED)
_CODES |= {Status.IDLE: ExitCode.DONE, UNKNOWN: ExitCode.UNREACHABLE}
_AT_REST = (Status.IDLE, Status.FAILED, Status.ENDED, Status.QUARANTINED)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a job. `status` is the conversation's, or `refused` if Holdfast refused the job.

    `not_started`: the job is not known to have begun in time. `unknown`: no acknowledgement came after several tries. A second
    run continues both where the first one stopped.
    """

    job: Job
    status: str
    reply: str | None = None
    error: str | None = None
    pending: tuple[dict[str, Any], ...] = ()

    @property
    def code(self) -> ExitCode:
        """The exit code that this job alone would have."""
        return _CODES.get(self.status, ExitCode.AWAITING)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        said = {"line": self.job.line, "conversation_id": self.job.conversation_id, "status": self.status}
        return said | {"reply": self.reply, "error": self.error, "pending": list(self.pending)}


class Submission:
    """Runs jobs, a bounded number at once; every message has an id of its own, so a second run repeats nothing.

    With `wait`, suspended conversations are waited for; meanwhile they do not count in the concurrency. After `timeout_s` the
    run ends, and the conversations continue alone. `report` is called with each result.
    """

    def __init__(
        self, client: AsyncClient, *, concurrency: int, wait: bool, timeout_s: float | None, report: Callable[[Result], None]
    ) -> None:
        self._client = client
        self._wait = wait
        self._report = report
        self._slots = asyncio.Semaphore(concurrency)
        self._watchers = asyncio.Semaphore(WATCHERS)
        self._give_up = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        self._unanswered = 0
        self.waiting = 0

    async def run(self, jobs: Iterable[Job]) -> None:
        """Run all jobs."""
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    await self._slots.acquire()
                    if self._over():
                        self._slots.release()
                        self._report(Result(job, NOT_STARTED))
                    else:
                        group.create_task(self._take(job))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _take(self, job: Job) -> None:
        slot = _Slot(self._slots)
        try:
            result = await self._tried(job, slot)
        except (CorruptStore, NewerRecord) as error:  # a fault of this conversation alone
            result = Result(job, REFUSED, error=str(error))
        except (StoreError, ClusterError):
            raise  # a fault that all jobs share
        except HoldfastError as error:
            result = Result(job, REFUSED, error=str(error))
        finally:
            slot.release()
        self._report(result)

    async def _tried(self, job: Job, slot: "_Slot") -> Result:
        """The job's result; a command without an answer is sent again with the same ids, so that nothing is done twice."""
        backoff = Backoff(RETRY_S, RETRY_S * 2**TRIES)
        for number in range(1, TRIES + 1):
            try:
                await slot.take()
                result = await self._go(job, slot)
            except (OutcomeUnknown, StoreUnavailable, ClusterUnavailable, Overloaded) as error:
                last = error
            else:
                self._unanswered = 0
                return result
            left_s = self._left_s()
            if number == TRIES or (left_s is not None and left_s <= backoff.pause_s):
                break
            await backoff.sleep()
        if isinstance(last, Overloaded):
            return Result(job, NOT_STARTED, error=str(last))
        self._unanswered += 1
        if self._unanswered >= AWAY_AFTER and isinstance(last, StoreUnavailable | ClusterUnavailable):
            raise last
        return Result(job, UNKNOWN, error=str(last))

    async def _go(self, job: Job, slot: "_Slot") -> Result:
        try:
            async with asyncio.timeout(self._left_s()):
                how = {"conversation_id": job.conversation_id, "context": job.context, "attended": job.attended}
                conversation = await self._client.start(job.agent, job.messages[0], **how)
        except TimeoutError:
            if not self._over():
                raise
            return Result(job, NOT_STARTED)
        receipt = conversation.receipt
        sent = 1
        while True:
            state = await self._rest(conversation, receipt, slot)
            if state.status is not Status.IDLE or sent == len(job.messages) or self._over():
                break
            await slot.take()
            try:
                async with asyncio.timeout(self._left_s()):
                    receipt = await conversation.send(job.messages[sent], message_id=job.message_id(sent))
            except TimeoutError:
                if not self._over():
                    raise
                break
            sent += 1
        return Result(job, state.status, state.reply, state.error, tuple(call.to_dict() for call in state.pending))

    async def _rest(self, conversation: AsyncConversation, receipt: Receipt | None, slot: "_Slot") -> ConversationState[Any]:
        """The state in which the conversation rests after a message, or its state at the timeout."""
        # A duplicate's receipt has an old seq: the conversation may rest already, in the state where an earlier run left it.
        state = await conversation.wait(after=receipt.seq if receipt else None, timeout_s=self._left_s())
        while self._wait and state.status not in _AT_REST and not self._over():
            state = await self._watch(conversation, state, slot)
        return state

    async def _watch(
        self, conversation: AsyncConversation, state: ConversationState[Any], slot: "_Slot"
    ) -> ConversationState[Any]:
        """The next state of a conversation that awaits somebody, or its state after `WATCH_S`; it holds no slot meanwhile."""
        slot.release()
        self.waiting += 1
        try:
            async with self._watchers:
                left_s = self._left_s()
                return await conversation.wait(after=state.seq, timeout_s=WATCH_S if left_s is None else min(WATCH_S, left_s))
        finally:
            self.waiting -= 1

    def _left_s(self) -> float | None:
        return None if self._give_up is None else max(self._give_up - asyncio.get_running_loop().time(), 0.0)

    def _over(self) -> bool:
        return self._left_s() == 0


class _Slot:
    """One place of the concurrency, held from the start; each acquisition is released at most once."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = True

    async def take(self) -> None:
        if not self._held:
            await self._slots.acquire()
            self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()
