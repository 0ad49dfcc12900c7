"""The state of a conversation, read from the store: as it is, or once the conversation rests."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.conversation import Receipt, State, Status, evolve
from holdfast.conversation.records.events import ModelAnswered, TurnCompleted, TurnFailed
from holdfast.persistence import Conversations, Quarantine, Store

from .connection import Connection
from .results import ConversationState, PendingCall
from .running import late_results, problem_of, running_calls
from .stack_events import BLOCK_MS, news


async def resting(
    connection: Connection,
    resolve: Callable[..., Awaitable[Receipt]],
    *,
    conversation_id: str,
    after: int | None,
    timeout_s: float | None,
) -> ConversationState[Awaitable[Receipt]]:
    """See `AsyncConversation.wait`."""
    loop = asyncio.get_running_loop()
    give_up = None if timeout_s is None else loop.time() + timeout_s

    async def found(store: Conversations) -> tuple[State, Quarantine | None]:
        return await asyncio.gather(store.load(conversation_id), store.quarantine(conversation_id))  # in one round trip

    state, quarantine = await connection.read(found)
    while quarantine is None and not _rests(state, after):
        left_ms = BLOCK_MS if give_up is None else min(BLOCK_MS, int((give_up - loop.time()) * 1000))
        if left_ms <= 0:
            break
        for _, event in await news(connection, conversation_id, state.seq, left_ms):
            state = evolve(state, event)
        if not _rests(state, after):
            quarantine = await connection.read(lambda store: store.quarantine(conversation_id))
    return await connection.read(lambda store: shown(store, state, resolve))


async def shown(
    store: Store, state: State, resolve: Callable[..., Awaitable[Receipt]]
) -> ConversationState[Awaitable[Receipt]]:
    """A state as a client shows it; `resolve` decides its pending calls."""
    name, last, reply, end = state.conversation_id, state.last, None, None
    seqs = [] if last is None else [last.reply_seq or last.seq, last.seq]
    quarantine, entries, late, problem = await asyncio.gather(  # in one round trip
        store.quarantine(name), store.at(name, seqs), late_results(store, name), problem_of(store, state.app)
    )
    if entries:
        answer, end = entries
        reply = answer.content if isinstance(answer, ModelAnswered) else None
    error = end.error if isinstance(end, TurnFailed) else None
    views = await store.pending_of(name) if any(call.suspension is not None for call in state.calls) else []
    turn_id = state.turn.turn_id if state.turn is not None else (last.turn_id if last is not None else None)
    return ConversationState(
        conversation_id=name,
        status=state.status if quarantine is None else Status.QUARANTINED,
        turn_id=turn_id,
        reply=reply,
        error=error if quarantine is None else quarantine.reason,
        pending=[PendingCall.of(view, resolve) for view in views],
        running=await running_calls(store, state),
        seq=state.seq,
        stopped=end.stopped if isinstance(end, TurnCompleted) else None,
        failed=end.reason if isinstance(end, TurnFailed) else None,
        agent=state.agent,
        app=state.app,
        created_at=state.created_at,
        updated_at=state.updated_at,
        problem=problem,
        late=late,
        attended=state.attended,
    )


def _rests(state: State, after: int | None) -> bool:
    """Whether the conversation rests, beyond the place `after` in its log."""
    return state.resting and (after is None or state.seq > after or state.ended)
