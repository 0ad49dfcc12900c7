"""A message with links on the real thing: its links decide, once, and no process that runs tools has the keys."""

import asyncio
import email
import email.policy
import json
import os
import re
import signal

import httpx
import pytest
from ray.exceptions import RayError
from receivers import OK, Mailbox, Receiver, running, says, serving, smtp, trusted
from stack_fixture import client_of, pid_of

from holdfast.actors.ray_launcher import find
from holdfast.cli.check import Outcome
from holdfast.cli.ray_checks import _links
from holdfast.client import Proof
from holdfast.server import create_app
from holdfast.testing import call

HERE = "http://localhost:8484"
KEYS = f"k1:{'ab' * 32}"
WITHIN_S = 90

pytestmark = pytest.mark.gate


@pytest.fixture
async def channel(stack, monkeypatch):
    del stack
    async with Receiver(says(OK)) as started:
        monkeypatch.setenv("CHANNEL_URL", started.url)
        yield started


async def messages(channel, count):
    """The texts of the channel, once it has so many."""
    async with asyncio.timeout(WITHIN_S):
        while len(channel.requests) < count:
            await asyncio.sleep(0.05)
    return [json.loads(one.split(b"\r\n\r\n", 1)[1])["text"] for one in channel.requests]


async def followed(client, url, *presses):
    """The statuses of a page and of the presses of its buttons."""
    transport = httpx.ASGITransport(create_app(client))
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as browser:
        page = await browser.get(url)
        form = re.search(r'name="form" value="([^"]+)"', page.text)
        data = {"form": form[1] if form else ""}
        return [page.status_code] + [
            (await browser.post(url, data=data | one, headers={"Origin": HERE})).status_code for one in presses
        ]


async def test_a_link_in_a_message_decides_as_its_decider_and_no_worker_has_the_keys(stack, channel, monkeypatch):
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", KEYS)
    monkeypatch.setenv("HOLDFAST_PUBLIC_URL", HERE)
    text = stack.scenarios.add("linked-1", call("refund", {"order": "L-1"}), "Done.")
    async with client_of("channel-1", "channel_app:app", timeout_s=WITHIN_S) as client:
        conversation = await client.start("desk", text, conversation_id="linked-1")
        (said,) = await messages(channel, 1)
        links = dict(reversed(one) for one in re.findall(r"<([^|>]+)\|(\w+)>", said))
        assert list(links) == ["Approve", "Deny"]
        assert all(url.startswith(f"{HERE}/r/k1.") for url in links.values())
        approve, deny = {"decision": "approve", "note": ""}, {"decision": "deny", "reason": "no"}
        assert await followed(client, links["Approve"], deny, approve, approve) == [200, 403, 200, 200]
        assert await followed(client, links["Deny"], deny) == [410, 403]
        assert (await conversation.wait(timeout_s=WITHIN_S)).reply == "Done."
        (entry,) = [one for one in (await conversation.audit()).entries if one.kind == "suspension_settled"]
        assert (entry.principal_id, entry.roles, entry.proof) == ("finance-channel", ("finance",), Proof.LINK)
        _, settled = await messages(channel, 2)
        assert "|Approve>" not in settled
    assert (stack.runs / "L-1.links").read_text().split() == ["approve", "deny"]
    assert (stack.runs / "L-1.environment").read_text().split() == ["False", "False"]


async def test_a_link_in_a_mail_decides_as_whose_mailbox_it_is(stack, channel, monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", KEYS)
    monkeypatch.setenv("HOLDFAST_PUBLIC_URL", HERE)
    text = stack.scenarios.add("linked-5", call("refund", {"order": "L-5"}), "Done.")
    box = Mailbox()
    with trusted(monkeypatch, tmp_path) as authority:
        async with running(smtp(box, tls_context=serving(authority))) as port:
            monkeypatch.setenv("MAIL_PORT", str(port))
            async with client_of("channel-5", "channel_app:app", timeout_s=WITHIN_S) as client:
                conversation = await client.start("mailer", text, conversation_id="linked-5")
                async with asyncio.timeout(WITHIN_S):
                    while not box.mails:
                        await asyncio.sleep(0.05)
                mail = email.message_from_bytes(box.mails[0][-1], policy=email.policy.default)
                links = dict(re.findall(r"^(Approve|Deny): (\S+)", mail.get_content(), re.MULTILINE))
                assert list(links) == ["Approve", "Deny"]
                assert await followed(client, links["Deny"], {"decision": "deny", "reason": "not due"}) == [200, 200]
                await conversation.wait(timeout_s=WITHIN_S)
                (entry,) = [one for one in (await conversation.audit()).entries if one.kind == "suspension_settled"]
                assert (entry.principal_id, entry.proof, entry.settled_by) == ("ana@shop.example", Proof.LINK, "deny")


async def test_a_sweeper_that_was_restarted_is_lent_the_keys_again(stack, channel, monkeypatch):
    monkeypatch.setenv("HOLDFAST_LINK_KEYS", KEYS)
    monkeypatch.setenv("HOLDFAST_PUBLIC_URL", HERE)
    text = stack.scenarios.add("linked-3", call("refund", {"order": "L-3"}), "Done.")
    async with client_of("channel-3", "channel_app:app", timeout_s=WITHIN_S) as client:
        settings = (await client.gateway.stack.transport()).settings
        await client.start("desk", text, conversation_id="linked-3")
        (said,) = await messages(channel, 1)
        assert "|Approve>" in said
        sweeper = find(settings.sweeper_name)
        pid = await pid_of(sweeper)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(WITHIN_S):
            while await _asked(pid_of(sweeper)) in (None, pid) or await _asked(sweeper.signs.remote()) != HERE:
                await asyncio.sleep(0.1)
        (check,) = await _links(settings)
        assert (check.status, HERE in check.said) == (Outcome.OK, True)
        await client.start("desk", text, conversation_id="linked-4")
        assert "|Approve>" in (await messages(channel, 2))[1]


async def _asked(answer):
    """The answer of an actor; None while it is down."""
    try:
        return await answer
    except RayError:
        return None


async def test_without_keys_messages_arrive_without_links(stack, channel, monkeypatch):
    monkeypatch.delenv("HOLDFAST_LINK_KEYS", raising=False)
    text = stack.scenarios.add("linked-2", call("refund", {"order": "L-2"}), "Done.")
    async with client_of("channel-2", "channel_app:app", timeout_s=WITHIN_S) as client:
        conversation = await client.start("desk", text, conversation_id="linked-2")
        (said,) = await messages(channel, 1)
        assert said.startswith("*desk: refund waits for an approval*")
        assert "/r/" not in said
        assert len((await conversation.wait()).pending) == 1
        (check,) = await _links((await client.gateway.stack.transport()).settings)
        assert (check.status, "HOLDFAST_LINK_KEYS" in check.fix) == (Outcome.WARN, True)
    assert (stack.runs / "L-2.links").read_text() == "none\n"
