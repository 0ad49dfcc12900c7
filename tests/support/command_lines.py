"""What a command line decides, without a stack."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

from holdfast.cli import app, session


def decision_of(monkeypatch, *words):
    """The decision that a command line would send; its exit code where it sends none."""
    found = []

    async def settle(_suspension, decision, **_):
        found.append(decision)
        raise KeyboardInterrupt

    async def find(suspension_id, **_):
        return SimpleNamespace(suspension_id=suspension_id)

    @asynccontextmanager
    async def reached(_):
        yield SimpleNamespace(client=SimpleNamespace(resolve=settle, pending_call=find))

    monkeypatch.setattr(session, "reached", reached)
    try:
        code = app.run(words)
    except KeyboardInterrupt:
        code = None
    return found[0] if found else code
