"""Conversations that delegate to each other, each driven by a writer: as a courier would start a child, without one."""

from typing import Any

from writer import DESK, Writer, begin, call

from holdfast.conversation import AgentSpec, Executor, Start, ToolSpec
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.persistence import Store


def asking(name: str, *agents: str) -> AgentSpec:
    """An agent with the desk's tools, which may delegate to these agents by tools of their names."""
    tools = [ToolSpec(name=agent, executor=Executor.AGENT, agent=agent, max_depth=8) for agent in agents]
    return DESK.model_copy(update={"name": name, "tools": (*DESK.tools[:-1], *tools)})


async def begun(store: Store, name: str, spec: AgentSpec, *, text: str = "hello", parent: Parent | None = None) -> Writer:
    """A conversation with that agent, whose first turn has begun."""
    writer = await Writer.of(store, name)
    writer.spec = spec
    await writer.do(
        lambda _: Start(agent=spec.name, app="shop:app", text=text, message_id="m-1", spec=spec, parent=parent), begin()
    )
    return writer


async def delegated(parent: Writer, *agents: str, now: int | None = None) -> list[Any]:
    """The suspensions of one answer of the parent, at that time (ms UTC), that delegates to these agents."""
    await parent.do(call(*((agent, '{"task":"look into it"}') for agent in agents)), now=now)
    waits = [one.suspension for one in parent.state.calls if one.suspension is not None and one.suspension.source]
    return waits[-len(agents) :]


async def three_levels(store: Store, *below: str) -> tuple[Writer, Writer, Writer]:
    """Conversations of `root`, `middle` below it, which waits for a person, too, and `clerk` below that, with these calls.

    The root has also asked `other`, which has not begun.
    """
    root = await begun(store, "root", asking("root", "middle", "other"))
    first, _ = await delegated(root, "middle", "other")
    middle = await child_of(root, first, asking("middle", "clerk"))
    await middle.do(call("refund", ("clerk", '{"task":"look into it"}')))
    clerk = await child_of(middle, wait_for(middle, "clerk"), DESK.model_copy(update={"name": "clerk"}))
    await clerk.do(call(*below))
    return root, middle, clerk


def wait_for(parent: Writer, agent: str) -> Any:
    """The suspension of the parent's call for an agent."""
    return next(one.suspension for one in parent.state.calls if one.tool == agent)


async def child_of(parent: Writer, wait: Any, spec: AgentSpec, *, depth: int = 8) -> Writer:
    """The child that a wait of the parent is for, begun."""
    above = () if parent.state.parent is None else parent.state.parent.path
    path = (*above, Ancestor(conversation_id=parent.conversation_id, agent=parent.state.agent))
    about = Parent(suspension_id=wait.suspension_id, path=path, depth=depth, descendants=50, must_end_by=wait.expires_at)
    return await begun(parent.store, wait.source, spec, text="look into it", parent=about)
