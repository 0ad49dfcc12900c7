"""The routes of grants: list those of a conversation, end one; list what somebody has given everywhere, and end that."""

import uuid

from holdfast.client.access import AccessScope
from holdfast.client.replies import ConversationGivenReply, GrantsReply, RevokedReply
from holdfast.client.results import Page

from .bodies import GivenQuery, RevokeBody, RevokeGivenBody
from .operation import Asked, Operation


async def grants(asked: Asked) -> GrantsReply:
    """The grants that stand in a conversation."""
    asked.caller.check_grants()
    items = await asked.client.conversation(asked.path["conversation_id"]).grants()
    return GrantsReply.model_validate({"items": items}, from_attributes=True)


async def revoke(asked: Asked) -> RevokedReply:
    """End a grant."""
    asked.caller.check_grants()
    key, conversation = asked.key or uuid.uuid4().hex, asked.client.conversation(asked.path["conversation_id"])
    receipt = await conversation.revoke(asked.path["grant_id"], asked.body.reason, request_id=key)
    return RevokedReply(**receipt.model_dump(), request_id=key)


async def given(asked: Asked) -> Page[ConversationGivenReply]:
    """A page of what principals have given, of all agents."""
    asked.caller.check_agent(None)
    query = asked.query
    page = await asked.client.given(query.by, proof=query.proof, limit=query.limit, after=query.after)
    return Page[ConversationGivenReply].model_validate(page, from_attributes=True)


async def revoke_given(asked: Asked) -> RevokedReply:
    """End what a principal has given in a conversation."""
    key, conversation = asked.key or uuid.uuid4().hex, asked.client.conversation(asked.path["conversation_id"])
    receipt = await conversation.revoke_given(asked.body.by, asked.body.reason, proof=asked.body.proof, request_id=key)
    return RevokedReply(**receipt.model_dump(), request_id=key)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/conversations/{conversation_id}/grants",
        "listGrants",
        "The grants that stand in a conversation: what runs there without asking.",
        grants,
        reply=GrantsReply,
        scope=AccessScope.READ,
    ),
    Operation(
        "DELETE",
        "/v1/conversations/{conversation_id}/grants/{grant_id}",
        "revokeGrant",
        "End a grant: nothing begins by it any more. The body is optional.",
        revoke,
        reply=RevokedReply,
        body=RevokeBody,
        key="request_id",
        scope=AccessScope.DECIDE,
    ),
    Operation(
        "GET",
        "/v1/given",
        "listGiven",
        "A page of the grants and votes that stand, by conversation. Items may be fewer than the limit though a page follows.",
        given,
        reply=Page[ConversationGivenReply],
        query=GivenQuery,
        scope=AccessScope.READ,
    ),
    Operation(
        "POST",
        "/v1/conversations/{conversation_id}/revoke-given",
        "revokeGiven",
        "End what a principal has given: its grants, and its votes in calls that wait.",
        revoke_given,
        reply=RevokedReply,
        body=RevokeGivenBody,
        key="request_id",
        scope=AccessScope.DECIDE,
    ),
)
"""The operations on grants."""
