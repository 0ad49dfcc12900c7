"""The blocking face of a rehearsal, for tests that are plain functions."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack, cast

from holdfast.agent import Agent
from holdfast.client.blocking import blocking, showing
from holdfast.client.results import AsyncPendingCall, PendingCall
from holdfast.conversation import Principal, Receipt
from holdfast.conversation.terms.parts import GivenContent

from .rehearsal import Rehearsal, RehearsalArguments, RunArguments, run
from .rehearsal_result import RehearsalResult

_T = TypeVar("_T")


def _bound(result: RehearsalResult[Awaitable[Receipt]], runner: Callable[[Any], Any]) -> RehearsalResult[Receipt]:

    def bound(call: AsyncPendingCall) -> Any:
        return PendingCall.of(call, lambda *args, **kwargs: runner(call._resolve(*args, **kwargs)))  # noqa: SLF001 - rebound

    state = result.state.model_copy(update={"pending": [bound(call) for call in result.state.pending]})
    children = [_bound(child, runner) for child in result.children]
    return replace(cast("RehearsalResult[Receipt]", result), state=cast("Any", state), children=children)


def _shown(face: "BlockingRehearsal", result: RehearsalResult[Awaitable[Receipt]]) -> RehearsalResult[Receipt]:
    return _bound(result, face._run)  # noqa: SLF001 - the same module's own


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

    def child(self, conversation_id: str) -> Self:
        """See `Rehearsal.child`."""
        child = copy.copy(self)
        child._rehearsal = self._rehearsal.child(conversation_id)  # noqa: SLF001 - this class's own
        return child

    send = showing(Rehearsal.send, _shown)
    resolve = showing(Rehearsal.resolve, _shown)
    revoke = showing(Rehearsal.revoke, _shown)
    revoke_given = showing(Rehearsal.revoke_given, _shown)
    end = showing(Rehearsal.end, _shown)
    interrupt = showing(Rehearsal.interrupt, _shown)
    withdraw = showing(Rehearsal.withdraw, _shown)
    reschedule = showing(Rehearsal.reschedule, _shown)
    compact = showing(Rehearsal.compact, _shown)
    summary = blocking(Rehearsal.summary)
    cancel = showing(Rehearsal.cancel, _shown)
    cancel_pending = showing(Rehearsal.cancel_pending, _shown)
    give_back = showing(Rehearsal.give_back, _shown)
    advance = showing(Rehearsal.advance, _shown)
    rest = showing(Rehearsal.rest, _shown)
    result = showing(Rehearsal.result, _shown)
    post = blocking(Rehearsal.post)
    queue = blocking(Rehearsal.queue)
    context = blocking(Rehearsal.context)
    usage = blocking(Rehearsal.usage)
    claim = blocking(Rehearsal.claim)
    grants = blocking(Rehearsal.grants)
    audit = blocking(Rehearsal.audit)

    def close(self) -> None:
        """See `Rehearsal.close`; the event loop is closed too."""
        try:
            self._run(self._rehearsal.close())
        finally:
            self._runner.close()

    def _async(self) -> Rehearsal:
        return self._rehearsal

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(work)


def run_sync(agent: Agent, *texts: GivenContent, **arguments: Unpack[RunArguments]) -> RehearsalResult[Receipt]:
    """The blocking form of `run`, with the same arguments and errors, for tests that are plain functions.

    Raises:
        RuntimeError: An event loop runs here already; await `run` there.
    """
    _check_no_loop("await run(...)")
    return _bound(asyncio.run(run(agent, *texts, **arguments)), asyncio.run)


def _check_no_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    message = f"this is the blocking face, and an event loop runs here: write `{instead}`"
    raise RuntimeError(message)
