"""The routes of grants: list those of a conversation, and end one."""

import uuid

from holdfast.client.access import AccessScope

from .bodies import RevokeBody
from .operation import Asked, Operation
from .replies import GrantsReply, RevokedReply


async def grants(asked: Asked) -> GrantsReply:
    """The grants that stand in a conversation."""
    items = await asked.client.conversation(asked.path["conversation_id"]).grants()
    return GrantsReply.model_validate({"items": items}, from_attributes=True)


async def revoke(asked: Asked) -> RevokedReply:
    """End a grant."""
    asked.caller.check_grants()
    key, conversation = asked.key or uuid.uuid4().hex, asked.client.conversation(asked.path["conversation_id"])
    receipt = await conversation.revoke(asked.path["grant_id"], asked.body.reason, request_id=key)
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
)
"""The operations on grants."""
