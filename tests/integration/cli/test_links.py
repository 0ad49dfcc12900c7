"""A link from the command line to the audit of a real stack, whose actors accept no proof that nobody has signed."""

import asyncio
import json
import re

import httpx

from holdfast.client import AsyncClient
from holdfast.server import create_app
from holdfast.testing import call

HERE = "http://127.0.0.1:8484"
KEYS = f"k1:{'ab' * 32}"


def test_a_link_decides_a_call_as_a_proven_principal(cli, inside, monkeypatch):
    cli.scenario("linked", call("refund", {"order": "A1", "amount": 42}), "Done.")
    path = cli.file({"agent": "support", "messages": ["linked"], "conversation_id": "linked-1"}, name="linked.jsonl")
    cli("submit", path, code=5)
    suspension_id = cli.pending("linked-1")["refund"]["suspension_id"]
    refused = inside("link", suspension_id, "--to", "kim", code=2)
    assert "HOLDFAST_LINK_KEYS" in refused.err
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", KEYS)
    said = inside("link", suspension_id[:10], "--to", "kim", "--role", "finance", "--for", "1h", "--decisions", "approve, deny")
    url = said.out.strip()
    assert url.startswith(f"{HERE}/r/k1.")

    async def pressed():
        async with AsyncClient.connect(home=cli.stack.home.path) as client:
            transport = httpx.ASGITransport(create_app(client))
            async with httpx.AsyncClient(transport=transport, base_url=HERE) as browser:
                page = (await browser.get(url)).text
                form = re.search(r'name="form" value="([^"]+)"', page)[1]
                data = {"form": form, "decision": "approve", "note": "seen"}
                return [
                    (await browser.post(url, data=data | more, headers={"Origin": HERE})).status_code
                    for more in ({}, {}, {"decision": "deny", "reason": "no"})
                ]

    assert asyncio.run(pressed()) == [200, 200, 410]
    lines = [json.loads(line) for line in inside("audit", "linked-1", "--jsonl").out.splitlines()]
    (entry,) = [line for line in lines if line.get("kind") == "suspension_settled"]
    assert (entry["principal_id"], entry["roles"], entry["proof"], entry["settled_by"]) == (
        "kim",
        ["finance"],
        "link",
        "approve",
    )
    assert cli.rested("linked-1").reply == "Done."
