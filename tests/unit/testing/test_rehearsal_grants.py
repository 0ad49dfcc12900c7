"""A rehearsal with grants: what one covers runs without asking, what it does not cover asks."""

import pytest

from holdfast import Agent, Approve, InvalidInput, Scope, Target, tool
from holdfast.testing import BlockingRehearsal, Rehearsal, call, calls


def touched(arguments):
    return [Target("path", arguments["path"], level="write")]


@tool(approval="required", targets=touched)
async def write(path: str, text: str = "") -> str:
    """Replace a file."""
    return f"wrote {path}"


CODER = Agent(name="coder", tools=[write])
SOURCES = Scope("path", "src/**", level="write", ends_s=3600)


def edit(*paths):
    return calls(*(call("write", {"path": path}) for path in paths))


def ran(result):
    return [run.arguments["path"] for run in result.runs]


async def test_a_decision_with_a_scope_lets_go_of_what_it_covers_and_of_nothing_else():
    asked = []

    def decide(shown):
        asked.append(shown.arguments["path"])
        return Approve(scope=SOURCES) if shown.arguments["path"] == "src/a" else None

    async with Rehearsal(CODER, model=[edit("src/a", "src/b", "lib/c")], decide=decide) as conversation:
        result = await conversation.send("Rename it.")
        assert (sorted(ran(result)), asked[0]) == (["src/a", "src/b"], "src/a")
        assert "src/b" not in asked[1:]
        (left,) = result.pending
        assert [(one.kind, one.value, one.level) for one in left.targets] == [("path", "lib/c", "write")]


async def test_a_revoked_grant_and_one_whose_time_is_over_cover_nothing():
    model = [edit("src/a"), edit("src/b"), "Done.", edit("src/c"), "Done.", edit("src/d")]
    async with Rehearsal(CODER, model=model) as conversation:
        (shown,) = (await conversation.send("Go on.")).pending
        result = await conversation.resolve(shown, Approve(scope=SOURCES))
        assert ran(result) == ["src/a", "src/b"]
        (grant,) = await conversation.grants()
        assert (grant.pattern, grant.ends_at) == ("src/**", conversation.now + 3_600_000)
        await conversation.revoke(grant.grant_id, "enough")
        assert await conversation.grants() == []
        with pytest.raises(InvalidInput, match="grant_id"):
            await conversation.revoke(grant.grant_id)
        (again,) = (await conversation.send("And on.")).pending
        await conversation.resolve(again, Approve(scope=SOURCES))
        await conversation.advance(3600)
        assert await conversation.grants() == []
        assert [one.arguments["path"] for one in (await conversation.send("Once more.")).pending] == ["src/d"]


def test_a_blocking_rehearsal_lists_and_revokes_too():
    with BlockingRehearsal(CODER, model=[edit("src/a"), "Done.", edit("src/b")]) as conversation:
        (shown,) = conversation.send("Go on.").pending
        conversation.resolve(shown, Approve(scope=SOURCES))
        (grant,) = conversation.grants()
        assert conversation.revoke(grant.grant_id).events[-1].kind == "grant_revoked"
        assert conversation.send("And on.").pending != []
        conversation.end()
        assert conversation.grants() == []
