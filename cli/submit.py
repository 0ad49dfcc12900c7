"""`holdfast submit`: run the conversations of a file."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast import errors
from holdfast.backoff import Backoff
from holdfast.client import AsyncClient, AsyncConversation
from holdfast.client.results import ConversationState
from holdfast.conversation import Receipt, Status

from . import job_file
from .display import clean, shorten, tell, to_json
from .errors import ExitCode
from .job_file import Job
from .options import AsJson, Where
from .session import Session, session

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

CONCURRENCY = 16
COMMAND_TIMEOUT_S = 300.0
"""The most seconds of a start or a message: sixteen at once may each wait for a new actor."""
BEAT_S = 0.5
PATIENCE_S = 2.0
SAY_S = 10.0
TEXT_LENGTH = 120
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
        except (errors.CorruptStore, errors.NewerRecord) as error:  # a fault of this conversation alone
            result = Result(job, REFUSED, error=str(error))
        except (errors.StoreError, errors.ClusterError):
            raise  # a fault that all jobs share
        except errors.HoldfastError as error:
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
            except (errors.OutcomeUnknown, errors.StoreUnavailable, errors.ClusterUnavailable, errors.Overloaded) as error:
                last = error
            else:
                self._unanswered = 0
                return result
            left_s = self._left_s()
            if number == TRIES or (left_s is not None and left_s <= backoff.pause_s):
                break
            await backoff.sleep()
        if isinstance(last, errors.Overloaded):
            return Result(job, NOT_STARTED, error=str(last))
        self._unanswered += 1
        if self._unanswered >= AWAY_AFTER and isinstance(last, errors.StoreUnavailable | errors.ClusterUnavailable):
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


def run(
    where: Where,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One JSON object a line.")],
    *,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="How many conversations run at once.")] = CONCURRENCY,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for conversations that await somebody.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="End after this time, even if work is left.")] = None,
    as_json: AsJson = False,
) -> int:
    """Run the conversations of a file: one JSON object a line, with `agent` and `messages` (the user's, in order).

    A message is a text or a list of parts. Optional keys are `conversation_id`, `context` and `attended` (false: nobody is
    there to ask). Without an id, one is derived from the file's content and the line, so that a second run of the same file
    continues where the first stopped. A conversation that awaits somebody is reported as awaiting_input; once it is answered,
    a second run of the file sends its remaining messages.

    A line without an acknowledgement is sent again with the same ids, and then reported as unknown; the others continue.

    Exit code: 0 if all are idle, 1 if some failed, else 4 if some are unknown, else 5 (some await somebody, or are unfinished).
    """
    if timeout is not None and not timeout > 0:
        raise errors.InvalidInput("--timeout", f"{timeout:g} is no time", "give seconds, more than 0")
    return asyncio.run(_submit(where, file, concurrency=concurrency, wait=wait, timeout_s=timeout, as_json=as_json))


async def _submit(
    where: Where, file: Path, *, concurrency: int, wait: bool, timeout_s: float | None, as_json: bool
) -> ExitCode:
    async with session(where, timeout_s=COMMAND_TIMEOUT_S, with_app=True) as opened:
        jobs = job_file.read(file, opened.stack.app())
        transport = await opened.stack.transport()
        for agent in dict.fromkeys(job.agent for job in jobs):  # checked once: otherwise each line would be refused alike
            await transport.check_published(cast("str", opened.stack.app_path), agent)
        progress = _Progress(len(jobs), as_json=as_json)
        submission = Submission(opened.client, concurrency=concurrency, wait=wait, timeout_s=timeout_s, report=progress.report)
        async with progress.shown(submission, opened):
            await submission.run(jobs)
    codes = {result.code for result in progress.results}
    return next((code for code in (ExitCode.FAILED, ExitCode.UNREACHABLE, ExitCode.AWAITING) if code in codes), ExitCode.DONE)


class _Progress:
    """Results on stdout as they come; on stderr a progress bar on a terminal, else a line now and then."""

    def __init__(self, total: int, *, as_json: bool) -> None:
        self.results: list[Result] = []
        self._total = total
        self._as_json = as_json
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._over = False

    def report(self, result: Result) -> None:
        self.results.append(result)
        line = to_json(result.to_dict()) if self._as_json else _line(result)
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)  # above the bar
        else:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    @asynccontextmanager
    async def shown(self, submission: Submission, opened: Session) -> AsyncIterator[None]:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        beat = asyncio.create_task(self._beat(submission, opened))
        try:
            yield
        finally:
            self._over = True
            beat.cancel()
            await asyncio.wait({beat}, timeout=PATIENCE_S)  # a beat that hangs in a call holds nothing up
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=len(self.results), description=self._summary(submission))
                self._bar.stop()
            else:
                self._say(submission)

    async def _beat(self, submission: Submission, opened: Session) -> None:
        loop = asyncio.get_running_loop()
        said_at, said, problem = loop.time(), 0, None
        while not self._over:
            await asyncio.sleep(BEAT_S)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=len(self.results), description=self._summary(submission))
            elif loop.time() - said_at >= SAY_S and said != len(self.results):
                self._say(submission)
                said_at, said = loop.time(), len(self.results)
            problem = await self._warn(opened, problem)

    async def _warn(self, opened: Session, before: str | None) -> str | None:
        """Print the problem that keeps workers from running the app, if it is new; gives the current problem."""
        problem = before
        with contextlib.suppress(errors.StoreError):  # the submission itself meets the error too
            problem = await (await opened.stack.store()).problem(opened.stack.app_path or "")
        if problem is not None and problem != before:
            line = f"holdfast: no worker can run the app, and its conversations wait: {clean(problem)}"
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{line}\n")
        return problem

    def _say(self, submission: Submission) -> None:
        tell(f"holdfast: {len(self.results)} of {self._total} done; {self._summary(submission)}\n")

    def _summary(self, submission: Submission) -> str:
        counts = Counter(str(result.status) for result in self.results)
        counts["waited for"] = submission.waiting
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _line(result: Result) -> str:
    waiting = f"{len(result.pending)} pending" if result.pending else ""
    text = (result.reply or "") if result.status == Status.IDLE else waiting if result.error is None else result.error
    return f"{result.job.conversation_id}  {result.status}  {shorten(clean(text), TEXT_LENGTH)}".rstrip()


def _bar() -> "Progress":
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(file=sys.stderr), redirect_stdout=False, redirect_stderr=False)
