"""The spec that a conversation's commands are judged with."""

from holdfast.actors.spec_cache import SpecCache
from holdfast.conversation import AgentSpec, State
from holdfast.persistence import Directory


async def spec_of(store: Directory, state: State, specs: SpecCache) -> AgentSpec | None:
    """The stored spec of the turn that goes on, else the spec that a next turn would begin with; None if none is stored.

    Raises:
        StoreError: The store does not answer, or holds something that cannot be read.
    """
    turn = state.turn
    if turn is None or not turn.spec_digest:
        record = await store.app(state.app) if state.app else None
        digest = record.agents.get(state.agent) if record is not None else None
    else:
        digest = turn.spec_digest
    return await specs.find(store, digest) if digest else None
