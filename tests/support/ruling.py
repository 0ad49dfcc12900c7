"""Clients under permission rules: each publishes the app with rules of its own, as one does after an edit of their file."""

import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from stack_fixture import RunningStack

from holdfast.client import AsyncClient

APP = "ruled_app:app"


def write_rules(stack: RunningStack, **rules: Any) -> None:
    """Write the file of rules, and have the app here read it: later in other processes, now in this one."""
    (stack.runs / "rules.json").write_text(json.dumps(rules))
    importlib.reload(importlib.import_module(APP.partition(":")[0]))


@asynccontextmanager
async def under(stack: RunningStack, **rules: Any) -> AsyncIterator[AsyncClient]:
    """A client that has published the app with these rules."""
    write_rules(stack, **rules)
    async with AsyncClient.connect(APP, timeout_s=90) as client:
        await publish(client)
        yield client


async def publish(client: AsyncClient) -> None:
    """Publish the app as a client has it, as its first command would."""
    await (await client.gateway.stack.transport()).check_published(APP, "keeper")
