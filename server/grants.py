"""The routes of grants: list and end those of a conversation; list and end what a principal has given everywhere."""

from holdfast.client import verbs
from holdfast.client.replies import ConversationGivenReply, GrantsReply, RevokedReply
from holdfast.client.results import Page

from .bodies import GivenQuery, RevokeBody, RevokeGivenBody
from .operation import Asked, of


def _check(asked: Asked) -> None:
    asked.caller.check_grants()


OPERATIONS = (
    of(
        verbs.GRANTS,
        "The grants that stand in a conversation: what runs there without asking.",
        check=_check,
        reply=GrantsReply,
    ),
    of(
        verbs.REVOKE,
        "End a grant: nothing begins by it any more. The body is optional.",
        check=_check,
        reply=RevokedReply,
        body=RevokeBody,
    ),
    of(
        verbs.GIVEN,
        "A page of the grants and votes that stand, by conversation. Items may be fewer than the limit though a page follows.",
        check=lambda asked: asked.caller.check_agent(None),
        reply=Page[ConversationGivenReply],
        query=GivenQuery,
    ),
    of(
        verbs.REVOKE_GIVEN,
        "End what a principal has given: its grants, and its votes in calls that wait.",
        reply=RevokedReply,
        body=RevokeGivenBody,
    ),
)
