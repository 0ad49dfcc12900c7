"""What a worker's process writes, as Ray keeps it: no secrets, and no line that somebody else has written."""

import json

from holdfast.client import AsyncClient
from holdfast.testing import call


async def test_no_secret_is_in_what_the_processes_of_a_stack_write(stack, monkeypatch):
    monkeypatch.setenv("LEAKY_API_KEY", "wonder'land-key")
    monkeypatch.setenv("LEAKY_DATABASE_URL", "postgres://app:open/ses@me@db/shop")
    text = stack.scenarios.add("leaky", call("query", {}), call("query_all", {}), "done")
    async with AsyncClient.connect("leaky_app:app", timeout_s=60) as client:
        conversation = await client.start("leaky", text)
        assert (await conversation.wait(timeout_s=60)).reply == "done"
        messages = json.dumps(await conversation.messages(), ensure_ascii=False)

    logs = [
        file for file in (stack.home.runtime / "ray").rglob("*") if file.is_file() and file.suffix in {".err", ".out", ".log"}
    ]
    written = "".join(file.read_text("utf-8", "replace") for file in logs)
    assert not [word for word in ("ses@me", "land-key") if word in messages + written]
    raised = [line for line in written.splitlines() if f"tool query of {conversation.id} raised" in line]
    assert "Traceback (most recent call last)" in json.loads(raised[0])["traceback"]
    assert "UserWarning: deprecated: [LEAKY_DATABASE_URL]\\nWARNING forged" in written
    assert "\nWARNING forged" not in written
