"""The blocking face of a rehearsal, for tests that are plain functions."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack, cast

from holdfast.agent import Agent
from holdfast.client.audit import AuditReport, Kept
from holdfast.client.results import AsyncPendingCall, BlockingPendingCall, PendingCall
from holdfast.conversation import Decision, Grant, Principal, Proof, Receipt

from .rehearsal import Rehearsal, RehearsalArguments, RunArguments, run
from .rehearsal_result import RehearsalResult

_T = TypeVar("_T")


class BlockingRehearsal:
    """One conversation with one agent, in this process: a context manager with an event loop of its own.

    It has the arguments of `Rehearsal`, and the same methods without `await`; each raises the errors of its counterpart.

    Raises:
        RuntimeError: An event loop runs here already; use `async with Rehearsal(...)`.
        ConfigurationError: See `Rehearsal`.
    """

    def __init__(self, agent: Agent, **arguments: Unpack[RehearsalArguments]) -> None:
        _check_no_loop("async with Rehearsal(...)")
        self._rehearsal = Rehearsal(agent, **arguments)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        try:
            self._run(self._rehearsal.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._rehearsal.id

    @property
    def now(self) -> int:
        """See `Rehearsal.now`."""
        return self._rehearsal.now

    def acting_as(self, principal: Principal) -> Self:
        """See `Rehearsal.acting_as`."""
        acting = copy.copy(self)
        acting._rehearsal = self._rehearsal.acting_as(principal)  # noqa: SLF001 - this class's own
        return acting

    def send(self, text: str, *, message_id: str | None = None) -> RehearsalResult[Receipt]:
        """See `Rehearsal.send`."""
        return self._shown(self._rehearsal.send(text, message_id=message_id))

    def post(self, text: str, *, message_id: str | None = None) -> Receipt:
        """See `Rehearsal.post`."""
        return self._run(self._rehearsal.post(text, message_id=message_id))

    def resolve(
        self, call: BlockingPendingCall | str, decision: Decision, *, decision_id: str | None = None
    ) -> RehearsalResult[Receipt]:
        """See `Rehearsal.resolve`."""
        shown = cast("AsyncPendingCall | str", call)  # decided as whoever acts here, not as who was shown it
        return self._shown(self._rehearsal.resolve(shown, decision, decision_id=decision_id))

    def advance(self, seconds: float) -> RehearsalResult[Receipt]:
        """See `Rehearsal.advance`."""
        return self._shown(self._rehearsal.advance(seconds))

    def rest(self) -> RehearsalResult[Receipt]:
        """See `Rehearsal.rest`."""
        return self._shown(self._rehearsal.rest())

    def cancel(self) -> RehearsalResult[Receipt]:
        """See `Rehearsal.cancel`."""
        return self._shown(self._rehearsal.cancel())

    def grants(self) -> list[Grant]:
        """See `Rehearsal.grants`."""
        return self._run(self._rehearsal.grants())

    def audit(self, *, receipts: Sequence[Kept] | Kept = ()) -> AuditReport:
        """See `Rehearsal.audit`."""
        return self._run(self._rehearsal.audit(receipts=receipts))

    def revoke_given(self, by: str, reason: str = "", *, proof: Proof | None = None) -> RehearsalResult[Receipt]:
        """See `Rehearsal.revoke_given`."""
        return self._shown(self._rehearsal.revoke_given(by, reason, proof=proof))

    def revoke(self, grant_id: str, reason: str = "") -> RehearsalResult[Receipt]:
        """See `Rehearsal.revoke`."""
        return self._shown(self._rehearsal.revoke(grant_id, reason))

    def end(self) -> RehearsalResult[Receipt]:
        """See `Rehearsal.end`."""
        return self._shown(self._rehearsal.end())

    def result(self) -> RehearsalResult[Receipt]:
        """See `Rehearsal.result`."""
        return self._shown(self._rehearsal.result())

    def close(self) -> None:
        """See `Rehearsal.close`; the event loop is closed too."""
        try:
            self._run(self._rehearsal.close())
        finally:
            self._runner.close()

    def _shown(self, work: Coroutine[Any, Any, RehearsalResult[Awaitable[Receipt]]]) -> RehearsalResult[Receipt]:
        return _blocking(self._run(work), self._run)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(work)


def run_sync(agent: Agent, *texts: str, **arguments: Unpack[RunArguments]) -> RehearsalResult[Receipt]:
    """The blocking face of `run`, with the same arguments, for tests that are plain functions.

    Raises:
        RuntimeError: An event loop runs here already; await `run` there.
        Exception: See `run`.
    """
    _check_no_loop("await run(...)")
    return _blocking(asyncio.run(run(agent, *texts, **arguments)), asyncio.run)


def _blocking(result: RehearsalResult[Awaitable[Receipt]], runner: Callable[[Any], Any]) -> RehearsalResult[Receipt]:
    """The result with pending calls whose `resolve` blocks."""

    def bound(call: AsyncPendingCall) -> Any:
        return PendingCall.of(call, lambda *args, **kwargs: runner(call._resolve(*args, **kwargs)))  # noqa: SLF001 - rebound

    state = result.state.model_copy(update={"pending": [bound(call) for call in result.pending]})
    return cast("RehearsalResult[Receipt]", replace(result, state=state))


def _check_no_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    message = f"this is the blocking face, and an event loop runs here: write `{instead}`"
    raise RuntimeError(message)
