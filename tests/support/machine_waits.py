"""Calls that wait for a machine, as no tool makes them yet."""

from writer import Writer

from holdfast.conversation import AgentSpec, State, SuspensionKind, Wake
from holdfast.conversation.judging.judgement import Judgement
from holdfast.conversation.judging.progress import Draft, suspend


def machine_wait(state: State, spec: AgentSpec, tool_call_id: str, source: str, *, now: int, salt: str = "") -> Judgement:
    """The events with which a call that runs waits for a machine instead."""
    call = state.calls.of(tool_call_id)
    assert call is not None
    draft = Draft(state, Wake().stamped(now, spec, {}, salt=salt))
    suspend(draft, call, SuspensionKind.DELEGATE, source=source)
    return draft.done()


async def await_machine(writer: Writer, tool_call_id: str, source: str) -> None:
    """As `machine_wait`, by a writer in its store."""
    judged = machine_wait(writer.state, writer.spec, tool_call_id, source, now=await writer.store.now())
    assert judged.state is not None
    await writer.store.append(writer.conversation_id, writer.write(judged.events, judged.state))
    writer.adopt(judged.events, judged.state)
