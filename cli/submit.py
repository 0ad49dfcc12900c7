"""`holdfast submit`: run the conversations of a file."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.conversation import Status
from holdfast.errors import InvalidInput, StoreError

from . import job_file
from .display import clean, shorten, to_json
from .errors import ExitCode
from .options import AsJson, Where
from .session import Session, session
from .submission import Result, Submission

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

CONCURRENCY = 16
COMMAND_TIMEOUT_S = 300.0
"""The most seconds of a start or a message: sixteen at once may each wait for a new actor."""
BEAT_S = 0.5
PATIENCE_S = 2.0
SAY_S = 10.0
TEXT_LENGTH = 120


def run(
    where: Where,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One JSON object a line.")],
    *,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="How many conversations go on at once.")] = CONCURRENCY,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for conversations that await somebody.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="End after this time, also if work goes on.")] = None,
    as_json: AsJson = False,
) -> int:
    """Run the conversations of a file: one JSON object a line, with `agent` and `messages` (the user's texts, in order).

    Optional keys are `conversation_id`, `context` and `attended` (false: nobody is there to ask). Without an id, one is
    derived from the file's content and the line, so that a second run of the same file goes on where the first one stopped. A
    conversation that awaits somebody is reported as awaiting_input; once it is answered, a second run of the file sends its
    remaining messages.

    A line without an acknowledgement is sent again with the same ids, and then reported as unknown; the other lines go on.

    Exit code: 0 if all are idle, 1 if some failed, else 4 if some are unknown, else 5 (some await somebody, or are unfinished).
    """
    if timeout is not None and not timeout > 0:
        raise InvalidInput("--timeout", f"{timeout:g} is no time", "give seconds, more than 0")
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
        """Show the progress of a submission until the block ends."""
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
        with contextlib.suppress(StoreError):  # the submission itself meets the error too
            problem = await (await opened.stack.store()).problem(opened.stack.app_path or "")
        if problem is not None and problem != before:
            line = f"holdfast: no worker can run the app, and its conversations wait: {clean(problem)}"
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{line}\n")
        return problem

    def _say(self, submission: Submission) -> None:
        sys.stderr.write(f"holdfast: {len(self.results)} of {self._total} done; {self._summary(submission)}\n")
        sys.stderr.flush()

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
