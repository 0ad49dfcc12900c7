"""Links over real HTTP: made and redeemed by a client, opened and used by a browser without scripts."""

import httpx
import pytest
from page_forms import fields
from waiting_calls import settled, waiting

from holdfast.client import Approve, Client, Deny, InvalidLink, Principal, Proof, Review


@pytest.fixture
def client(server):
    keys = {"link_keys": {"k1": b"1" * 32}, "public_url": server.url}
    server.stack.settings = server.stack.settings.model_copy(update=keys)
    with Client.connect(url=server.url) as opened:
        yield opened


def test_a_client_makes_and_redeems_a_link(server, client):
    suspension_id = waiting(server, "redeemed")
    link = client.link(suspension_id, to=Principal("ana", roles=["finance"]), decisions=["approve", "deny"], expires_s=60)

    receipt = client.redeem(link.token, Approve(reason="seen"))

    assert client.redeem(link.token, Approve(reason="seen")) == receipt.model_copy(update={"duplicate": True})
    assert settled(server, "redeemed").principal == Principal("ana", roles=["finance"], proof=Proof.LINK)
    with pytest.raises(InvalidLink) as refused:
        client.redeem(link.token, Deny("no"))
    assert refused.value.reason == "used"


def test_what_a_link_cannot_do_is_said_over_http_as_at_the_stack(server, client):
    link = client.link(client.pending_call(waiting(server, "narrow")), to=Principal("ana"), decisions=["deny"])
    for token, decision, reason in (
        (link.token, Approve(), "not_permitted"),
        (f"{link.token[:-2]}{'AA' if link.token[-2:] != 'AA' else 'BB'}", Deny("no"), "malformed"),
        (f"k9{link.token[2:]}", Deny("no"), "key"),
        ("no link", Deny("no"), "malformed"),
    ):
        with pytest.raises(InvalidLink) as refused:
            client.redeem(token, decision)
        assert refused.value.reason == reason
    with pytest.raises(InvalidLink, match="not_permitted"):
        client.redeem(link.token, Review("allow"))
    assert client.pending_call(client.conversation("narrow").pending()[0].suspension_id).tool == "refund"


def test_a_person_opens_a_link_and_presses_a_button(server, client):
    link = client.link(waiting(server, "pressed", "review"), to=Principal("ana"))
    with httpx.Client() as browser:
        page = browser.get(link.url)
        assert (page.status_code, "verdict" in page.text) == (200, True)
        form = fields(page.text) | {"verdict": "allow", "reason": "fine"}
        done = browser.post(link.url, data=form, headers={"Origin": server.url, "Sec-Fetch-Site": "same-origin"})
        again = browser.get(link.url)
    assert (done.status_code, "recorded: allowed" in done.text) == (200, True)
    assert (again.status_code, "recorded: allowed" in again.text) == (410, True)
    assert settled(server, "pressed").principal == Principal("ana", proof=Proof.LINK)
