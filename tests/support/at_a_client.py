"""Conversations whose call waits for a client, and what is asked of them."""

from holdfast.conversation import OnDetach, Present, Principal, Proof
from holdfast.conversation.terms.presence import GONE_MS

ANA = Principal("ana", proof=Proof.KEY)
LEE = Principal("lee", proof=Proof.KEY)
GRACE_MS, TIMEOUT_MS = 5_000, 60_000


def the_call(conversation):
    [call] = conversation.state.calls
    return call


def here(conversation, client_id="tab-1", principal=None, *, tools=("locate",), until=None, on_detach=OnDetach.KEEP):
    """A client that renewed its presence just now."""
    until = conversation.now + GONE_MS if until is None else until
    return Present(client_id=client_id, principal=principal, tools=tools, until=until, on_detach=on_detach)


def told(judgement):
    return [event.kind for event in judgement.events]


def error_of(conversation):
    return conversation.result(the_call(conversation).tool_call_id)["error"]


def on_lost(conversations, rule, **more):
    """A conversation whose only call waits for a client, of a tool with this `on_lost`."""
    spec = conversations.desk_with(locate={"on_lost": rule, **more})
    conversation = conversations(spec=spec).begun()
    conversation.call("locate")
    conversation.present = ()
    return conversation
