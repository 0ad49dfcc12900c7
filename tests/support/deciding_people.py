"""Calls that several people decide, and a server behind a proxy that says who each of them is, for tests in a browser."""

import contextlib
import ipaddress

from served import served
from waiting_calls import APP
from writer import Writer, begin, call, start

from holdfast.client import Principal, Proof
from holdfast.conversation import Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import AccessScope
from holdfast.server import Authentication, Proxy

BOTH = Approvers("role:finance", minimum=2, not_requester=True)
"""Two people of finance, and not who asked."""
ANA = Principal("ana", roles=["finance"], proof=Proof.PROXY)
SCOPES = (AccessScope.READ, AccessScope.START, AccessScope.DECIDE)


@contextlib.contextmanager
def behind_a_proxy(**how):
    """A server that takes the word of whoever sends a request for who it is."""
    peers = (ipaddress.ip_network("127.0.0.0/8"),)
    proxy = Proxy(peers=peers, user_header="X-User", roles_header="X-Groups", scopes=SCOPES)
    with served(authentication=Authentication(proxy=proxy), **how) as running:
        running.stack._app = APP
        yield running


async def signed_in(page, name, role="finance"):
    """The page, whose browser sends who its user is, as a proxy would."""
    await page.set_extra_http_headers({"X-User": name, "X-Groups": role})
    return page


def for_two(server, name, *, arguments='{"order":"A1042"}', prompt=None, calls=1, now=None):
    """The writer of a conversation of Ana's with calls that two people decide."""
    called = {"name": "refund", "arguments": arguments, "approvers": BOTH.terms, "prompt": prompt}
    asked = [ProposedCall(tool_call_id=f"call_{number}", **called) for number in range(calls)]

    async def written():
        writer = server.stack.writers[name] = await Writer.of(server.store, name)
        await writer.do(start("The mug arrived broken.", principal=ANA), begin(), call(*asked), now=now)
        return writer

    return server.run(written())
